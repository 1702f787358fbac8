"""Reading of one run in a memory store: it goes through the log where a database uses indexes.

Pure questions to a log, called by `memory.MemoryStore`.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.engine.ports import NO_ACTIVATIONS, ActivationPage, InstanceRow, RunReading
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID
from anabranch.engine.rules.drawn.scopes import base_of
from anabranch.engine.rules.event_payloads import SignalAwaited, SignalTaken, read_wait
from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType
from anabranch.engine.rules.history import ALL_ACTIVATIONS, ActivationFilter, loop_of
from anabranch.engine.rules.shared.left_out import is_left_out, reopened_by
from anabranch.testing.memory_store.records import InstanceRecord


def run_of(record: InstanceRecord, *, activations_max: int) -> RunReading:
    """The data of a run's view, with its first activations."""
    row, events = record.row, record.events
    end = events[-1] if row.status.is_terminal else None
    page = NO_ACTIVATIONS
    if activations_max:
        page = activations_of(record, after_seq=0, limit=activations_max, bytes_max=2**62)
    return RunReading(
        row, events[0], end, None if end is not None else _note(row, events), page, _suspended(row, events)
    )


def activations_of(
    record: InstanceRecord,
    *,
    after_seq: int,
    limit: int,
    bytes_max: int,
    only: ActivationFilter = ALL_ACTIVATIONS,
) -> ActivationPage:
    """Payloads are all there, since they cost nothing."""
    firsts: dict[ActivationKey, Event] = {}
    latest: dict[ActivationKey, Event] = {}
    left_out = record.row.head.left_out
    for event in record.events:
        if event.node_id != FUNCTION_NODE_ID and not is_left_out(left_out, event.seq):
            firsts.setdefault((event.node_id, event.scope), event)
            latest[event.node_id, event.scope] = event
    after = [
        key
        for key, event in firsts.items()
        if event.seq > after_seq and only.may_take(*key, latest[key].type if latest[key].type in ENDINGS else None)
    ]
    page: list[ActivationKey] = []
    size = 0
    for key in after[:limit]:
        if bytes_max and size >= bytes_max:
            break
        page.append(key)
        if latest[key].type is EventType.NODE_COMPLETED:
            size += latest[key].payload.size
    events = {event.seq: event for key in page for event in (firsts[key], latest[key])}
    if page:
        reopenings = reopened_by(left_out, after_seq=firsts[page[0]].seq)
        events.update((seq, record.events[seq - 1]) for seq in reopenings)
    marks = [firsts[key].mark for key in page]
    rows = {mark.latest_row for mark in marks if mark is not None}
    times = {row: record.events[row - 1].created_at for row in rows if row is not None}
    next_seq = firsts[page[-1]].seq if len(page) < len(after) else None
    loops = ((loop_of(base), node_id) for node_id, scope in firsts if (base := base_of(scope)).endswith("]"))
    iterated = frozenset(
        loop for loop, node_id in loops if loop[0] != node_id
    )  # a mapped node has no exit to its items
    return ActivationPage([events[seq] for seq in sorted(events)], times, next_seq, iterated)


def signal_rows(record: InstanceRecord, *, after_seq: int, open_waits: Sequence[ActivationKey]) -> list[Event]:
    """The rows after a seq that are about signals and the waits for them."""
    waits = set(open_waits)
    found = []
    for event in record.events[after_seq:]:
        if is_left_out(record.row.head.left_out, event.seq):
            continue
        key = (event.node_id, event.scope)
        is_wait = event.type is EventType.NODE_WAITING and isinstance(
            read_wait(event.payload), SignalAwaited | SignalTaken
        )
        if is_wait:
            waits.add(key)
        if is_wait or event.type is EventType.SIGNAL_RECEIVED or (event.type in ENDINGS and key in waits):
            found.append(event)
    return found


def _suspended(row: InstanceRow, events: Sequence[Event]) -> Event | None:
    if row.suspended_for is None:
        return None
    return next(event for event in reversed(events) if event.type is EventType.INSTANCE_SUSPENDED)


def _note(row: InstanceRow, events: Sequence[Event]) -> Event | None:
    for event in reversed(events) if row.head.kind == CODED_KIND else ():
        if event.type is EventType.SYSTEM_SET:
            return event
        if event.mark is not None:
            return None
    return None
