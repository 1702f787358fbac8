"""Large values on a SQL store: written with the rows that refer to them, removed with the last run that does.

`keep_values` runs in the transaction that writes rows of logs, `remove_values_of` in one that removes runs. A run that
begins to refer to a value locks it until its own reference is committed, so that a removal waits, and checks again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from sqlalchemy import ColumnElement, Connection, Select, delete, exists, func, not_, select, text, tuple_

from anabranch.engine.ports import Transition
from anabranch.engine.rules.value_parts import Part, StoredValue
from anabranch.engine.rules.values import DividedPayload, Payload
from anabranch.engine.store.schema import stored_values, value_references, workflow_instances
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.database_errors import DataRefused
from anabranch.engine.store.sql.dialect import Dialect

# 16 MB of JSON: the values of the runs that are looked at and taken over at the moment; decoded a few times that.
CACHE_BYTES = 16 * 1_048_576

# 32 MB a statement, as a claim reads.
FETCHED_BYTES_MAX = 32 * 1_048_576

# 1,000 values a statement: two parameters each, and databases take some ten thousand.
VALUES_AT_ONCE = 1_000

# 8 values a statement of a check: 8 MB at most, as it reads logs.
VALUES_CHECKED_AT_ONCE = 8

_Key = tuple[str, str]
"""Hash and tenant."""

_PUT = text("""
    INSERT INTO stored_values (sha256, tenant_id, size, body) VALUES (:sha256, :tenant_id, :size, :body)
    ON CONFLICT (sha256, tenant_id) DO UPDATE SET size = excluded.size
""")
"""Store a value. One that another transaction has just stored is locked, by a change that changes nothing."""

_REFER = text("""
    INSERT INTO value_references (instance_id, sha256, tenant_id) VALUES (:instance_id, :sha256, :tenant_id)
    ON CONFLICT DO NOTHING
