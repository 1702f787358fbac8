"""The rows of the console: lines and progress. `ConsoleRows` on a SQL store, whose threads it shares."""

# Statements are put together from this package's own conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any

import orjson
from sqlalchemy import Connection, TextClause, text

from anabranch.engine.console.console_rows import Line, LinesWanted, ProgressReport, StoredLines, StoredSize
from anabranch.engine.console.lines import Progress
from anabranch.engine.store.schema import IS_OPEN
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.dialect import Dialect

_READ = "instance_id, number, tenant_id, node_id, scope, attempt, level, text, position, size, earlier, lines"

# What programs from before there were `lines` expect beside them.
_WRITTEN = "instance_id, number, tenant_id, position, size, lines, node_id, scope, attempt, level, text"
_BEFORE = "'', '', 0, 0, ''"

# At most 256 rows per statement, in powers of two: nine different statements, which drivers keep prepared.
ROWS_PER_STATEMENT = 256

# 32 rows, 2 MB at most, are read at a time.
ROWS_READ_MAX = 32

_NUMBER_OF = attrgetter("number")
_SEPARATOR = "\x1e"


# Lines are written after the transitions that they belong to; by then their run may have been deleted.
_RUN_EXISTS = "WHERE EXISTS (SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = {})"


def _column(index: int, kind: str) -> str:
    return f"CAST(p.value ->> {index} AS {kind})"


@cache
def _insert_rows_here(rows: int) -> str:
    """One statement for many rows, for a database in this process: a call per row, or JSON, would take longer."""
    values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * rows)
    return f"""
        INSERT INTO console_lines ({_WRITTEN}) SELECT r.*, {_BEFORE} FROM (VALUES {values}) AS r
        {_RUN_EXISTS.format("r.column1")} ON CONFLICT DO NOTHING
    """


# One statement for a batch, for a database server. Arrays take it and us less time than JSON or a parameter per value,
# and lines, which are JSON and so have no control characters, are sent as they are.
_INSERT_ROWS_THERE = text(f"""
    INSERT INTO console_lines ({_WRITTEN})
    SELECT r.*, {_BEFORE} FROM unnest(
        CAST(:instance_ids AS uuid[]), CAST(:numbers AS bigint[]), CAST(:tenant_ids AS text[]),
        CAST(:positions AS bigint[]), CAST(:sizes AS integer[]),
        string_to_array(:lines, chr({ord(_SEPARATOR)}))
    ) AS r (run, number, tenant, position, size, lines) {_RUN_EXISTS.format("r.run")} ON CONFLICT DO NOTHING
""")


@cache
def _write_progress(given: str, identifier: str) -> TextClause:
    """The last value of each activation; an older one does not replace a newer."""
    kinds = (identifier, "TEXT", "TEXT", "INTEGER", "TEXT", "BIGINT")
    columns = ", ".join(_column(index, kind) for index, kind in enumerate(kinds))
    return text(f"""
        INSERT INTO activation_progress (instance_id, node_id, scope, attempt, report, reported_at)
        SELECT {columns} FROM {given} {_RUN_EXISTS.format(_column(0, identifier))}
        ON CONFLICT (instance_id, node_id, scope) DO UPDATE
        SET attempt = excluded.attempt, report = excluded.report, reported_at = excluded.reported_at
        WHERE activation_progress.reported_at <= excluded.reported_at
    """)


@cache
def _stored_sizes(among_ids: str) -> TextClause:
    """Scans the lines of these runs, by primary key."""
    return text(f"""
        SELECT instance_id, sum(size), max(position) FROM console_lines WHERE {among_ids} GROUP BY instance_id
    """)


# By ix_console_tenant alone.
_SIZES = text("SELECT tenant_id, sum(size) FROM console_lines GROUP BY tenant_id")

_FIRST_TO_KEEP = text("""
    SELECT number FROM (
        SELECT number, sum(size) OVER (ORDER BY number DESC) AS so_far FROM console_lines WHERE tenant_id = :tenant_id
    ) AS counted WHERE so_far <= :size ORDER BY number LIMIT 1
""")

_SPARED = f"""
    AND (position = 0 OR NOT EXISTS (
        SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = l.instance_id AND i.{IS_OPEN}))"""


