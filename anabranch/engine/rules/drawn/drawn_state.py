"""The state of a drawn run: scopes, open activations, running loops, and what templates can read.

Plain objects that only `evolve` changes. A state has one owner. When a commit loses, the state is discarded, never
rolled back.

A context is a cheap snapshot of what `{{ctx.…}}` reads. Each scope keeps one persistent map of name → (seq, value). A
snapshot is a tuple of the maps from the scope of the activation up to the root: it costs the depth of nesting, and
copies nothing. The latest writer (by `seq`) wins, whichever scope it wrote in. Loop names (`item`, `index`, `count`,
`results`) are bound when an iteration opens; inner ones shadow outer ones.

An iteration is open from the first event in its scope until its last activation has ended. Its value is derived then
and never stored, so a recovery derives the same one.

Beside the names a context carries the facts of the attempt: the time of its NODE_DISPATCHED row, the run, the workflow.

A pass of a region (a loop drawn without a loop node) has its own scope for verdicts, but not for names: the next pass
and the nodes after the region see what its nodes write. While a pass is open, or the next one is to be opened, the
header of the region is open in the scope around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from immutables import Map

from anabranch.engine.rules.events import ActivationKey
from anabranch.engine.rules.graph.loop_config import CURSOR_POSITION
from anabranch.engine.rules.graph.plan import Body, LoopSpec, Plan, PlanNode
from anabranch.engine.rules.shared.run_state import InstanceHead, OpenActivation, Phase, RunState
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.engine.rules.values import NULL, VALUE_BYTES_MAX, Payload
from anabranch.errors import AnabranchError, RunError, ValueTooLarge

__all__ = ["Activation", "ContextSnapshot", "InstanceHead", "InstanceState", "LoopRun", "Phase", "Scope"]

Entries = Map[str, tuple[int, Any]]
"""What one scope has written: name → (seq of the writing event, value)."""

NO_ENTRIES: Entries = Map()

_MISSING: Any = object()

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_DISPATCHED = Phase.DISPATCHED


class Prefix:
    """The first items of a list that still grows: copied when read, not when bound."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._length = len(items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prefix) and self.copy() == other.copy()

    __hash__ = None  # type: ignore[assignment]  # a list by other means

    def __repr__(self) -> str:
        return f"Prefix({self.copy()!r})"

    def copy(self) -> list[Any]:
        """A copy of the items that existed when this was created."""
        return self._items[: self._length]


class ContextSnapshot(Mapping[str, Any]):
    """A frozen view of the names visible to one activation. Values are shared: do not change them."""

    __slots__ = ("_bindings", "_maps", "facts")

    def __init__(
        self,
        maps: tuple[Entries, ...],
        bindings: tuple[Mapping[str, Any], ...] = (),
        facts: Facts | None = None,
    ) -> None:
        """`maps` and `bindings` (loop names) are given innermost first."""
        self._maps = maps
        self._bindings = bindings
        self.facts = facts
        """Of the attempt whose view it is; None: it is of none."""

    def within(self, bindings: Mapping[str, Any]) -> ContextSnapshot:
        """The same view from inside an iteration with these loop names."""
        return ContextSnapshot(self._maps, (bindings, *self._bindings), self.facts)

    def of_attempt(self, facts: Facts) -> ContextSnapshot:
        """The same view for another attempt."""
        return ContextSnapshot(self._maps, self._bindings, facts)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        for binding in self._bindings:
            if name in binding:
                value = binding[name]
                return value.copy() if isinstance(value, Prefix) else value
        newest = None
        for entries in self._maps:
            entry = entries.get(name)
            if entry is not None and (newest is None or entry[0] > newest[0]):
                newest = entry
        return default if newest is None else newest[1]

    def __getitem__(self, name: str) -> Any:
        value = self.get(name, _MISSING)
        if value is _MISSING:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        for names in (*self._bindings, *self._maps):
            for name in names:
                if name not in seen:
                    seen.add(name)
                    yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in (*self._bindings, *self._maps))


NO_CONTEXT = ContextSnapshot(())
"""Of a region, which resolves nothing itself."""


