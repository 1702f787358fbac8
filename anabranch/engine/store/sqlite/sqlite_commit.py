"""A commit on SQLite: guards, new runs, events, parents and children.

Called by `sqlite_dialect`, inside its transactions. A batch is a few statements with at most one result row, for the
reason given there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from sqlite3 import Connection as Driver
from typing import Any

import orjson
from sqlalchemy import Connection, TextClause

from anabranch.engine.ports import Outcome, Transition
from anabranch.engine.rules.events import NODE_STATUS, Status
from anabranch.engine.store.sql.database_errors import DataRefused
from anabranch.engine.store.sql.families import cancelled_children, failures, woken_parents
from anabranch.engine.store.sql.rows import EVENT_COLUMNS, NUL_IN_JSON, new_head_values
from anabranch.engine.store.sqlite import sqlite_statements as statements
from anabranch.triggers.failure_recording import record_failures

# 1,024 rows per statement: with 25 columns below SQLite's limit of 32,766 parameters.
ROWS_PER_STATEMENT = 1_024

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_FAILED = Status.FAILED

_ENDS = frozenset(status.value for status in Status if status.is_terminal)

_Conflict = tuple[str, str | None, bool]
"""A creation that is not possible: its id, the run with its key, and whether it is rejected."""


def commit_transitions(
    connection: Connection, driver: Driver, transitions: Sequence[Transition], events: list[Any], *, now: int
) -> Outcome:
    """Write the transitions whose guards hold, and their events, inside the caller's transaction.

    `driver` is the connection's own, and `events` has the values of all events. Raises the driver's errors, too.
    """
    new_runs = [transition for transition in transitions if transition.new_run is not None]
    steps = [transition for transition in transitions if transition.new_run is None]
    existing: dict[str, str] = {}
    rejected: set[str] = set()
    woken: dict[str, int] = {}
    cancelled: set[str] = set()
    won = _advance(driver, steps, now)
    if new_runs:
        conflicts = _conflicting(connection, new_runs)
        rejected = {instance_id for instance_id, _, is_rejected in conflicts if is_rejected}
        won |= _create_run(driver, new_runs, conflicts, existing, now)
    if len(won) < len(transitions):
        events, _ = values_of_events(transition for transition in transitions if transition.instance_id in won)
    _write(driver, statements.append_events, events, len(EVENT_COLUMNS))
    family = [transition for transition in transitions if transition.wakes is not None or transition.cancels]
    if family:
        woken = wake(connection, woken_parents(family, won), now)
        cancelled = cancel(connection, "instance_id", cancelled_children(family, won), now)
    failed = [
        transition for transition in transitions if transition.status is _FAILED and transition.instance_id in won
    ]
    if failed:
        record_failures(connection, failures(failed), now=now)
    return Outcome(won, now, existing, rejected=rejected, woken=woken, cancelled=cancelled)


def one_list(connection: Connection, statement: TextClause, **parameters: Any) -> list[Any]:
    """The JSON list in the single result row and column of a statement."""
    answer: list[Any] = orjson.loads(connection.execute(statement, parameters).scalar_one())
    return answer


def _advance(driver: Driver, steps: Sequence[Transition], now: int) -> set[str]:
    """Write the transitions whose guards hold. Almost always all do; otherwise a second statement finds out which."""
    if not steps:
        return set()
    columns = len(statements.TRANSITION_COLUMNS)
    transitions = _values_of_transitions(steps, now=now)
    is_alone = len(steps) == 1
    if not is_alone:
        driver.execute("SAVEPOINT advance")
    written = _write(driver, statements.advance, transitions, columns)
    if written == len(steps):
        return {transition.instance_id for transition in steps}
    if is_alone:
        return set()
    driver.execute("ROLLBACK TO advance")
    won: set[str] = set()
    for part, rows in _parts(transitions, columns):
        won.update(orjson.loads(driver.execute(statements.matching_guards(rows), part).fetchone()[0]))
    winners = _values_of_transitions((transition for transition in steps if transition.instance_id in won), now=now)
    _write(driver, statements.advance, winners, columns)
    return won


def _conflicting(connection: Connection, new_runs: Sequence[Transition]) -> list[_Conflict]:
    keys = [
        [
            head.instance_id,
            head.tenant_id,
            head.workflow_name,
            head.idempotency_key,
            head.workflow_id,
            head.parent_id,
            head.parent_node_id,
            head.parent_scope,
            head.workflow_version if only_active else None,
        ]
        for head, only_active in ((transition.new_run, transition.only_active) for transition in new_runs)
        if head is not None
    ]
    return one_list(connection, statements.CONFLICTING_CREATIONS, new_runs=orjson.dumps(keys).decode())


def _create_run(
    driver: Driver,
    new_runs: Sequence[Transition],
    conflicts: list[_Conflict],
    existing: dict[str, str],
    now: int,
) -> set[str]:
    """Insert the possible creations; notes in `existing` the runs with used keys."""
    won = _new_runs(new_runs, conflicts, existing)
    rows = _values_of_new_runs((transition for transition in new_runs if transition.instance_id in won), now=now)
    _write(driver, statements.create_run, rows, len(statements.NEW_RUN_COLUMNS))
    return won


def _new_runs(new_runs: Sequence[Transition], conflicts: list[_Conflict], existing: dict[str, str]) -> set[str]:
    """The creations that are possible, given the tables and the batch; notes the runs with used keys."""
    conflicting_ids = {instance_id for instance_id, _, _ in conflicts}
    holders = {instance_id: holder for instance_id, holder, _ in conflicts if holder is not None}
    keys: dict[tuple[str, str, str], str] = {}
    won: set[str] = set()
    for transition in new_runs:
        head = transition.new_run
        assert head is not None, "only creations are given"
        holder = holders.get(transition.instance_id)
        if holder is None and head.idempotency_key is not None:
            key = (head.tenant_id, head.workflow_name, head.idempotency_key)
            holder = keys.get(key)
            if holder is None and transition.instance_id not in conflicting_ids:
                keys[key] = transition.instance_id
        if holder is not None:
            existing[transition.instance_id] = holder
        elif transition.instance_id not in conflicting_ids:
            won.add(transition.instance_id)
    return won


def _values_of_transitions(transitions: Iterable[Transition], *, now: int) -> list[Any]:
    """The guarded transitions of a batch, each as guard values and what to write (`TRANSITION_COLUMNS`)."""
    values: list[Any] = []
    for transition in transitions:
        status = transition.status._value_  # `value` is a descriptor, and dearer than the rest of a row
        ends = status in _ENDS
        values += (
            transition.instance_id,
            transition.expected_version,
            transition.worker_id,
            transition.events[0].seq if transition.events else None,
            transition.not_before,
            len(transition.events),
            transition.payload_bytes,
            status,
            ends,
            ends or transition.release,
            None if ends else transition.available_at,
            transition.started_at,
            transition.suspended_for,
            transition.clears,
            now,
        )
    return values


def _values_of_new_runs(transitions: Iterable[Transition], *, now: int) -> list[Any]:
    """The creations of a batch, each as the values of NEW_RUN_COLUMNS."""
    values: list[Any] = []
    for transition in transitions:
        ends = transition.status._value_ in _ENDS
        values += new_head_values(transition.new_run)
        values += (
            transition.status,
            1,
            len(transition.events),
            None if ends or transition.release else transition.worker_id,
            None if ends else transition.available_at,
            transition.started_at,
            now if ends else None,
            transition.payload_bytes,
            transition.suspended_for,
            orjson.dumps(list(transition.needs)).decode() if transition.needs else None,
        )
    return values


def values_of_events(transitions: Iterable[Transition]) -> tuple[list[Any], bool]:
    """The events of a batch, each as the values of EVENT_COLUMNS; and whether any of them has large values."""
    values: list[Any] = []
    has_large_values = False
    for transition in transitions:
        for event in transition.events:
            payload, event_type = event.payload, event.type._value_
            division = payload.division
            has_large_values = has_large_values or division is not None
            raw = payload.raw if division is None else division.shell
            if raw.count(b"\\u0000") and NUL_IN_JSON.search(raw):
                raise DataRefused("text with a NUL character")
            values += (
                transition.instance_id,
                event.seq,
                event.node_id,
                event.scope,
                event_type,
                NODE_STATUS.get(event_type),
                event.next_handle,
                event.output_variable if event.mark is None else event.mark.text,
                raw.decode(),
                event.error_message,
                event.attempt,
                event.created_at,
                event.arguments,
                transition.generation,
                None if division is None else division.references,
            )
    return values, has_large_values


def wake(connection: Connection, parents: Sequence[str], now: int) -> dict[str, int]:
    """Raise the versions of open parents whose children have ended; returns the versions."""
    if not parents:
        return {}
    asked = {"ids": orjson.dumps(parents).decode(), "now": now}
    return {row[0]: row[1] for row in connection.execute(statements.WAKE, asked)}


def cancel(connection: Connection, by: str, ids: Sequence[str], now: int) -> set[str]:
    """Cancel these open children, or the children of these runs, with all that they await; returns the cancelled
    ones."""
    if not ids:
        return set()
    cancelled: list[str] = one_list(connection, statements.to_cancel(by), ids=orjson.dumps(ids).decode())
    if cancelled:
        parameters = {"ids": orjson.dumps(cancelled).decode(), "now": now}
        connection.execute(statements.CANCEL_LOG, parameters)
        connection.execute(statements.CANCEL_ROWS, parameters)
    return set(cancelled)


def _write(driver: Driver, statement: Callable[[int], str], values: list[Any], columns: int) -> int:
    """Execute a batch statement for all rows; returns how many it wrote."""
    return sum(driver.execute(statement(rows), part).rowcount for part, rows in _parts(values, columns))


def _parts(values: list[Any], columns: int) -> Iterator[tuple[list[Any], int]]:
    """The values of at most ROWS_PER_STATEMENT rows at a time, padded with NULLs to a power of two of rows.

    So there are few different statements, all in the driver's cache.
    """
    for start in range(0, len(values), ROWS_PER_STATEMENT * columns):
        part = values[start : start + ROWS_PER_STATEMENT * columns]
        rows = 1 << (len(part) // columns - 1).bit_length()
        yield part + [None] * (rows * columns - len(part)), rows
