"""Loops: what their iterations see, and what becomes of the results.

Pure. `evolve` folds the opening and closing of iterations through `LoopRun`; `iterations` asks
it which to open next and whether the loop is done. An iteration is open from the first event
in its scope until its last activation has ended; its value is derived then, never stored on
its own, so a recovery derives the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.engine.rules.drawn.context import Context, Prefix
from anabranch.engine.rules.graph.plan import LoopSpec
from anabranch.engine.rules.templates.budget import Work
from anabranch.engine.rules.values import NULL, VALUE_BYTES_MAX, Payload
from anabranch.errors import AnabranchError, RunError, ValueTooLarge

if TYPE_CHECKING:
    from anabranch.engine.rules.drawn.state import Activation, Scope


class LoopRun:
    """One execution of a loop node: open iterations and the outcomes of closed ones."""

    __slots__ = ("_results", "bytes", "count", "error", "items", "next_index", "open", "opened_at", "outcomes")

    def __init__(self, items: list[Any] | None, count: int | None, opened_at: int) -> None:
        self.opened_at = opened_at
        self.items = items
        """The source; None in `while`."""
        self.count = count
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
        """How many results a round of `while` can see."""
        return len(self._results)

    def output(self) -> Payload:
        """The loop's output: the collected values in item order."""
        outcomes = (self.outcomes.get(index) for index in range(self.next_index))
        return Payload.list_of([outcome for outcome in outcomes if outcome is not None])

    def opened(self, index: int, scope: Scope) -> None:
        """An iteration has begun."""
        self.open[index] = scope
        self.next_index = index + 1

    def closed(self, scope: Scope, context: Context) -> None:
        """An iteration's last activation has ended: derive what it adds to the list."""
        assert scope.owner is not None and scope.owner.node.loop is not None
        del self.open[scope.index]
        self.record(scope.owner, scope.index, *_value_of(scope, scope.owner.node.loop, context))

    def pass_through(self, owner: Activation, outer: Context, work: Work) -> None:
        """Run the next iteration of a loop without body nodes: nothing in it can wait, so it leaves no rows.

        Without rows there is nothing to fold: whoever takes the instance over runs them all again.
        """
        spec, index = owner.node.loop, self.next_index
        assert spec is not None
        self.next_index = index + 1
        self.record(owner, index, *_yielded(spec, owner, outer.within(self.bindings(index)), work))

    def record(self, owner: Activation, index: int, value: Payload, error: RunError | None) -> None:
        """Enter the outcome of an iteration as `onItemError` wants it."""
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
            self.bytes += len(outcome.raw) + 1
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


def _value_of(scope: Scope, spec: LoopSpec, context: Context) -> tuple[Payload, RunError | None]:
    assert scope.owner is not None
    if scope.error is not None:
        return NULL, scope.error
    if spec.yields is not None:
        return _yielded(spec, scope.owner, context, Work())
    if scope.back is not None:
        return scope.back, None
    if not scope.sinks:
        return NULL, None
    if len(scope.sinks) == 1:
        return scope.sinks[0][1], None
    return Payload.trusted({(node.output_variable or node.id): output.value for node, output in scope.sinks}), None


def _yielded(spec: LoopSpec, owner: Activation, context: Context, work: Work) -> tuple[Payload, RunError | None]:
    if spec.yields is None:
        return NULL, None
    try:
        return Payload.of(spec.yields.resolve(context, work)), None
    except AnabranchError as error:
        return NULL, error_of(error, owner)
