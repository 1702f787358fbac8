"""The compiled form of a drawn workflow: indexed once, then only read.

`compile_plan` makes a `Plan` from a validated graph; the rules walk it. Nodes refer to each other directly, so a step
never searches. Unreachable nodes and their edges are left out: no rows, no verdicts. A plan never changes, and all runs
of a version share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.drawn.scopes import is_item_of
from anabranch.engine.rules.entry_points import START_TYPE, WORKFLOW_CALL_TYPE
from anabranch.engine.rules.events import DEFAULT_HANDLE, DONE_HANDLE, ELSE_HANDLE
from anabranch.engine.rules.graph.loop_config import CURSOR_TYPE, LOOP_TYPE
from anabranch.engine.rules.graph.pools import DEFAULT_POOL
from anabranch.engine.rules.graph.priorities import NORMAL
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.template import Template
from anabranch.engine.rules.values import VALUE_BYTES_MAX, Payload


def ignored_handle(node_type: str) -> str:
    """Loop and cursor `done`, condition `else`, others `default`."""
    if node_type in (LOOP_TYPE, CURSOR_TYPE):
        return DONE_HANDLE
    return ELSE_HANDLE if node_type == "condition" else DEFAULT_HANDLE


@dataclass(frozen=True, slots=True, eq=False)
class GivenResult:
    """The result of a node that completes at once, without being executed."""

    output: Payload
    handle: str | None
    note: Payload
    """What its NODE_DISPATCHED says: why it is not executed."""


NODE_OUTPUT_PREFIX = "__node_"
"""Before the id of a node: the name that its output has in contexts."""

# `start` wraps the input, which may have the maximum size, in an object.
START_OUTPUT_BYTES_MAX = VALUE_BYTES_MAX + 64

Evaluator: TypeAlias = Callable[[Mapping[str, Any], TemplateBudget], tuple[Any, str | None]]
"""The result of a pure node in a context: its output and its handle (None: the default one).

It has no clock, no randomness, no secrets, no logging, no I/O: called twice, it returns the same. It pays for its
templates from the budget, and raises what a handler would raise.
"""


@dataclass(slots=True, eq=False)
class PlanEdge:
    """A forward edge: live when its source completes with `handle`. Back edges are not in the plan as edges."""

    handle: str
    target: PlanNode


@dataclass(slots=True, eq=False)
class LoopSpec:
    """How a loop node iterates."""

    mode: str
    """`forEach` or `while`."""
    concurrency: int
    """Open iterations at most; 1 in `while`, where each needs the last one's result."""
    on_item_error: str
    """`fail`, `collect` or `skip`."""
    iterations_max: int
    condition: Template | None
    """The `while` expression."""
    yields: Template | None
    """The `yield` template: the value of an iteration, resolved in its final context."""
    body: Body
    done_handle: str = DONE_HANDLE
    """The handle that it leaves by once all iterations have ended."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionExit:
    """An edge that leads out of a region: the target of its verdict when the region ends.

    If none of the three is set, it leads back to the header of the enclosing region.
    """

    source: PlanNode
    handle: str
    target: PlanNode | None = None
    """A node of the body around the region."""
    outer: int | None = None
    """The exit of the region around it that the same edge is: its number there."""
    returns: bool = False
    """It leads back to the loop node whose body the region is in."""


@dataclass(slots=True, eq=False)
class PlanRegion:
    """A loop without a loop node: its passes run one after the other, while an again edge is live."""

    body: Body
    """The nodes of a pass."""
    passes_max: int
    exits: tuple[RegionExit, ...] = ()


AGAIN = -1
"""In place of the number of an exit: the edge leads back to the header of its region."""


@dataclass(frozen=True, slots=True, eq=False)
class LeavingEdge:
    """An edge by which a node of a region leaves the pass that it runs in."""

    handle: str
    exit: int
    """The number of the exit; AGAIN for an again edge."""


@dataclass(frozen=True, slots=True)
class CallbackInReach:
    """A node that waits for a callback, seen from a node in its body or in an inner one."""

    node_id: str
    depth: int
    """How many iterations and passes are around the waiting node: so many steps of the sender's scope are its."""
    timeout_ms: int

    def scope_of(self, scope: str) -> str:
        """The scope that it waits in, from that of the node that sends its address."""
        return "/".join(scope.split("/")[: self.depth])


@dataclass(slots=True, eq=False)
class Body:
    """The nodes that live in one kind of scope: the root, the iterations of one loop, or the passes of one region."""

    loop: PlanNode | None
    """The loop node; None at the root, and in a region."""
    header: PlanNode | None = None
    """The header of the region that this is; None for the root and for loops."""
    outer: Body | None = None
    """Of a region: the body around it."""
    nodes: tuple[PlanNode, ...] = ()
    """Every node directly here (not those of inner loops and regions), in topological order; the header of an inner
    region stands for the region."""
    entries: tuple[tuple[PlanNode, int], ...] = ()
    """Targets of the loop's `loop` edges with the number of such edges: live when the scope opens."""
    first: tuple[PlanNode, ...] = ()
    """Those entries that `entries` alone make ready: dispatched when the scope opens."""


