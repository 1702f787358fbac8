"""The scopes of a drawn run, derived from its log: verdicts, written names, values of iterations.

Used by `drawn_check` alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import ERROR_HANDLE, LOOP_HANDLE, ActivationKey, Event
from anabranch.engine.rules.graph.plan import AGAIN, Body, LoopSpec, Plan, PlanNode
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.engine.rules.values import NULL, VALUE_BYTES_MAX, Payload
from anabranch.errors import AnabranchError, RunError


class CheckedReadiness(Enum):
    """The decision of a join, given the verdicts of its incoming edges."""

    OPEN = "open"
    DISPATCH = "dispatch"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Derived:
    """The derived result of a node or an iteration: an output and a handle, or the code of an error."""

    output: Payload = field(default_factory=lambda: NULL)
    handle: str | None = None
    error: str | None = None
    error_json: Mapping[str, Any] | None = None


class Edges:
    """The incoming edges of every node, from the plan: (source, handle).

    A loop is a source by its `loop` handle, a region by its header and the number of the exit.
    """

    def __init__(self, plan: Plan) -> None:
        self.into: dict[PlanNode, list[tuple[str, str]]] = defaultdict(list)
        for node in plan.nodes.values():
            for edge in node.edges:
                self.into[edge.target].append((node.id, edge.handle))
            if node.loop is not None:
                for target, count in node.loop.body.entries:
                    self.into[target] += [(node.id, LOOP_HANDLE)] * count
            if node.region is not None:
                for number, leaving in enumerate(node.region.exits):
                    if leaving.target is not None:
                        self.into[leaving.target].append((node.id, exit_handle(number)))


def exit_handle(number: int) -> str:
    """The handle for an exit of a region; handles of nodes contain no `#`."""
    return f"#{number}"


@dataclass(slots=True, eq=False)
class CheckedScope:
    """The root, or an iteration or a pass that is open."""

    path: str
    body: Body
    outer: CheckedScope | None = None
    loop_key: ActivationKey | None = None
    index: int = 0
    bindings: Mapping[str, Any] = field(default_factory=dict)
    names: ContextNames = field(default_factory=dict)
    handles: dict[str, frozenset[str]] = field(default_factory=dict)
    """Of each node that has ended: the handle that it left by, if any; of a region all exits that were live."""
    dispatched: set[str] = field(default_factory=set)
    bytes: int = 0
    error: Mapping[str, Any] | None = None
    """The unhandled error in it."""
    back: Payload | None = None
    sinks: dict[str, tuple[PlanNode, Payload]] = field(default_factory=dict)
    is_abandoned: bool = False
    """It has failed: what was open in it is skipped."""

    @property
    def base(self) -> CheckedScope:
        """The scope that names are written to: itself, or the one around the pass."""
        return self if self.body.header is None or self.outer is None else self.outer.base

    @property
    def is_over(self) -> bool:
        """Whether everything in it has ended."""
        return len(self.handles) == len(self.body.nodes)

    def undecided(self) -> Iterator[PlanNode]:
        """The nodes that have not ended."""
        return (node for node in self.body.nodes if node.id not in self.handles)

    def readiness(self, node: PlanNode, edges: Edges) -> CheckedReadiness:
        """Apply the join mode of a node, from the ends of its sources."""
        live = dead = 0
        incoming = edges.into[node]
        for source, handle in incoming:
            if handle == LOOP_HANDLE and self.loop_key is not None and source == self.loop_key[0]:
                live += 1
            elif source in self.handles:
                if handle in self.handles[source]:
                    live += 1
                else:
                    dead += 1
        if live and (node.join_any or live + dead == len(incoming)):
            return CheckedReadiness.DISPATCH
        return CheckedReadiness.SKIP if dead == len(incoming) else CheckedReadiness.OPEN

    def context_bytes(self) -> int:
        """JSON bytes of what a node in it sees."""
        return self.base.bytes + (0 if self.base.outer is None else self.base.outer.context_bytes())


ContextNames: TypeAlias = dict[str, list[tuple[int, Any]]]
"""What a scope has written: each name with the seqs of the writing rows and the values, in their order."""


class CheckedContext(Mapping[str, Any]):
    """The context of a node in a scope."""

    def __init__(
        self,
        scope: CheckedScope,
        facts: Facts,
        bindings: Mapping[str, Any] | None = None,
        *,
        before: int | None = None,
    ) -> None:
        """`bindings`: the loop names of an iteration of a loop in this scope that is not open. `before`: what this row
        and later ones write is not seen.
        """
        self.facts = facts
        self._before = before
        self._bindings = [] if bindings is None else [bindings]
        self._names: list[ContextNames] = []
        level: CheckedScope | None = scope.base
        while level is not None:
            self._bindings.append(level.bindings)
            self._names.append(level.names)
            level = None if level.outer is None else level.outer.base

    def __getitem__(self, name: str) -> Any:
        for bindings in self._bindings:
            if name in bindings:
                return bindings[name]
        found = [entry for names in self._names if (entry := self._seen(names.get(name, ()))) is not None]
        if not found:
            raise KeyError(name)
        return max(found, key=_seq_of)[1]

    def __iter__(self) -> Iterator[str]:
        written = (name for names in self._names for name, entries in names.items() if self._seen(entries) is not None)
        return iter(dict.fromkeys((*(name for names in self._bindings for name in names), *written)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self._bindings) or any(
            self._seen(names.get(name, ())) is not None for names in self._names if isinstance(name, str)
        )

    def _seen(self, entries: Sequence[tuple[int, Any]]) -> tuple[int, Any] | None:
        """The latest of the entries of a name that counts."""
        return next((entry for entry in reversed(entries) if self._before is None or entry[0] < self._before), None)


@dataclass(slots=True, eq=False)
class CheckedLoop:
    """A loop that was opened."""

    node: PlanNode
    scope: CheckedScope
    attempt: int
    items: list[Any] | None
    facts: Facts
    """Of that attempt."""
    next_index: int = 0
    unfinished: dict[int, CheckedScope] = field(default_factory=dict)
    """The iterations that are open."""
    outcomes: dict[int, Payload | None] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    bytes: int = 2
    error: str | None = None
    """The code of the error that it must fail with."""

    @property
    def spec(self) -> LoopSpec:
        """How it iterates."""
        assert self.node.loop is not None, "only loops are opened"
        return self.node.loop

    def bindings(self, index: int) -> dict[str, Any]:
        """The loop names of an iteration."""
        if self.items is None:
            return {"item": None, "index": index, "count": None, "results": list(self.results)}
        return {"item": self.items[index], "index": index, "count": len(self.items)}

    def goes_on(self) -> bool | str:
        """Whether there is another iteration; an error code if the loop fails instead."""
        if self.items is not None:
            return self.next_index < len(self.items)
        assert self.spec.condition is not None, "a loop has a source or a condition"
        context = CheckedContext(self.scope, self.facts, self.bindings(self.next_index))
        try:
            holds = bool(self.spec.condition.resolve(context, TemplateBudget()))
        except AnabranchError as error:
            return error.code
        return "LOOP_LIMIT" if holds and self.next_index >= self.spec.iterations_max else holds

    def run_empty(self) -> None:
        """Compute the iterations of a loop without a body, which leave no rows and consist of `yield` only."""
        while self.error is None:
            more = self.goes_on()
            if isinstance(more, str):
                self.error = more
            elif more:
                index = self.next_index
                self.next_index += 1
                self.record(index, self._yielded(CheckedContext(self.scope, self.facts, self.bindings(index))))
            else:
                return

    def closed(self, scope: CheckedScope) -> None:
        """Close an iteration."""
        del self.unfinished[scope.index]
        self.record(scope.index, self._value(scope))

    def record(self, index: int, derived: Derived) -> None:
        """Record the result of an iteration."""
        outcome: Payload | None = derived.output
        if derived.error is not None:
            if self.spec.on_item_error == "fail":
                self.error = self.error or derived.error
                return
            collects = self.spec.on_item_error == "collect"
            outcome = Payload.trusted({"error": derived.error_json}) if collects else None
        self.outcomes[index] = outcome
        if outcome is not None:
            self.results.append(outcome.value)
            self.bytes += outcome.size + 1
            if self.bytes > VALUE_BYTES_MAX:
                self.error = self.error or "VALUE_TOO_LARGE"

    def derived(self) -> Derived:
        """The result of the loop."""
        if self.error is not None:
            return Derived(error=self.error)
        values = (self.outcomes.get(index) for index in range(self.next_index))
        return Derived(Payload.list_of([value for value in values if value is not None]), self.spec.done_handle)

    def _value(self, scope: CheckedScope) -> Derived:
        if scope.error is not None:
            return Derived(error=scope.error["code"], error_json=scope.error)
        if self.spec.yields is not None:
            return self._yielded(CheckedContext(scope, self.facts))
        if scope.back is not None:
            return Derived(scope.back)
        sinks = list(scope.sinks.values())
        if len(sinks) == 1:
            return Derived(sinks[0][1])
        values = {(node.output_variable or node.id): output.value for node, output in sinks}
        return Derived(Payload.trusted(values)) if values else Derived()

    def _yielded(self, context: CheckedContext) -> Derived:
        if self.spec.yields is None:
            return Derived()
        try:
            return Derived(Payload.of(self.spec.yields.resolve(context, TemplateBudget())))
        except AnabranchError as error:
            shown = RunError(
                error.code, type(error).__name__, error.message, self.node.id, self.scope.path, self.attempt
            ).as_json()
            return Derived(error=error.code, error_json=shown)


@dataclass(slots=True, eq=False)
class CheckedRegion:
    """A region that has begun."""

    node: PlanNode
    """The header."""
    scope: CheckedScope
    """The scope around it."""
    open_pass: CheckedScope | None = None
    number: int = 0
    """Of the latest pass."""
    is_again: bool = False
    exits: dict[int, Payload] = field(default_factory=dict)
    """The exits that were live, with what their sources came to; the latest one last."""
    positions: dict[str, int] = field(default_factory=dict)
    """How many items each cursor in it has handed out."""

    @property
    def key(self) -> ActivationKey:
        """The header and the scope around it."""
        return self.node.id, self.scope.path

    def left_by(self, number: int, output: Payload) -> None:
        """Note that an edge out of its pass was live."""
        if number == AGAIN:
            self.is_again = True
        else:
            self.exits.pop(number, None)
            self.exits[number] = output


def _seq_of(entry: tuple[int, Any]) -> int:
    return entry[0]


def region_failure_handle(header: PlanNode) -> str | None:
    """The handle of the header that handles a failure of the region, if an edge leads out by it; None: unhandled."""
    assert header.region is not None
    if header.error_handling == "fail_workflow":
        return None
    handle = header.ignored_handle if header.error_handling == "ignore" else ERROR_HANDLE
    leads_out = any(each.source is header and each.handle == handle for each in header.region.exits)
    return handle if leads_out else None


def failure_handle(node: PlanNode) -> str | None:
    """The handle that handles a failure of this node; None: unhandled."""
    if node.error_handling == "ignore":
        return node.ignored_handle
    return ERROR_HANDLE if node.error_handling == "continue" and node.has_error_edge else None


def merged(ends: list[tuple[str | None, Event]]) -> Any:
    """The output of a run: what its End nodes have collected, in log order; None: none was reached."""
    output: dict[str, Any] = {}
    for name, event in ends:
        output |= event.payload.value if name is None else {name: event.payload.value}
    return output if ends else None