class Activation(OpenActivation):
    """An open activation of a node: dispatched and not ended yet."""

    __slots__ = ("context", "loop", "next_handle", "node", "output", "region", "scope")

    def __init__(self, node: PlanNode, scope: Scope, context: ContextSnapshot) -> None:
        # As `OpenActivation.__init__` does, without the cost of a call.
        self.phase = _DISPATCHED
        self.attempt = 1
        self.due_at = self.signal_wait = self.child_id = self.redone = None
        self.due_seq = 0
        self.node = node
        self.scope = scope
        self.context = context
        """Snapshot before the first NODE_DISPATCHED: every attempt sees the same, but for its own time."""
        self.output: Payload | None = None
        """Of a delay: what it completes with once it is over."""
        self.next_handle: str | None = None
        self.loop: LoopRun | None = None
        self.region: RegionRun | None = None
        """Set if this is not an activation of the node, but of the region whose header it is."""

    @property
    def key(self) -> ActivationKey:
        """Node id and scope: the key of the activation within its run."""
        return self.node.id, self.scope.path


class RegionRun:
    """An open region: its current pass, and the verdicts so far of the edges that leave it."""

    __slots__ = ("exits", "is_again", "number", "open_pass", "positions")

    def __init__(self) -> None:
        self.number = 0
        """Of the latest pass, from 1 on."""
        self.open_pass: Scope | None = None
        self.is_again = False
        """An again edge was live in the latest pass."""
        self.exits: dict[int, Payload] = {}
        """By number what the sources of those exits came to that were live in any pass, the latest one last."""
        self.positions: dict[str, int] = {}
        """How many items each cursor in it has handed out, by node id."""


class Scope:
    """The root, an iteration of a loop or a pass of a region: verdict counters, open activations, what was written."""

    __slots__ = (
        "around",
        "back",
        "bindings",
        "body",
        "bytes",
        "dead",
        "ended",
        "entries",
        "error",
        "index",
        "live",
        "open",
        "owner",
        "parent",
        "path",
        "region",
        "remaining",
        "sinks",
    )

    def __init__(self, path: str, body: Body, parent: Scope | None, owner: Activation | None, index: int) -> None:
        is_pass = body.header is not None
        self.path = path
        self.body = body
        self.parent = parent
        self.owner = None if is_pass else owner
        """The loop activation that this is an iteration of; None at the root, and in a pass."""
        self.region = owner if is_pass else None
        """The region that this is a pass of."""
        self.around = parent.base if is_pass and parent is not None else None
        """Of a pass: its `base`."""
        self.index = index
        self.live: dict[str, int] = {node.id: edges for node, edges in body.entries}
        self.dead: dict[str, int] = {}
        self.open: dict[str, Activation] = {}
        self.ended: set[str] = set()
        self.remaining = len(body.nodes)
        self.entries: Entries = NO_ENTRIES
        self.bindings: Mapping[str, Any] | None = None
        self.bytes = 0
        """JSON bytes that nodes of this scope wrote into the context."""
        self.error: RunError | None = None
        """The unhandled error that made this iteration fail."""
        self.back: Payload | None = None
        """Output of the node on the latest live back edge: the iteration's value."""
        self.sinks: dict[str, tuple[PlanNode, Payload]] = {}
        """What its nodes without outgoing edges came to, by node id; in a region the last time."""

    @property
    def base(self) -> Scope:
        """The nearest scope that is not a pass: names are written there, and an unhandled failure ends it.

        `around` is not stored if it is the scope itself: the reference cycle would keep an ended iteration alive until
        a garbage collection.
        """
        return self.around or self

    def position_of(self, cursor: PlanNode) -> int:
        """How many items a cursor has handed out in the passes of its region so far; none outside of a region."""
        run = None if self.region is None else self.region.region
        return 0 if run is None else run.positions.get(cursor.id, 0)

    def advance(self, cursor: PlanNode, batch: Any) -> None:
        """A cursor has handed out a batch."""
        if self.region is not None and self.region.region is not None and isinstance(batch, list):
            self.region.region.positions[cursor.id] = self.position_of(cursor) + len(batch)


