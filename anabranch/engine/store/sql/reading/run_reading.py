"""Read one run for display without its whole log: columns first, payloads only if shown.

Used by REST, sockets and the command line; `store.SqlStore` inherits it. Each result comes from one snapshot.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import Connection, TextClause, text

from anabranch.engine.ports import NO_ACTIVATIONS, NO_OUTPUTS, ActivationPage, InstanceRow, OutputsRead, RunReading
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.drawn.scopes import base_of
from anabranch.engine.rules.events import DONE_HANDLE, ActivationKey, Event, EventType
from anabranch.engine.rules.history import ALL_ACTIVATIONS, ActivationFilter, loop_of
from anabranch.engine.rules.shared.left_out import NOTHING_LEFT_OUT, Ranges, reopened_by
from anabranch.engine.store.schema import IS_ENDING
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.engine.store.sql.reading.reads import find_instance, is_uuid
from anabranch.engine.store.sql.rows import EVENT_NOTE_COLUMNS, events_from
from anabranch.engine.store.value_table import StoredValues


class Payloads(StrEnum):
    """Which payloads a statement reads; others are returned as `{}`."""

    ALL = "l.payload"
    SHOWN = (
        "CASE WHEN l.event_type IN ('NODE_FAILED', 'NODE_ATTEMPT_FAILED', 'NODE_DISPATCHED', 'INSTANCE_SUSPENDED',"
        " 'INSTANCE_RESUMED', 'INSTANCE_REOPENED') THEN l.payload"
        " WHEN l.event_type = 'NODE_WAITING' THEN {without_output} ELSE '{{}}' END"
    )
    """Errors, reasons of skips, suspensions, resumes, and waits (delays without their output)."""

    @property
    def parts(self) -> str:
        """The column that says which large parts these payloads have."""
        if self is Payloads.ALL:
            return "l.parts"
        return """CASE WHEN l.event_type IN ('NODE_FAILED', 'NODE_ATTEMPT_FAILED', 'INSTANCE_REOPENED')
            OR l.event_type = 'NODE_WAITING' AND l.parts NOT LIKE '[[["output"%' THEN l.parts END"""


_FROM_LOG = "FROM workflow_instance_logs AS l WHERE l.instance_id = :instance_id"

FIRST_ROWS_OF_NODES = f"""
    {_FROM_LOG} AND l.seq > :after_seq
      AND (l.event_type = 'NODE_DISPATCHED' AND l.node_attempt = 1
           OR l.event_type = 'NODE_SKIPPED' AND l.node_attempt = 0){{only}}
    ORDER BY l.seq LIMIT :limit"""
"""The row that an activation of a drawn run began with, or was skipped by. Uses the primary key, up to the limit."""

FIRST_ROWS_OF_STEPS = f"""
    {_FROM_LOG} AND l.seq > :after_seq AND l.seq IN (
        SELECT min(seq) FROM workflow_instance_logs AS f WHERE instance_id = :instance_id AND node_id <> ''
        GROUP BY node_id, scope){{only}}
    ORDER BY l.seq LIMIT :limit"""
"""The first row of a step of a coded run, of which there are 10,000 at most. Uses the primary key."""

ENDING_OF_ACTIVATION = f"""
    SELECT 1 FROM workflow_instance_logs AS e
    WHERE e.instance_id = l.instance_id AND e.node_id = l.node_id AND e.scope = l.scope AND e.{IS_ENDING}"""
"""The row that ended the activation whose first row is `l`. Uses ux_log_ending."""

BY_SEQ = """
    FROM {given} CROSS JOIN workflow_instance_logs AS l
    WHERE l.instance_id = :instance_id AND l.seq = CAST(p.value ->> 0 AS integer)"""
"""Rows by their seqs. Uses the primary key."""

ENDINGS_AT = f"""
    FROM {{given}} CROSS JOIN workflow_instance_logs AS l
    WHERE l.instance_id = :instance_id AND l.node_id = p.value ->> 0 AND l.scope = p.value ->> 1 AND l.{IS_ENDING}"""
"""The ends of the activations with these keys. Uses ux_log_ending."""

ENDINGS_OF = f"""
    FROM {{given}} CROSS JOIN workflow_instance_logs AS l
    WHERE l.instance_id = :instance_id AND l.node_id = p.value ->> 0 AND l.{IS_ENDING}"""
"""The ends of the activations of these nodes, in every scope. Uses ux_log_ending."""

FIRST_ITERATIONS = """
    FROM {given} CROSS JOIN workflow_instance_logs AS l
    WHERE l.instance_id = :instance_id AND l.seq = (
        SELECT x.seq FROM workflow_instance_logs AS x
        WHERE x.instance_id = :instance_id
          AND (x.scope = p.value ->> 0 OR substr(x.scope, 1, length(p.value ->> 0) + 1) = (p.value ->> 0) || '/')
          AND x.seq > CAST(p.value ->> 1 AS integer) AND x.seq < CAST(p.value ->> 2 AS integer)
        ORDER BY x.seq LIMIT 1)"""
"""The first row in some scopes or below, each searched between two rows. Uses the primary key, up to that row."""

ROWS_AFTER = f"""
    {_FROM_LOG} AND l.seq > :after_seq ORDER BY l.seq LIMIT :limit"""
"""A page of a log. Uses the primary key."""

LATEST_AT = f"""
    {_FROM_LOG} AND l.seq IN (
        SELECT max(seq) FROM workflow_instance_logs AS f
        WHERE instance_id = :instance_id AND seq >= :from_seq
          AND (node_id, scope) IN (SELECT p.value ->> 0, p.value ->> 1 FROM {{given}})
        GROUP BY node_id, scope)"""
"""The latest rows of the activations with these keys. Scans the log's columns since they began."""