""")


def parts_of(transitions: Iterable[Transition]) -> dict[str, list[Part]]:
    """The large parts of what these transitions write, by run."""
    found: dict[str, list[Part]] = {}
    for transition in transitions:
        for event in transition.events:
            division = event.payload.division
            if division is not None:
                found.setdefault(transition.instance_id, []).extend(division.parts)
    return found


def keep_values(connection: Connection, dialect: Dialect, found: Mapping[str, Sequence[Part]]) -> None:
    """Store the values that existing runs refer to, within the transaction that writes their rows. Locks by hash."""
    ids = {"ids": dialect.ids(list(found))}
    tenants = text(f"SELECT instance_id, tenant_id FROM workflow_instances WHERE {dialect.among_ids}")  # noqa: S608
    of = {str(instance_id): tenant_id for instance_id, tenant_id in connection.execute(tenants, ids)}
    wanted: dict[_Key, Part] = {}
    references = set()
    for instance_id, tenant_id in of.items():
        for part in found[instance_id]:
            wanted[part.sha256, tenant_id] = part
            references.add((instance_id, part.sha256, tenant_id))
    for keys in _some(sorted(wanted)):
        present = _found(connection, dialect, keys, shared=True)
        # One statement for each: it carries 64 kB at least.
        for sha256, tenant_id in (key for key in keys if key not in present):
            body = _text_of(wanted[sha256, tenant_id])
            size = wanted[sha256, tenant_id].size
            connection.execute(_PUT, {"sha256": sha256, "tenant_id": tenant_id, "size": size, "body": body})
    rows = [
        {"instance_id": instance_id, "sha256": sha256, "tenant_id": tenant_id}
        for instance_id, sha256, tenant_id in sorted(references)
    ]
    if rows:
        connection.execute(_REFER, rows)


def sizes_of_values(connection: Connection, dialect: Dialect, instance_ids: Sequence[str]) -> Mapping[str, int]:
    """How many bytes of large values these runs refer to, by run; runs that refer to none are left out."""
    sizes = text(f"""
        SELECT r.instance_id, sum(v.size) FROM value_references AS r
        JOIN stored_values AS v ON v.sha256 = r.sha256 AND v.tenant_id = r.tenant_id
        WHERE r.{dialect.among_ids} GROUP BY r.instance_id""")  # noqa: S608
    return {row[0]: int(row[1]) for row in connection.execute(sizes, {"ids": dialect.ids(instance_ids)})}


def remove_values_of(connection: Connection, dialect: Dialect, instance_ids: Sequence[str]) -> None:
    """Remove what only these runs refer to, in the transaction that removes them.

    On PostgreSQL the values are locked first, which waits for runs that begin to refer to one; only a new statement
    sees what these have written. A later run finds the value gone, and stores it again.
    """
    references = text(f"DELETE FROM value_references WHERE {dialect.among_ids} RETURNING sha256, tenant_id")  # noqa: S608
    ids = {"ids": dialect.ids(instance_ids)}
    freed = {(sha256, tenant_id) for sha256, tenant_id in connection.execute(references, ids)}
    for keys in _some(sorted(freed)):
        remove_unreferenced(connection, dialect, keys)


def remove_unreferenced(connection: Connection, dialect: Dialect, keys: Sequence[_Key]) -> None:
    """Remove those of these values that no run refers to. Uses ix_value_references."""
    if dialect.row_lock:
        _found(connection, dialect, keys, shared=False)
    connection.execute(delete(stored_values).where(_among(keys), not_(_IS_REFERRED_TO)))


_IS_REFERRED_TO = exists().where(
    value_references.c.sha256 == stored_values.c.sha256, value_references.c.tenant_id == stored_values.c.tenant_id
)


def _among(keys: Sequence[_Key]) -> ColumnElement[bool]:
    return tuple_(stored_values.c.sha256, stored_values.c.tenant_id).in_(keys)


def _found(connection: Connection, dialect: Dialect, keys: Sequence[_Key], *, shared: bool) -> set[_Key]:
    """Those of these values that are stored, locked in order; on SQLite the write transaction does that by itself."""
    columns = (stored_values.c.sha256, stored_values.c.tenant_id)
    query = select(*columns).where(_among(keys)).order_by(*columns)
    if dialect.row_lock:
        query = query.with_for_update(read=shared, key_share=shared)
    return {(sha256, tenant_id) for sha256, tenant_id in connection.execute(query)}


def _text_of(part: Part) -> str:
    if part.content is None:
        raise DataRefused(f"the value {part.sha256} that it takes over is not stored any more")
    try:
        return part.content.raw.decode()
    except UnicodeError as problem:
        raise DataRefused(f"text that is not valid Unicode ({problem})") from None


def _some(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    for start in range(0, len(keys), VALUES_AT_ONCE):
        yield keys[start : start + VALUES_AT_ONCE]


class StoredValues(SqlComponent):
    """The part of `ports.Store` that reads large values."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._values = ValueCache()

    async def fetch_values(self, payloads: Iterable[Payload]) -> None:
        """Fetch the large parts of these payloads that are not there yet; what is not stored stays absent."""
        wanted: dict[str, list[Part]] = {}
        for payload in payloads:
            if type(payload) is DividedPayload:
                for part in payload.division.missing:
                    wanted.setdefault(part.sha256, []).append(part)
        if not wanted:
            return
        contents = {sha256: content for sha256 in wanted if (content := self._values.get(sha256)) is not None}
        absent = {sha256: parts[0].size for sha256, parts in wanted.items() if sha256 not in contents}
        for names in _by_size(absent):
            contents |= await self.read(partial(_read, names=names))
        for sha256, parts in wanted.items():
            content = contents.get(sha256)
            if content is not None:
                self._values.put(content)
            for part in parts:
                part.content = content

    async def read_value(self, *, tenant_id: str, sha256: str) -> bytes | None:
        """The JSON of a value that a run of the tenant refers to; None: there is none."""
        columns = stored_values.c
        query = select(columns.body).where(columns.sha256 == sha256, columns.tenant_id == tenant_id)
        body = await self.read(lambda connection: connection.execute(query).scalar_one_or_none())
        return None if body is None else str(body).encode()

    async def referenced_values(self, instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        """Those of these hashes that a run refers to. Uses the primary key."""
        references = value_references.c
        query = select(references.sha256).where(
            references.instance_id == instance_id, references.sha256.in_(list(sha256s))
        )
        return await self.read(lambda connection: set(connection.execute(query).scalars()))

    async def count_values(self) -> tuple[int, int]:
        """How many large values are stored, and how many bytes they have. Goes through ix_stored_values_size."""
        query = select(func.count(), func.coalesce(func.sum(stored_values.c.size), 0))
        count, size = await self.read(lambda connection: connection.execute(query).one())
        return int(count), int(size)

    # -- what doctor asks -----------------------------------------------------------------
    async def missing_values(self, *, limit: int) -> list[tuple[str, str]]:
        """Runs and the hashes of values that they refer to and that are not stored."""
        references, values = value_references.c, stored_values.c
        is_stored = exists().where(values.sha256 == references.sha256, values.tenant_id == references.tenant_id)
        query = select(references.instance_id, references.sha256).where(not_(is_stored)).limit(limit)
        rows = await self.read(lambda connection: connection.execute(query).all())
        return [(str(instance_id), sha256) for instance_id, sha256 in rows]

    async def unreferenced_values(self, *, limit: int) -> list[tuple[str, str, int]]:
        """Hash, tenant and size of values that no run refers to."""
        columns = stored_values.c
        query = select(columns.sha256, columns.tenant_id, columns.size).where(not_(_IS_REFERRED_TO)).limit(limit)
        rows = await self.read(lambda connection: connection.execute(query).all())
        return [(sha256, tenant_id, size) for sha256, tenant_id, size in rows]

    async def orphaned_references(self, *, limit: int) -> list[tuple[str, str]]:
        """References of runs that are not there."""
        references = value_references.c
        is_there = exists().where(workflow_instances.c.instance_id == references.instance_id)
        query = select(references.instance_id, references.sha256).where(not_(is_there)).limit(limit)
        rows = await self.read(lambda connection: connection.execute(query).all())
        return [(str(instance_id), sha256) for instance_id, sha256 in rows]

    async def changed_values(self) -> AsyncIterator[tuple[str, str]]:
        """Values whose content has another hash or size than they are stored under, some at a time by primary key."""
        columns = stored_values.c
        key = tuple_(columns.sha256, columns.tenant_id)
        after: _Key = ("", "")
        while True:
            query = (
                select(columns.sha256, columns.tenant_id, columns.size, columns.body)
                .where(key > after)
                .order_by(columns.sha256, columns.tenant_id)
                .limit(VALUES_CHECKED_AT_ONCE)
            )
            rows = await self.read(partial(_rows, query=query))
            for sha256, tenant_id, size, body in rows:
                value = StoredValue(body.encode())
                if (value.sha256, len(value.raw)) != (sha256, size):
                    yield sha256, tenant_id
            if len(rows) < VALUES_CHECKED_AT_ONCE:
                return
            after = (rows[-1][0], rows[-1][1])

    async def remove_orphaned_values(self, *, limit: int) -> int:
        """Remove references of runs that are not there, and values that no run refers to; how many values."""
        orphaned = sorted({instance_id for instance_id, _ in await self.orphaned_references(limit=limit)})
        unreferenced = [(sha256, tenant_id) for sha256, tenant_id, _ in await self.unreferenced_values(limit=limit)]

        def remove(connection: Connection) -> None:
            with self.dialect.transaction(connection):
                remove_values_of(connection, self.dialect, orphaned)
                for keys in _some(sorted(unreferenced)):
                    remove_unreferenced(connection, self.dialect, keys)

        if orphaned or unreferenced:
            await self.write(remove)
        return len(unreferenced)


class ValueCache:
    """A cache of the last read values, up to CACHE_BYTES. For one thread."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, StoredValue] = OrderedDict()
        self._size = 0

    def get(self, sha256: str) -> StoredValue | None:
        """A value that is kept."""
        found = self._values.get(sha256)
        if found is not None:
            self._values.move_to_end(sha256)
        return found

    def put(self, value: StoredValue) -> None:
        """Keep a value, and drop the least recently used ones."""
        if value.sha256 not in self._values:
            self._values[value.sha256] = value
            self._size += len(value.raw)
        self._values.move_to_end(value.sha256)
        while self._size > CACHE_BYTES:
            _, oldest = self._values.popitem(last=False)
            self._size -= len(oldest.raw)


def _rows(connection: Connection, query: Select[tuple[str, str, int, str]]) -> list[tuple[str, str, int, str]]:
    return [(row.sha256, row.tenant_id, row.size, row.body) for row in connection.execute(query)]


def _by_size(absent: Mapping[str, int]) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for sha256, bytes_of in absent.items():
        if names and (size + bytes_of > FETCHED_BYTES_MAX or len(names) >= VALUES_AT_ONCE):
            yield names
            names, size = [], 0
        names.append(sha256)
        size += bytes_of
    if names:
        yield names


def _read(connection: Connection, names: Sequence[str]) -> dict[str, StoredValue]:
    """By hash, from whichever tenant: the content is the same. Uses the primary key."""
    query = select(stored_values.c.sha256, stored_values.c.body).where(stored_values.c.sha256.in_(names))
    return {sha256: StoredValue(body.encode(), sha256) for sha256, body in connection.execute(query)}
