"""List the iterations of one loop of a run, page by page.

Called by the service. A page reads the log, without outputs, from the row where its first iteration began until all its
iterations have ended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.drawn.scopes import base_of
from anabranch.engine.rules.events import ActivationKey, Event
from anabranch.engine.rules.history import ActivationStatus, ActivationView, History
from anabranch.engine.rules.instants import to_iso, to_iso_or_none
from anabranch.engine.rules.shared.left_out import Ranges

# 1,024 rows are folded in some milliseconds; then the event loop runs other tasks.
PAGE_ROWS = 1_024

_ENDED_WORST_FIRST = (ActivationStatus.CANCELLED, ActivationStatus.SUCCESS, ActivationStatus.SKIPPED)
_OPEN_BUSIEST_FIRST = (ActivationStatus.RUNNING, ActivationStatus.RETRYING, ActivationStatus.WAITING)


@dataclass(frozen=True, slots=True)
class PageStart:
    """The beginning of a page: after this iteration, whose successors all began after this row."""

    index: int = -1
    seq: int = 0


@dataclass(slots=True)
class _Iteration:
    index: int
    scope: str
    first_seq: int
    began_at: int | None
    activations: int = 0
    open: dict[ActivationKey, ActivationView] = field(default_factory=dict)
    seen: set[ActivationStatus] = field(default_factory=set)
    error: dict[str, Any] | None = None
    last_at: int = 0

    def take(self, activation: ActivationView) -> None:
        """Count an activation of this iteration, as it is now."""
        self.last_at = activation.at
        if activation.first_seq == activation.seq:
            self.activations += 1
        if activation.has_ended:
            self.open.pop(activation.key, None)
            self.seen.add(activation.status)
            if base_of(activation.scope) == self.scope and activation.is_unhandled:
                self.error = self.error or activation.error
        else:
            self.open[activation.key] = activation

    @property
    def status(self) -> ActivationStatus:
        if self.error is not None:
            return ActivationStatus.ERROR
        open_now = {activation.status for activation in self.open.values()}
        for status in _OPEN_BUSIEST_FIRST:
            if status in open_now:
                return status
        return next((status for status in _ENDED_WORST_FIRST if status in self.seen), ActivationStatus.SUCCESS)

    def as_json(self) -> dict[str, Any]:
        """The iteration as lists show it."""
        return {
            "index": self.index,
            "scope": self.scope,
            "status": self.status.value,
            "startedAt": to_iso_or_none(self.began_at),
            "endedAt": None if self.open or self.status is ActivationStatus.CANCELLED else to_iso(self.last_at),
            "activations": self.activations,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationsWanted:
    """A request for iterations of a loop."""

    node_id: str
    """The loop's, in `scope`."""
    scope: str = ""
    statuses: Collection[ActivationStatus] = ()
    """With one of these; empty: with any."""
    after: PageStart | None = None
    """Where the page begins; None: at the first iteration."""
    limit: int


async def iterations_page(
    store: Store, row: InstanceRow, wanted: IterationsWanted, *, after: PageStart
) -> tuple[list[dict[str, Any]], PageStart | None]:
    """The iterations by index, after `after`, and where the next page begins (None at the end)."""
    page = _Page((wanted.node_id, wanted.scope), after.index, row.head.left_out)
    found: list[dict[str, Any]] = []
    seq, is_last = after.seq, False
    while not is_last:
        rows = await store.read_rows(row.head.instance_id, after_seq=seq, limit=PAGE_ROWS)
        is_last = not rows or rows[-1].seq >= row.last_seq
        for event in rows:
            page.take(event)
            seq = event.seq
        while (iteration := page.next_finished(any_state=is_last)) is not None:
            if wanted.statuses and iteration.status not in wanted.statuses:
                continue
            found.append(iteration.as_json())
            if len(found) == wanted.limit:
                following = page.first_pending()
                if following is None and is_last:
                    return found, None
                return found, PageStart(iteration.index, seq if following is None else following - 1)
    return found, None


class _Page:
    """Folds the iterations of a loop from rows of the log."""

    def __init__(self, loop: ActivationKey, after: int, left_out: Ranges) -> None:
        node_id, outer = loop
        self._prefix = f"{outer}/{node_id}[" if outer else f"{node_id}["
        self._next = after + 1
        self._history = History(left_out=left_out)
        self._pending: dict[int, _Iteration] = {}
        """By index, in which order they begin."""
        self._now = 0

    def take(self, event: Event) -> None:
        """The next row."""
        self._now = event.created_at
        change = self._history.take(event)
        if isinstance(change, ActivationView):
            self._take(change)
        elif change is not None:
            for activation in self._history.left_open:
                self._take(activation)

    def next_finished(self, *, any_state: bool) -> _Iteration | None:
        """The next iteration by index if it has ended; at the end of the log, also an open one. Consequences have the
        time of their cause."""
        iteration = self._pending.get(self._next)
        if iteration is None or not (any_state or (not iteration.open and iteration.last_at < self._now)):
            return None
        self._next += 1
        return self._pending.pop(iteration.index)

    def first_pending(self) -> int | None:
        """The row at which the next iteration began, if it has begun."""
        iteration = self._pending.get(self._next)
        return None if iteration is None else iteration.first_seq

    def _take(self, activation: ActivationView) -> None:
        scope = activation.scope
        if not scope.startswith(self._prefix):
            return
        end = scope.index("]", len(self._prefix))
        index = int(scope[len(self._prefix) : end])
        if index < self._next:
            return
        iteration = self._pending.get(index)
        if iteration is None:
            iteration = self._pending[index] = _Iteration(
                index, scope[: end + 1], activation.first_seq, activation.began_at
            )
        iteration.take(activation)