NOTES_OF_FUNCTION = f"""
    {_FROM_LOG} AND (l.event_type = 'SYSTEM_SET' OR l.output_variable LIKE '%:%')
    ORDER BY l.seq DESC LIMIT 1"""
"""The latest row of a coded run that is a note or about a step. Uses the primary key, from the end."""

LATEST_SUSPENSION = f"""
    {_FROM_LOG} AND l.event_type = 'INSTANCE_SUSPENDED' ORDER BY l.seq DESC LIMIT 1"""
"""The row that suspended a run. Uses the primary key, from the end: few rows follow it."""

SIGNALS_AND_WAITS = f"""
    {_FROM_LOG} AND l.seq > :after_seq
      AND (l.event_type = 'SIGNAL_RECEIVED'
           OR l.event_type = 'NODE_WAITING' AND l.node_id <> ''
              AND (l.payload ->> 'event' IS NOT NULL OR l.payload ->> 'events' IS NOT NULL))"""
"""Signals, and the rows of waits for them. Scans the columns of the log after that seq."""


def effective(rows: str, left_out: Ranges) -> str:
    """The FROM clause without the rows that reopenings left out; a run has few ranges of these."""
    if not left_out:
        return rows
    stretches = " OR ".join(f"seq BETWEEN {first} AND {last}" for first, last in left_out)
    log = f"(SELECT * FROM workflow_instance_logs WHERE instance_id = :instance_id AND NOT ({stretches})) AS"
    return rows.replace("workflow_instance_logs AS", log)


