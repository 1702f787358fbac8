"""The tables of data sources and saved queries, beside the store of runs in the same database.

Called through `saved_queries.SavedQueries`. Every statement names the tenant. Nothing here is on the hot path: one read
for each execution of a `dataQuery` node, and what people save by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Select, Table, and_, delete, insert, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.database_errors import DuplicateRefused
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.errors import DataSourceInUse, NameTaken, NotFound
from anabranch.queries.saved.query_schema import data_queries, data_sources
from anabranch.queries.saved.saved_queries import DataQuery, DataSource

Saved = TypeVar("Saved", DataSource, DataQuery)

# By table: the column of its ids, and what a row is called in the audit trail.
_KINDS = {
    data_sources.name: ("data_source_id", "data_source"),
    data_queries.name: ("data_query_id", "data_query"),
}

_SOURCE_COLUMNS = list(data_sources.c)
_QUERY_COLUMNS = list(data_queries.c)


class DataQueries(SqlComponent):
    """Keeps data sources and queries; call `open_threads` first, `close_threads` at the end."""

    async def save_source(self, source: DataSource, *, actor: str | None = None) -> DataSource:
        """The source as it was written, new or in place of the one with its id, with both times. Raises NameTaken."""

        def save(connection: Connection) -> DataSource:
            """Write the row, and read it back with its times."""
            values = {
                "data_source_id": source.data_source_id,
                "tenant_id": source.tenant_id,
                "name": source.name,
                "kind": source.kind,
                "address": source.address,
                "url": source.url,
                "sealed": source.sealed,
            }
            self._save(connection, data_sources, values, actor)
            found = connection.execute(_sources(source.tenant_id, source.data_source_id)).one()
            return _source(found)

        return await self._written(save, f"data source {source.name!r}")

    async def find_source(self, key: str, *, tenant_id: str) -> DataSource | None:
        """The source with this id or name; None if the tenant has none."""
        found = await self.read(lambda connection: connection.execute(_sources(tenant_id, key)).one_or_none())
        return None if found is None else _source(found)

    async def list_sources(self, *, tenant_id: str) -> Sequence[DataSource]:
        """Uses ux_data_source_name."""
        query = select(*_SOURCE_COLUMNS).where(data_sources.c.tenant_id == tenant_id).order_by(data_sources.c.name)
        return [_source(row) for row in await self.read(lambda connection: connection.execute(query).all())]

    async def delete_source(self, data_source_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove a source, and record it. Raises NotFound, and DataSourceInUse while queries name it."""

        def remove(connection: Connection) -> None:
            using = select(data_queries.c.name).where(data_queries.c.data_source_id == data_source_id).limit(1)
            query = connection.execute(using).scalar()
            if query is not None:
                raise DataSourceInUse(f"the data query {query!r} runs on this data source")
            self._delete(connection, data_sources, data_source_id, tenant_id, actor)

        await self._deleted(remove, "data source", data_source_id)

    async def save_query(self, query: DataQuery, *, actor: str | None = None) -> DataQuery:
        """The query as it was written, new or in place of the one with its id, with both times. Raises NameTaken."""

        def save(connection: Connection) -> DataQuery:
            """Write the row, and read it back with its times."""
            values = {
                "data_query_id": query.data_query_id,
                "tenant_id": query.tenant_id,
                "name": query.name,
                "data_source_id": query.data_source_id,
                "sql": query.sql,
                "params": orjson.dumps(query.params).decode(),
                "writes": query.writes,
                "timeout_ms": query.timeout_ms,
            }
            self._save(connection, data_queries, values, actor)
            found = connection.execute(_queries(query.tenant_id, query.data_query_id)).one()
            return _query(found)

        return await self._written(save, f"data query {query.name!r}")

    async def find_query(self, key: str, *, tenant_id: str) -> tuple[DataQuery, DataSource | None] | None:
        """The query with this id or name and its source, from one statement; None if the tenant has none."""
        found = await self.read(lambda connection: connection.execute(_queries(tenant_id, key)).one_or_none())
        if found is None:
            return None
        source = found[len(_QUERY_COLUMNS) :]
        return _query(found), None if source[0] is None else _source(source)

    async def list_queries(self, *, tenant_id: str) -> Sequence[DataQuery]:
        """Uses ux_data_query_name."""
        query = select(*_QUERY_COLUMNS).where(data_queries.c.tenant_id == tenant_id).order_by(data_queries.c.name)
        return [_query(row) for row in await self.read(lambda connection: connection.execute(query).all())]

    async def delete_query(self, data_query_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove a query, and record it. Raises NotFound."""
        await self._deleted(
            lambda connection: self._delete(connection, data_queries, data_query_id, tenant_id, actor),
            "data query",
            data_query_id,
        )

    def _save(self, connection: Connection, table: Table, values: dict[str, Any], actor: str | None) -> None:
        """Replace the row with this id and tenant, else insert it; on record as `data_source.saved` and the like."""
        now = self.dialect.now(connection)
        id_column, kind = _KINDS[table.name]
        same = and_(table.c[id_column] == values[id_column], table.c.tenant_id == values["tenant_id"])
        moved = connection.execute(update(table).where(same).values(values | {"updated_at": now}))
        if not moved.rowcount:
            connection.execute(insert(table).values(values | {"created_at": now, "updated_at": now}))
        record_audit_event(
            connection,
            actor,
            f"{kind}.saved",
            tenant_id=values["tenant_id"],
            target=values[id_column],
            details={"name": values["name"]},
            now=now,
        )

    def _delete(self, connection: Connection, table: Table, row_id: str, tenant_id: str, actor: str | None) -> None:
        id_column, kind = _KINDS[table.name]
        row = and_(table.c[id_column] == row_id, table.c.tenant_id == tenant_id)
        name = connection.execute(delete(table).where(row).returning(table.c.name)).scalar_one_or_none()
        if name is None:
            raise NotFound(f"there is no {table.name.replace('_', ' ')} row {row_id}")
        record_audit_event(
            connection,
            actor,
            f"{kind}.deleted",
            tenant_id=tenant_id,
            target=row_id,
            details={"name": name},
            now=self.dialect.now(connection),
        )

    async def _written(self, save: Callable[[Connection], Saved], what: str) -> Saved:
        try:
            return await self.transact(save)
        except DuplicateRefused:
            raise NameTaken(f"there is a {what} already", hint="Choose another name, or update that one.") from None

    async def _deleted(self, remove: Callable[[Connection], None], kind: str, row_id: str) -> None:
        if not is_uuid(row_id):
            raise NotFound(f"there is no {kind} {row_id!r}")
        await self.transact(remove)


def _sources(tenant_id: str, key: str) -> Select[Any]:
    """One source by primary key, or by ux_data_source_name; a name is never in the form of an id."""
    column = data_sources.c.data_source_id if is_uuid(key) else data_sources.c.name
    return select(*_SOURCE_COLUMNS).where(data_sources.c.tenant_id == tenant_id, column == key)


def _queries(tenant_id: str, key: str) -> Select[Any]:
    """One query with its source, by primary key or by ux_data_query_name."""
    column = data_queries.c.data_query_id if is_uuid(key) else data_queries.c.name
    same_source = and_(
        data_sources.c.data_source_id == data_queries.c.data_source_id,
        data_sources.c.tenant_id == data_queries.c.tenant_id,
    )
    return (
        select(*_QUERY_COLUMNS, *_SOURCE_COLUMNS)
        .select_from(data_queries.outerjoin(data_sources, same_source))
        .where(data_queries.c.tenant_id == tenant_id, column == key)
    )


def _source(row: Sequence[Any]) -> DataSource:
    source_id, tenant_id, name, kind, address, url, sealed, created_at, updated_at = row
    return DataSource(source_id, tenant_id, name, kind, address, bytes(url), bool(sealed), created_at, updated_at)


def _query(row: Sequence[Any]) -> DataQuery:
    query_id, tenant_id, name, source_id, sql, params, writes, timeout_ms, created_at, updated_at = row[
        : len(_QUERY_COLUMNS)
    ]
    return DataQuery(
        query_id,
        tenant_id,
        name,
        source_id,
        sql,
        orjson.loads(params),
        bool(writes),
        timeout_ms,
        created_at,
        updated_at,
    )