@cache
def _remove(spares_open: bool) -> TextClause:  # noqa: FBT001 -- a key of the cache
    return text(f"""
        DELETE FROM console_lines WHERE (instance_id, number) IN (
            SELECT instance_id, number FROM console_lines AS l
            WHERE tenant_id = :tenant_id AND number < :before {_SPARED if spares_open else ""}
            ORDER BY number LIMIT :limit)
    """)


# By primary key.
_PAGE = text(f"""
    SELECT {_READ} FROM console_lines WHERE instance_id = :instance_id AND number > :after ORDER BY number LIMIT :limit
""")


@cache
def _since(given: str, identifier: str) -> TextClause:
    """Rows of some runs, each from a number on, by primary key."""
    columns = ", ".join(f"l.{name}" for name in _READ.split(", "))
    return text(f"""
        SELECT {columns} FROM {given} CROSS JOIN console_lines AS l
        WHERE l.instance_id = {_column(0, identifier)} AND l.number > {_column(1, "BIGINT")}
        ORDER BY l.number LIMIT :limit
    """)


@cache
def _last_numbers(among_ids: str) -> TextClause:
    """The newest line of each of these runs."""
    return text(f"SELECT instance_id, max(number) FROM console_lines WHERE {among_ids} GROUP BY instance_id")


@cache
def _progress(among_ids: str) -> TextClause:
    """The last progress of the activations of these runs."""
    return text(f"""
        SELECT instance_id, node_id, scope, attempt, report, reported_at FROM activation_progress WHERE {among_ids}
    """)


@cache
def remove_console(among_ids: str) -> tuple[TextClause, ...]:
    """Remove the console of runs, by primary key."""
    return tuple(text(f"DELETE FROM {table} WHERE {among_ids}") for table in ("console_lines", "activation_progress"))


def remove_console_of(connection: Connection, dialect: Dialect, instance_ids: Sequence[str]) -> None:
    """Remove the console of these runs, in the transaction that removes the runs."""
    for statement in remove_console(dialect.among_ids):
        connection.execute(statement, {"ids": dialect.ids(instance_ids)})


class ConsoleTable:
    """`ConsoleRows` on a SQL store, and its readers."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def write(self, rows: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        """One transaction; never waits for a lock."""
        dialect = self._store.dialect
        last = [
            [each.instance_id, each.node_id, each.scope, each.attempt, _report_text(each), each.at] for each in reports
        ]

        def work(connection: Connection) -> None:
            """Insert the rows and write the progress, in one transaction."""
            if dialect.is_remote and not last:
                connection.execute(_INSERT_ROWS_THERE, _arrays(rows))  # it is a transaction by itself
                return
            with dialect.transaction(connection):
                if dialect.is_remote and rows:
                    connection.execute(_INSERT_ROWS_THERE, _arrays(rows))
                for part in () if dialect.is_remote else _parts(rows):
                    connection.exec_driver_sql(_insert_rows_here(len(part)), tuple(chain.from_iterable(part)))
                if last:
                    given = {"given": orjson.dumps(last).decode()}
                    connection.execute(_write_progress(dialect.given_rows, _identifier(dialect)), given)

        if rows or reports:
            await self._store.write_without_waiting(work)

    async def stored_sizes(self, instance_ids: Sequence[str]) -> Mapping[str, StoredSize]:
        """Uses the primary key."""
        dialect = self._store.dialect
        asked = {"ids": dialect.ids(instance_ids)}
        found = await self._store.read(
            lambda connection: connection.execute(_stored_sizes(dialect.among_ids), asked).all()
        )
        return {str(instance_id): StoredSize(int(size), int(position)) for instance_id, size, position in found}

    async def sizes(self) -> Mapping[str, int]:
        """Scans ix_console_tenant."""
        found = await self._store.read(lambda connection: connection.execute(_SIZES).all())
        return {tenant_id: int(size) for tenant_id, size in found}

    async def number_to_keep(self, *, tenant_id: str, size: int) -> int | None:
        """Scans the tenant's part of ix_console_tenant."""
        asked = {"tenant_id": tenant_id, "size": size}
        return await self._store.read(lambda connection: connection.execute(_FIRST_TO_KEEP, asked).scalar())

    async def remove(self, *, tenant_id: str, before: int, limit: int, spares_open: bool) -> int:
        """Uses ix_console_tenant."""
        asked = {"tenant_id": tenant_id, "before": before, "limit": limit}
        return await self._store.write(lambda connection: connection.execute(_remove(spares_open), asked).rowcount)

    # -- reading --------------------------------------------------------------------------
    async def read_lines(self, instance_id: str, wanted: LinesWanted) -> Sequence[Line]:
        """Uses the primary key."""
        found: list[Line] = []
        asked = {"instance_id": instance_id, "after": wanted.after, "limit": ROWS_READ_MAX}
        while True:
            rows = await self._store.read(lambda connection: connection.execute(_PAGE, asked).all())
            found += (line for row in rows for line in _lines_of(row) if wanted.has(line))
            if len(rows) < ROWS_READ_MAX or len(found) >= wanted.limit:
                return _in_order(found)[: wanted.limit]
            asked["after"] = rows[-1][1]

    async def read_since(self, after: Mapping[str, int], *, limit: int) -> Sequence[Line]:
        """Uses the primary key."""
        dialect = self._store.dialect
        statement = _since(dialect.given_rows, _identifier(dialect))
        asked = {"given": orjson.dumps(list(after.items())).decode(), "limit": limit}
        rows = await self._store.read(lambda connection: connection.execute(statement, asked).all())
        found = [line for row in rows for line in _lines_of(row) if line.number > after[line.instance_id]]
        return _in_order(found)[:limit]

    async def last_numbers(self, instance_ids: Sequence[str]) -> Mapping[str, int]:
        """Uses the primary key."""
        dialect = self._store.dialect
        statement, asked = _last_numbers(dialect.among_ids), {"ids": dialect.ids(instance_ids)}
        found = await self._store.read(lambda connection: connection.execute(statement, asked).all())
        return {str(instance_id): int(number) for instance_id, number in found}

    async def read_progress(self, instance_ids: Sequence[str]) -> Sequence[ProgressReport]:
        """Uses the primary key."""
        dialect = self._store.dialect
        statement, asked = _progress(dialect.among_ids), {"ids": dialect.ids(instance_ids)}
        found = await self._store.read(lambda connection: connection.execute(statement, asked).all())
        return [
            ProgressReport(str(row[0]), row[1], row[2], row[3], row[5], *_read_report(orjson.loads(row[4])))
            for row in found
        ]


