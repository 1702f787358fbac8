"""Data sources and saved queries as a store keeps them, and the port to that store.

The interface between `data_service` and `query_tables`. Everything belongs to a tenant; what belongs to another tenant
reads as absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.rules.instants import to_iso


@dataclass(frozen=True, slots=True)
class DataSource:
    """A database that a tenant's queries run on."""

    data_source_id: str
    tenant_id: str
    name: str
    kind: str
    """`sqlite`, `postgresql` or `mysql`."""
    address: str
    """Where it is, for people: never user, password or options."""
    url: bytes
    """The URL, sealed or as text in UTF-8."""
    sealed: bool
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class DataQuery:
    """A saved query."""

    data_query_id: str
    tenant_id: str
    name: str
    data_source_id: str
    sql: str
    params: Mapping[str, Any]
    """By name, `{"type", "default"?}`."""
    writes: bool
    """False: it runs in a transaction that reads only."""
    timeout_ms: int
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class SavedSource:
    """A data source that was saved, and what could not be found out about it."""

    source: DataSource
    warnings: Sequence[tuple[str, str, str]]
    """Code, pointer, sentence."""


class SavedQueries(Protocol):
    """Keeps data sources and queries. `key` is an id or a name.

    What an `actor` does is on record in the same transaction.
    """

    async def save_source(self, source: DataSource, *, actor: str | None = None) -> DataSource:
        """Insert, or replace the one with this id; the store sets both times. Raises NameTaken."""

    async def find_source(self, key: str, *, tenant_id: str) -> DataSource | None:
        """One source, or None."""

    async def list_sources(self, *, tenant_id: str) -> Sequence[DataSource]:
        """All of a tenant's, by name."""

    async def delete_source(self, data_source_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove it. Raises NotFound, or DataSourceInUse while queries name it."""

    async def save_query(self, query: DataQuery, *, actor: str | None = None) -> DataQuery:
        """Insert, or replace the one with this id; the store sets both times. Raises NameTaken."""

    async def find_query(self, key: str, *, tenant_id: str) -> tuple[DataQuery, DataSource | None] | None:
        """One query with its source (None: it is gone), from one statement; or None."""

    async def list_queries(self, *, tenant_id: str) -> Sequence[DataQuery]:
        """All of a tenant's, by name."""

    async def delete_query(self, data_query_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove it. Raises NotFound."""


def source_as_json(source: DataSource) -> dict[str, Any]:
    """A data source, without its URL."""
    return {
        "dataSourceID": source.data_source_id,
        "name": source.name,
        "kind": source.kind,
        "address": source.address,
        "createdAt": to_iso(source.created_at),
        "updatedAt": to_iso(source.updated_at),
    }


def query_as_json(query: DataQuery) -> dict[str, Any]:
    """A saved query with its SQL."""
    return {
        "dataQueryID": query.data_query_id,
        "name": query.name,
        "dataSourceID": query.data_source_id,
        "sql": query.sql,
        "params": dict(query.params),
        "writes": query.writes,
        "timeoutMs": query.timeout_ms,
        "createdAt": to_iso(query.created_at),
        "updatedAt": to_iso(query.updated_at),
    }


def saved_source_as_json(saved: SavedSource) -> dict[str, Any]:
    """A data source that was just saved, with the warnings about it."""
    warnings = [{"code": code, "pointer": pointer, "message": message} for code, pointer, message in saved.warnings]
    return {**source_as_json(saved.source), "warnings": warnings}