class InstanceState(RunState[Activation, Activation]):
    """Everything that decisions about one drawn instance need."""

    __slots__ = ("_facts", "dispatch_times", "ends", "plan", "root", "scopes", "trigger", "unfinished")

    def __init__(self, plan: Plan, head: InstanceHead) -> None:
        super().__init__(head)
        self.dispatch_times: Mapping[ActivationKey, int] = {}
        """Of a replay: when the recorded run dispatched its activations, which is `now` in the replay, too."""
        self.plan = plan
        self.trigger: str | None = None
        """The trigger that the run begins at; None: `start`."""
        self.root = Scope("", plan.root, None, None, 0)
        self.scopes: dict[str, Scope] = {"": self.root}
        self.unfinished: dict[ActivationKey, Activation] = {}
        """Loops that may open an iteration at once, and regions the next pass, by (node id, scope).

        They are left like this where a decision had worked enough.
        """
        self._facts: Facts | None = None
        """Of the latest attempt: those that one decision dispatches have the same."""
        self.ends: list[tuple[str | None, Any]] = []
        """What the root End nodes collected, in seq order."""

    def activation(self, node_id: str, scope: str) -> Activation | None:
        """The open activation of a node in a scope, if there is one."""
        home = self.scopes.get(scope)
        return None if home is None else home.open.get(node_id)

    def next_due(self) -> int | None:
        """When the next delay, retry, wait or deadline is due, or the instance may begin; None: never by itself.

        A loop that is not finished with opening iterations is due since it opened.
        """
        due = super().next_due()
        if not self.unfinished:
            return due
        times = [loop.due_at for loop in self.unfinished.values() if loop.due_at is not None]
        return min(times if due is None else [due, *times], default=None)

    def facts_at(self, now_ms: int) -> Facts:
        """The facts for an attempt that was dispatched then."""
        facts = self._facts
        if facts is None or facts.now_ms != now_ms:
            facts = self._facts = Facts(now_ms, self.head.instance_id, self.head.workflow_name)
        return facts

    def context_of(self, scope: Scope, facts: Facts | None = None) -> ContextSnapshot:
        """A snapshot of the context of an activation in this scope."""
        scope = scope.around or scope
        if scope.parent is None:
            return ContextSnapshot((scope.entries,), (), facts)
        maps, bindings = [], []
        level: Scope | None = scope
        while level is not None:
            maps.append(level.entries)
            if level.bindings is not None:
                bindings.append(level.bindings)
            level = level.parent and (level.parent.around or level.parent)
        return ContextSnapshot(tuple(maps), tuple(bindings), facts)

    def context_for_cursor(self, cursor: PlanNode, scope: Scope, facts: Facts) -> ContextSnapshot:
        """The same for an activation of a cursor, whose context has its position in the list."""
        return self.context_of(scope, facts).within({CURSOR_POSITION: scope.position_of(cursor)})

    def context_bytes(self, scope: Scope) -> int:
        """JSON bytes of the context that this scope sees."""
        total, level = 0, scope
        while True:
            total += level.bytes
            if level.parent is None:
                return total
            level = level.parent

    def output(self) -> Any:
        """The merge of the root End nodes' objects so far, in seq order; None if no End was reached."""
        return merged_ends(self.ends)


def merged_ends(ends: Sequence[tuple[str | None, Any]]) -> Any:
    """The merged results of End nodes that collect under a name, in seq order; None if no End was reached."""
    if not ends:
        return None
    merged: dict[str, Any] = {}
    for name, collected in ends:
        merged.update({name: collected} if name is not None else collected)
    return merged