@dataclass(slots=True, eq=False)
class PlanNode:
    """One node, with everything a decision needs to know about it."""

    id: str
    type: str
    config: Mapping[str, Any]
    output_variable: str | None
    join_any: bool
    error_handling: str
    """`continue`, `ignore` or `fail_workflow`."""
    retry: RetryPolicy
    timeout_ms: int | None
    """Bound of one execution of the handler; None only where the type has none."""
    handles: frozenset[str]
    """Every handle the node has (with `error` where the type has it)."""
    exits: frozenset[str]
    """Those that its handler may name: all but `error`, which only the engine picks."""
    home: Body
    """The body that this node lives in; of the header of a region the region."""
    knows_exits: bool = True
    """False if its type is not known here: `exits` are those with an edge, and it may leave by others."""
    heartbeat_ms: int | None = None
    """How long an execution may be without a sign of life (`helpers.progress`); None: for ever."""
    pool: str = DEFAULT_POOL
    """The workers that execute it."""
    priority: str = NORMAL
    """Which of its pool's jobs executors begin first."""
    output_bytes_max: int = VALUE_BYTES_MAX
    """How large its output may be as JSON."""
    in_count: int = 0
    """Incoming edges that have a verdict: all but back and again edges. For entries, `loop` edges count too."""
    edges: tuple[PlanEdge, ...] = ()
    """Outgoing forward edges inside `home`; for a loop node those of `done` and `error`, never of `loop`."""
    leaving: tuple[LeavingEdge, ...] = ()
    """Of a node in a region: again edges and exits."""
    region: PlanRegion | None = None
    """The region that begins at this node."""
    back_handles: frozenset[str] = frozenset()
    """Handles with an edge back to the loop that `home` belongs to; none in a region, where they are exits."""
    has_error_edge: bool = False
    """An edge (forward or back) leaves by `error`."""
    is_sink: bool = False
    """No edge leaves it at all (back edges included): its output may be its iteration's value."""
    loop: LoopSpec | None = None
    """Of a loop, and of a mapped node as a whole."""
    item: PlanNode | None = None
    """Of a mapped node as a whole: the node as it runs for one item, which is all that its loop has in its body."""
    is_cursor: bool = False
    """It hands out batches of a list, and gets the number of items that it has already handed out."""
    is_end: bool = False
    terminate: bool = False
    """An `end` with `terminate: true`."""
    end_name: str | None = None
    """`config.name` of an `end`: the key its object is written under."""
    given: GivenResult | None = None
    """It is disabled, or pinned in a test run. None: it is executed."""
    evaluate: Evaluator | None = None
    """Of a pure node: it is evaluated by the decision that dispatches it. None: it is executed as a job."""
    is_input: bool = False
    """Its output is the input of the run: a webhook of a test run that waits for a request."""
    callbacks: tuple[CallbackInReach, ...] = ()
    """The nodes whose callback addresses it reads, as `ctx.callbacks`. With any it is executed as a job."""
    output_name: str = field(init=False)
    """The name that its output has in contexts, whatever its `output_variable` is."""

    def __post_init__(self) -> None:
        self.output_name = NODE_OUTPUT_PREFIX + self.id

    @property
    def ignored_handle(self) -> str:
        """The handle that is live when a failure is ignored, and of a disabled node."""
        return DEFAULT_HANDLE if self.item is not None else ignored_handle(self.type)

    def may_leave_by(self, handle: str | None) -> bool:
        """Whether its handler may name this handle."""
        return handle is None or handle in self.exits or not self.knows_exits

    def within(self, body: Body) -> PlanNode:
        """The node as it runs in a body: for one item in that of a mapped node."""
        return self.item if self.item is not None and self.item.home is body else self


@dataclass(slots=True, eq=False)
class Plan:
    """A workflow version, ready to run."""

    nodes: dict[str, PlanNode]
    """Reachable nodes by id."""
    entry_points: tuple[PlanNode, ...]
    """Where a run may begin. It begins at one of them; the others are skipped at once."""
    root: Body
    needs: tuple[str, ...] = ()
    """The types that its nodes have and not every worker, and the pools that they are in unless that is the default
    one only (`pools`), sorted."""
    deadline_ms: int | None = None
    """`workflowOptions.deadline`: counted from max(createdAt, availableAt)."""
    retention_ms: int | None = None
    input_schema: Mapping[str, Any] | None = field(default=None)
    """Of the input of a run that begins at its start node."""
    trigger_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of the input of a run that names where it begins, by that id."""

    entry_point_by_trigger: Mapping[str | None, PlanNode] = field(init=False)
    """The entry points that are not disabled, by id; under None the start node, where runs without a trigger begin."""

    def __post_init__(self) -> None:
        points: dict[str | None, PlanNode] = {node.id: node for node in self.entry_points if node.given is None}
        start = next((node for node in points.values() if node.type == START_TYPE), None)
        if start is not None:
            points[None] = start
        self.entry_point_by_trigger = points

    @property
    def start(self) -> PlanNode | None:
        """The node at which a run begins that somebody starts."""
        return self.entry_point_by_trigger.get(None)

    @property
    def called(self) -> PlanNode | None:
        """The node at which a run begins that another run starts."""
        points = self.entry_point_by_trigger.values()
        return next((node for node in points if node.type == WORKFLOW_CALL_TYPE), None) or self.start

    def node_at(self, node_id: str, scope: str) -> PlanNode | None:
        """The node as it runs in a scope; None if it cannot be reached."""
        node = self.nodes.get(node_id)
        if node is None or node.item is None or not is_item_of(node_id, scope):
            return node
        return node.item

    @property
    def pools(self) -> frozenset[str]:
        """The pools of the nodes that are executed as jobs."""
        nodes = (node if node.item is None else node.item for node in self.nodes.values() if node.given is None)
        return frozenset(node.pool for node in nodes if node.evaluate is None)

    @property
    def types(self) -> frozenset[str]:
        """The types of its nodes, but for those that are not executed. A disabled trigger counts: who does not know the
        type does not know that the run may begin elsewhere."""
        nodes = (node for node in self.nodes.values() if node.given is None or node in self.entry_points)
        return frozenset(node.type if node.item is None else node.item.type for node in nodes)