class RunReader(StoredValues):
    """The part of `ports.Store` for the view of one run."""

    async def read_run(self, instance_id: str, *, activations_max: int) -> RunReading | None:
        """A row with its input, its end and its first activations, without outputs."""
        if not is_uuid(instance_id):
            return None

        def read(connection: Connection) -> RunReading | None:
            """The row and what is shown of its log, from one snapshot."""
            with self.dialect.snapshot(connection):
                row = find_instance(connection, instance_id)
                return None if row is None else _run(self.dialect, connection, row, activations_max)

        found = await self.read(read)
        if found is not None:
            shown = (found.created, found.end, found.note, *found.activations.events)
            await self.fetch_values(event.payload for event in shown if event is not None)
        return found

    async def read_rows(self, instance_id: str, *, after_seq: int, limit: int) -> list[Event]:
        """A page of a log, with payloads of errors, suspensions and waits only."""
        if not is_uuid(instance_id):
            return []
        page = {"instance_id": instance_id, "after_seq": after_seq, "limit": limit}
        found = await self.read(lambda connection: _events(self.dialect, connection, ROWS_AFTER, Payloads.SHOWN, page))
        await self.fetch_values(event.payload for event in found)
        return found

    async def read_activations(
        self,
        instance_id: str,
        *,
        after_seq: int,
        limit: int,
        outputs: OutputsRead = NO_OUTPUTS,
        only: ActivationFilter = ALL_ACTIVATIONS,
    ) -> tuple[InstanceRow, ActivationPage] | None:
        """A row with a page of its activations, on request with their outputs."""
        if not is_uuid(instance_id):
            return None

        def read(connection: Connection) -> tuple[InstanceRow, ActivationPage] | None:
            """The row and the page of activations, from one snapshot."""
            with self.dialect.snapshot(connection):
                row = find_instance(connection, instance_id)
                if row is None:
                    return None
                reader = _RunReading(self.dialect, connection, row)
                reader.counts_parts = outputs.inline
                page = reader.activations(after_seq=after_seq, limit=limit, bytes_max=outputs.bytes_max, only=only)
                return row, page

        found = await self.read(read)
        if found is not None and outputs.inline:
            await self.fetch_values(event.payload for event in found[1].events)
        return found

    async def read_outputs(self, instance_id: str, node_ids: Sequence[str], *, all_scopes: bool = False) -> list[Event]:
        """The NODE_COMPLETED rows of these nodes at the root scope, or with `all_scopes` in any, in seq order."""
        if not is_uuid(instance_id) or not node_ids:
            return []

        def read(connection: Connection) -> list[Event]:
            keys = [(node_id, "") for node_id in node_ids]
            parameters = {"instance_id": instance_id, "given": _encoded(keys)}
            rows = ENDINGS_OF if all_scopes else ENDINGS_AT
            return _events(self.dialect, connection, rows, Payloads.ALL, parameters)

        found = [event for event in await self.read(read) if event.type is EventType.NODE_COMPLETED]
        await self.fetch_values(event.payload for event in found)
        return sorted(found, key=_seq)

    async def read_signal_waits(
        self, instance_id: str, *, after_seq: int, open_waits: Sequence[ActivationKey]
    ) -> list[Event]:
        """The rows after a seq about signals and waits for signals, including the ends of these and of `open_waits`."""
        if not is_uuid(instance_id):
            return []

        def read(connection: Connection) -> list[Event]:
            """The rows about signals, then the ends of the waits in them, from one snapshot."""
            with self.dialect.snapshot(connection):
                parameters: dict[str, Any] = {"instance_id": instance_id, "after_seq": after_seq}
                found = _events(self.dialect, connection, SIGNALS_AND_WAITS, Payloads.ALL, parameters)
                waits = {*open_waits, *((event.node_id, event.scope) for event in found if event.node_id)}
                if waits:
                    parameters = {"instance_id": instance_id, "given": _encoded(sorted(waits))}
                    row = find_instance(connection, instance_id)
                    left_out = NOTHING_LEFT_OUT if row is None else row.head.left_out
                    ends = _events(
                        self.dialect, connection, effective(ENDINGS_AT, left_out), Payloads.SHOWN, parameters
                    )
                    found += [event for event in ends if event.seq > after_seq]
                return sorted(found, key=_seq)

        found = await self.read(read)
        await self.fetch_values(event.payload for event in found)
        return found