def _report_text(report: ProgressReport) -> str:
    fields = {} if report.progress is None else report.progress.as_json()
    return orjson.dumps(fields if report.began_at is None else {**fields, "beganAt": report.began_at}).decode()


def _read_report(fields: dict[str, Any]) -> tuple[Progress | None, int | None]:
    began_at = fields.pop("beganAt", None)
    return Progress(**fields) if fields else None, began_at


def _identifier(dialect: Dialect) -> str:
    return "UUID" if dialect.is_remote else "TEXT"


def _arrays(rows: Sequence[StoredLines]) -> dict[str, str]:
    """The columns of these rows as array literals."""
    instance_ids, numbers, tenant_ids, positions, sizes, lines = zip(*rows, strict=True)
    return {
        "instance_ids": _array(instance_ids),
        "numbers": _array(map(str, numbers)),
        "tenant_ids": _array(tenant_ids),
        "positions": _array(map(str, positions)),
        "sizes": _array(map(str, sizes)),
        "lines": _SEPARATOR.join(lines),
    }


def _array(texts: Iterable[str]) -> str:
    """An array literal of PostgreSQL. All texts are escaped at once; none of them can contain a NUL."""
    escaped = "\0".join(texts).replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{escaped}"}}'


def _lines_of(row: Sequence[Any]) -> Iterator[Line]:
    """The lines of a row."""
    *former, lines = row
    instance_id, number, tenant_id, *_, position, size, earlier = former
    if lines is not None:
        yield from StoredLines(str(instance_id), number, tenant_id, position, size, lines).decoded()
        return
    # Of a program from before there were `lines`: its last line has columns of its own.
    for fields in [] if earlier is None else orjson.loads(earlier):
        yield Line(str(instance_id), *fields[:-1])
    yield Line(str(instance_id), number, *former[3:8])


def _in_order(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=_NUMBER_OF)


def _parts(rows: Sequence[StoredLines]) -> Iterator[Sequence[StoredLines]]:
    """The rows in parts whose lengths are powers of two."""
    start = 0
    while start < len(rows):
        length = min(ROWS_PER_STATEMENT, 1 << (len(rows) - start).bit_length() - 1)
        yield rows[start : start + length]
        start += length
