"""Check that the row of a run agrees with its log and with the rows of its family. Pure.

Called by `data_doctor` with a row and its log from one snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.event_payloads import read_error, read_forked_from, read_signal
from anabranch.engine.rules.events import (
    ENDINGS,
    TERMINALS,
    ActivationKey,
    Event,
    EventType,
    Status,
    SuspendReason,
)
from anabranch.engine.rules.evolve import AnyState, outstanding
from anabranch.engine.rules.shared.child_ids import child_id as id_of_child
from anabranch.engine.rules.shared.left_out import Ranges, is_left_out
from anabranch.service.data_check.data_finding import DataFault

# A day: no lease is nearly as long, and no pause after a crash or before a suspended run is offered again.
AHEAD_MS_MAX = 86_400_000

Note = Callable[[DataFault, str, int | None], None]


@dataclass(slots=True, eq=False)
class LogFacts:
    """Facts collected while a log is read, so that it is never in memory as a whole."""

    note: Note
    left_out: Ranges
    """The rows that reopenings left out: they only count for the number and size of rows."""
    rows: int = 0
    bytes: int = 0
    reopenings: int = 0
    forked_from: str | None = None
    is_broken: bool = False
    ended: Event | None = None
    _endings: set[ActivationKey] = field(default_factory=set)
    _keys: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Add the next row."""
        self.rows += 1
        self.bytes += event.payload.weight
        if event.seq != self.rows and not self.is_broken:
            self.is_broken = True
            self.note(DataFault.LOG_BROKEN, f"row {self.rows} is not there; the next one is {event.seq}", event.seq)
        division = event.payload.division
        for part in () if division is None else division.missing:
            self.note(DataFault.VALUE_MISSING, f"the value {part.sha256} of the row is not stored", event.seq)
        if event.type is EventType.INSTANCE_REOPENED:
            self.reopenings += 1
        if event.type is EventType.FORKED_FROM:
            self.forked_from = read_forked_from(event.payload).instance_id
        if event.error_message != _error_in(event):
            self.note(DataFault.LOG_ROW_DIFFERS, "its error_message is not that of the error in its payload", event.seq)
        if is_left_out(self.left_out, event.seq):
            return
        if self.ended is not None:
            self.is_broken = True
            self.note(DataFault.END_REPEATED, f"{event.type.value} is written after {self.ended.type.value}", event.seq)
        if event.type in ENDINGS:
            key = (event.node_id, event.scope)
            if key in self._endings:
                self.is_broken = True
                where = f" in {event.scope}" if event.scope else ""
                self.note(DataFault.ENDING_REPEATED, f"'{event.node_id}'{where} has ended twice", event.seq)
            self._endings.add(key)
        if event.type in TERMINALS:
            self.ended = event
        signal_key = read_signal(event.payload).key if event.type is EventType.SIGNAL_RECEIVED else None
        if signal_key is not None:
            if signal_key in self._keys:
                self.note(
                    DataFault.SIGNAL_REPEATED, f"the signal with the key {signal_key!r} is stored twice", event.seq
                )
            self._keys.add(signal_key)


def _error_in(event: Event) -> str | None:
    """What the column `error_message` repeats of the payload."""
    if event.type is EventType.INSTANCE_FAILED:
        error = event.payload.value
    elif event.type in (EventType.NODE_FAILED, EventType.NODE_ATTEMPT_FAILED):
        error = read_error(event.payload)
    else:
        return None
    message: str = error["message"]
    return message


def row_and_log(row: InstanceRow, log: LogFacts, state: AnyState | None, *, now: int, note: Note) -> None:
    """Compare a row with its log, and with the state that the log folds to (None: it cannot be folded)."""
    if log.rows < row.last_seq and not log.is_broken:
        note(DataFault.LOG_BROKEN, f"the last rows are not there: {log.rows} of {row.last_seq}", log.rows)
    elif log.rows != row.last_seq and not log.is_broken:
        note(DataFault.LOG_BROKEN, f"the row counts {row.last_seq} rows of the log, and there are {log.rows}", None)
    if row.log_bytes not in (0, log.bytes):
        note(
            DataFault.LOG_SIZE_DIFFERS, f"the row says {row.log_bytes} bytes of payloads, the log has {log.bytes}", None
        )
    if row.status.is_terminal and (row.worker_id is not None or row.available_at is not None):
        note(DataFault.ENDED_RUN_HELD, f"it is {row.status.value} and still owned or due", None)
    if row.status.is_terminal != (row.completed_at is not None):
        note(DataFault.TIMES_DIFFER, f"it is {row.status.value}, and completed_at is {row.completed_at}", None)
    if row.worker_id is not None and (row.available_at is None or row.available_at > now + AHEAD_MS_MAX):
        note(DataFault.LEASE_ENDLESS, f"worker {row.worker_id} holds it under a lease without end", None)
    if row.head.generation != log.reopenings and not log.is_broken:
        message = f"the row says generation {row.head.generation}, the log {log.reopenings}"
        note(DataFault.STATUS_DIFFERS, message, None)
    if row.head.forked_from != log.forked_from and not log.is_broken:
        message = f"the row says that it is forked from {row.head.forked_from}, the log from {log.forked_from}"
        note(DataFault.FAMILY_DIFFERS, message, None)
    if state is not None:
        for fault, message in _row_and_state(row, state, now):
            note(fault, message, None)