class _RunReading:
    """Reads one run for display, on one connection within one snapshot."""

    def __init__(self, dialect: Dialect, connection: Connection, row: InstanceRow) -> None:
        self._dialect = dialect
        self._connection = connection
        self._row = row
        self._is_coded = row.head.kind == CODED_KIND
        self.counts_parts = True
        """The large parts of payloads are fetched afterwards."""

    def at(self, *seqs: int) -> list[Event]:
        """The rows with these seqs, with their payloads."""
        if not seqs:
            return []
        return self.select(BY_SEQ, Payloads.ALL, given=_encoded([(seq,) for seq in seqs]))

    def select(self, rows: str, payloads: Payloads, **parameters: Any) -> list[Event]:
        """The rows that a FROM clause selects, in seq order."""
        named = {"instance_id": self._row.head.instance_id, **parameters}
        return _events(self._dialect, self._connection, effective(rows, self._row.head.left_out), payloads, named)

    def note(self) -> Event | None:
        """The note of a coded run, unless it has progressed since."""
        found = self.select(NOTES_OF_FUNCTION, Payloads.ALL) if self._is_coded else []
        return found[0] if found and found[0].type is EventType.SYSTEM_SET else None

    def suspended(self) -> Event | None:
        """The row that suspended the run, while it is suspended."""
        found = self.select(LATEST_SUSPENSION, Payloads.ALL) if self._row.suspended_for is not None else []
        return found[0] if found else None

    def activations(
        self, *, after_seq: int, limit: int, bytes_max: int = 0, only: ActivationFilter = ALL_ACTIVATIONS
    ) -> ActivationPage:
        """A page of activations; with `bytes_max` including outputs, up to that many bytes."""
        condition, parameters = _condition(only)
        first_rows = (FIRST_ROWS_OF_STEPS if self._is_coded else FIRST_ROWS_OF_NODES).replace("{only}", condition)
        found = self.select(first_rows, Payloads.SHOWN, after_seq=after_seq, limit=limit + 1, **parameters)
        firsts = found[:limit]
        latest = self._latest_rows(firsts)
        if bytes_max:
            firsts = self._with_outputs(firsts, latest, bytes_max)
        events = {event.seq: event for event in firsts}
        events.update((event.seq, event) for event in map(latest.__getitem__, map(_key, firsts)))
        if firsts:
            reopenings = reopened_by(self._row.head.left_out, after_seq=firsts[0].seq)
            events.update((event.seq, event) for event in self.at(*reopenings))
        next_seq = firsts[-1].seq if len(firsts) < len(found) else None
        iterated = self._iterated(firsts, latest)
        return ActivationPage(sorted(events.values(), key=_seq), self._times(firsts), next_seq, iterated)

    def _iterated(self, firsts: Sequence[Event], latest: Mapping[ActivationKey, Event]) -> frozenset[ActivationKey]:
        """The ended loops among these activations that opened an iteration."""
        asked = []
        for first in () if self._is_coded else firsts:
            last = latest[_key(first)]
            if last.next_handle == DONE_HANDLE or last.type is EventType.NODE_FAILED:
                prefix = f"{first.scope}/{first.node_id}" if first.scope else first.node_id
                asked.append((f"{prefix}[0]", first.seq, last.seq))
        found = self.select(FIRST_ITERATIONS, Payloads.SHOWN, given=_encoded(asked)) if asked else []
        loops = ((loop_of(base_of(event.scope)), event.node_id) for event in found)
        return frozenset(
            loop for loop, node_id in loops if loop[0] != node_id
        )  # a mapped node has no exit to its items

    def _latest_rows(self, firsts: Sequence[Event]) -> dict[ActivationKey, Event]:
        latest = {_key(event): event for event in firsts}
        if firsts:
            keys = _encoded(list(latest))
            endings = self.select(ENDINGS_AT, Payloads.SHOWN, given=keys)
            latest.update((_key(event), event) for event in endings)
            ended = {_key(event) for event in endings}
            open_ = [event for event in firsts if _key(event) not in ended]
            if open_:
                keys = _encoded([_key(event) for event in open_])
                rows = self.select(LATEST_AT, Payloads.SHOWN, given=keys, from_seq=open_[0].seq)
                latest.update((_key(event), event) for event in rows)
        return latest

    def _with_outputs(self, firsts: Sequence[Event], latest: dict[ActivationKey, Event], bytes_max: int) -> list[Event]:
        """Read outputs up to a total size, at least one; returns the activations with them."""
        completed = [event.seq for event in latest.values() if event.type is EventType.NODE_COMPLETED]
        parts = f" + {self._dialect.parts_size}" if self.counts_parts else ""
        sizes = self._numbers(completed, self._dialect.payload_size + parts)
        kept: list[Event] = []
        size = 0
        for event in firsts:
            if size >= bytes_max:
                break
            kept.append(event)
            size += sizes.get(latest[_key(event)].seq, 0)
        wanted = [latest[_key(event)].seq for event in kept]
        latest.update((_key(event), event) for event in self.at(*(seq for seq in wanted if seq in sizes)))
        return kept

    def _times(self, firsts: Sequence[Event]) -> dict[int, int]:
        """The times of the rows that these steps followed, which are when they began."""
        rows = {event.mark.latest_row for event in firsts if event.mark is not None}
        return self._numbers([row for row in rows if row is not None], "l.created_at")

    def _numbers(self, seqs: Sequence[int], column: str) -> dict[int, int]:
        """A number of each of these rows, by seq."""
        if not seqs:
            return {}
        parameters = {"instance_id": self._row.head.instance_id, "given": _encoded([(seq,) for seq in seqs])}
        found = self._connection.execute(_number_list(self._dialect, column), parameters).scalar_one()
        return {} if found is None else dict(orjson.loads(found))