class LoopRun:
    """One execution of a loop node: open iterations and the outcomes of closed ones."""

    __slots__ = ("_results", "bytes", "count", "error", "items", "next_index", "open", "opened_at", "outcomes")

    def __init__(self, items: list[Any] | None, opened_at: int) -> None:
        self.opened_at = opened_at
        self.items = items
        """The source; None in `while`."""
        self.count = None if items is None else len(items)
        self.next_index = 0
        self.open: dict[int, Scope] = {}
        self.outcomes: dict[int, Payload | None] = {}
        """By index; None where the item is left out of the list."""
        self._results: list[Any] = []
        """`while` only: the values so far. Each round sees them up to its own beginning."""
        self.bytes = 2
        """JSON bytes of the collected list so far."""
        self.error: RunError | None = None
        """The error that the loop must fail with."""

    def bindings(self, index: int) -> Mapping[str, Any]:
        """The loop names of an iteration."""
        if self.items is not None:
            return {"item": self.items[index], "index": index, "count": self.count}
        return {"item": None, "index": index, "count": None, "results": Prefix(self._results)}

    @property
    def results_count(self) -> int:
        """How many results an iteration of `while` can see."""
        return len(self._results)

    def output(self) -> Payload:
        """The loop's output: the collected values in item order."""
        outcomes = (self.outcomes.get(index) for index in range(self.next_index))
        return Payload.list_of([outcome for outcome in outcomes if outcome is not None])

    def opened(self, index: int, scope: Scope) -> None:
        """Note that an iteration has begun."""
        self.open[index] = scope
        self.next_index = index + 1

    def closed(self, scope: Scope, context: ContextSnapshot) -> None:
        """Close an iteration after its last activation, and derive its value."""
        assert scope.owner is not None and scope.owner.node.loop is not None
        del self.open[scope.index]
        self.record(scope.owner, scope.index, *_value_of(scope, scope.owner.node.loop, context))

    def pass_through(self, owner: Activation, outer: ContextSnapshot, work: TemplateBudget) -> None:
        """Run the next iteration of a loop without body nodes. Nothing in it can wait, so it leaves no rows, and the
        next owner of the run computes all of them again.
        """
        spec, index = owner.node.loop, self.next_index
        assert spec is not None
        self.next_index = index + 1
        self.record(owner, index, *_yielded(spec, owner, outer.within(self.bindings(index)), work))

    def record(self, owner: Activation, index: int, value: Payload, error: RunError | None) -> None:
        """Record the outcome of an iteration according to `onItemError`."""
        spec = owner.node.loop
        assert spec is not None
        outcome: Payload | None = value
        if error is not None:
            if spec.on_item_error == "fail":
                self.error = self.error or error
                return
            outcome = Payload.trusted({"error": error.as_json()}) if spec.on_item_error == "collect" else None
        self.outcomes[index] = outcome
        if outcome is not None:
            if self.items is None:
                self._results.append(outcome.value)
            self.bytes += outcome.size + 1
            if self.bytes > VALUE_BYTES_MAX and self.error is None:
                message = f"the collected results of loop {owner.node.id!r} pass {VALUE_BYTES_MAX} bytes"
                self.error = error_of(ValueTooLarge(message), owner)

    def may_open(self, spec: LoopSpec) -> bool:
        """Is there room for another iteration, and (forEach) another item?"""
        if self.error is not None or len(self.open) >= spec.concurrency:
            return False
        return self.count is None or self.next_index < self.count


def error_of(error: AnabranchError, owner: Activation) -> RunError:
    """The stored form of an error that a loop's own templates or limits raised."""
    return RunError(
        code=error.code,
        type=type(error).__name__,
        message=error.message,
        node_id=owner.node.id,
        scope=owner.scope.path,
        attempt=owner.attempt,
    )


def _value_of(scope: Scope, spec: LoopSpec, context: ContextSnapshot) -> tuple[Payload, RunError | None]:
    assert scope.owner is not None
    if scope.error is not None:
        return NULL, scope.error
    if spec.yields is not None:
        return _yielded(spec, scope.owner, context, TemplateBudget())
    if scope.back is not None:
        return scope.back, None
    sinks = list(scope.sinks.values())
    if not sinks:
        return NULL, None
    if len(sinks) == 1:
        return sinks[0][1], None
    return Payload.trusted({(node.output_variable or node.id): output.value for node, output in sinks}), None


def _yielded(
    spec: LoopSpec, owner: Activation, context: ContextSnapshot, work: TemplateBudget
) -> tuple[Payload, RunError | None]:
    if spec.yields is None:
        return NULL, None
    try:
        return Payload.of(spec.yields.resolve(context, work)), None
    except AnabranchError as error:
        return NULL, error_of(error, owner)