def _row_and_state(row: InstanceRow, state: AnyState, now: int) -> Iterator[tuple[DataFault, str]]:
    alike = {row.status, state.status} <= {Status.RUNNING, Status.WAITING}
    if row.status is not state.status and not alike:
        yield DataFault.STATUS_DIFFERS, f"the row says {row.status.value}, the log {state.status.value}"
    if (row.started_at is not None) != state.started:
        yield (
            DataFault.TIMES_DIFFER,
            f"started_at is {row.started_at}, and by its log it has {'' if state.started else 'not '}begun",
        )
    reason = None if state.suspension is None or state.is_terminal else state.suspension.reason
    if row.suspended_for is not reason:
        reasons = [None if each is None else each.value for each in (row.suspended_for, reason)]
        yield DataFault.SUSPENSION_DIFFERS, f"the row is suspended for {reasons[0]}, the log for {reasons[1]}"
    if state.is_terminal or row.status.is_terminal:
        return
    if not (outstanding(state) or state.signals.has_open_waits or state.suspension):
        yield DataFault.RUN_STUCK, "it is open, and by its log nothing would ever move it again"
    due = _due(state)
    # A run that may have killed a process is due again only some time after each crash.
    latest = max(due or 0, now if due is not None and row.blame is None else now + AHEAD_MS_MAX)
    is_late = due is not None if row.available_at is None else row.available_at > latest
    if row.worker_id is None and is_late:
        what = "nothing is due" if due is None else f"something is due at {due}" if due else "work is outstanding"
        yield DataFault.RUN_STUCK, f"no worker owns it, {what}, and no worker looks at it before {row.available_at}"


def _due(state: AnyState) -> int | None:
    """When a worker has to look at a run that nobody owns; None: after a change from outside only."""
    if state.suspension is None:
        return 0 if state.running else state.next_due()
    # Only its deadline; of a run that no worker can decide, who looks for such deadlines needs no `available_at`.
    return None if state.suspension.reason is SuspendReason.ENGINE_DEFECT else state.next_due()


def family(
    row: InstanceRow, state: AnyState | None, others: Mapping[str, InstanceRow | None], *, now: int, note: Note
) -> None:
    """Compare a row with those of its parent and of the children that it waits for."""
    head = row.head
    if len({each is None for each in (head.parent_id, head.parent_node_id, head.parent_scope, head.root_id)}) > 1:
        note(DataFault.FAMILY_DIFFERS, "the row names a part of what a child has: parent, node, scope, root", None)
    parent = None if row.head.parent_id is None else others.get(row.head.parent_id)
    if parent is not None:
        _parent(row, parent, now=now, note=note)
    elif row.head.parent_waits and not row.status.is_terminal and row.head.parent_id not in others:
        note(DataFault.CHILD_ABANDONED, f"it is awaited by run {row.head.parent_id}, which is not stored", None)
    for child_id in () if state is None or state.is_terminal else state.children:
        if child_id not in others:
            note(DataFault.CHILD_MISSING, f"it waits for run {child_id}, which is not stored", None)


def _parent(row: InstanceRow, parent: InstanceRow, *, now: int, note: Note) -> None:
    head = row.head
    if head.depth != parent.head.depth + 1 or head.root_id != (parent.head.root_id or parent.head.instance_id):
        note(DataFault.FAMILY_DIFFERS, f"depth and root are not those of a child of run {head.parent_id}", None)
    of_parent = (parent.head.instance_id, head.parent_node_id or "", head.parent_scope or "")
    if all(id_of_child(*of_parent, number) != head.instance_id for number in range(parent.head.generation + 1)):
        note(
            DataFault.FAMILY_DIFFERS, f"its id is not one of a child that its node starts in run {head.parent_id}", None
        )
    if head.parent_waits and parent.status.is_terminal and not row.status.is_terminal:
        note(DataFault.CHILD_ABANDONED, f"it is awaited by run {head.parent_id}, which is {parent.status.value}", None)


def parents_to_wake(
    state: AnyState, row: InstanceRow, others: Mapping[str, InstanceRow | None], *, now: int
) -> Iterator[str]:
    """Children that have ended although the run is parked as if they had not."""
    parked = row.worker_id is None and (row.available_at is None or row.available_at > now)
    if parked and state.suspension is None and not state.is_terminal:
        for child_id in state.children:
            child = others.get(child_id)
            if child is not None and child.status.is_terminal:
                yield child_id