def _run(dialect: Dialect, connection: Connection, row: InstanceRow, activations_max: int) -> RunReading:
    reader = _RunReading(dialect, connection, row)
    rows = {event.seq: event for event in reader.at(*sorted({1, row.last_seq} if row.status.is_terminal else {1}))}
    page = reader.activations(after_seq=0, limit=activations_max) if activations_max else NO_ACTIVATIONS
    end = rows[row.last_seq] if row.status.is_terminal else None
    return RunReading(row, rows[1], end, None if end is not None else reader.note(), page, reader.suspended())


def _events(
    dialect: Dialect, connection: Connection, rows: str, payloads: Payloads, parameters: Mapping[str, Any]
) -> list[Event]:
    notes, joined = connection.execute(_event_list(dialect, rows, payloads), parameters).one()
    return [] if joined is None else events_from(parameters["instance_id"], orjson.loads(notes), joined)


def _condition(only: ActivationFilter) -> tuple[str, dict[str, Any]]:
    """The condition on the first rows of the requested activations, with its parameters."""
    parts, parameters = [], {}
    for column, value in (("node_id", only.node_id), ("scope", only.scope)):
        if value is not None:
            parts.append(f"l.{column} = :only_{column}")
            parameters[f"only_{column}"] = value
    if only.within is not None:
        parts.append(
            "(l.scope = :within OR substr(l.scope, 1, length(:within) + 1) IN (:in_scope, :in_loop, :in_region))"
        )
        within = only.within
        parameters |= {"within": within, "in_scope": within + "/", "in_loop": within + "[", "in_region": within + "#"}
    if only.statuses:
        types = ", ".join(f"'{type_}'" for type_ in sorted(only.ended_by))
        ways = [f"EXISTS ({ENDING_OF_ACTIVATION} AND e.event_type IN ({types}))"] if types else []
        ways += [f"NOT EXISTS ({ENDING_OF_ACTIVATION})"] if only.takes_open else []
        parts.append(f"({' OR '.join(ways)})")
    return "".join(f" AND {part}" for part in parts), parameters


def _event_list(dialect: Dialect, rows: str, payloads: Payloads) -> TextClause:
    columns = ", ".join(f"l.{name}" for name in EVENT_NOTE_COLUMNS if name != "parts")
    payload = payloads.format(without_output=dialect.payload_without_output)
    selected = (
        f"SELECT {columns}, {payloads.parts} AS parts, {payload} AS payload {rows.format(given=dialect.given_rows)}"
    )
    return text(dialect.event_list(selected))


def _number_list(dialect: Dialect, column: str) -> TextClause:
    rows = BY_SEQ.format(given=dialect.given_rows)
    return text(dialect.number_list(f"SELECT l.seq, {column} AS number {rows}"))


def _encoded(rows: Sequence[Sequence[Any]]) -> str:
    return orjson.dumps(rows).decode()


def _key(event: Event) -> ActivationKey:
    return (event.node_id, event.scope)


def _seq(event: Event) -> int:
    return event.seq
