"""The basis of all tables: schema revision, metadata, column types, partial indexes.

The PostgreSQL dialect is not imported for it: its options stay in `info` until that database is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import UUID, Column, ColumnElement, Index, MetaData, Table, Text, TextClause
from sqlalchemy.types import UserDefinedType

SCHEMA_REVISION = "0032"

# Programs of an older schema must be stopped before this one is migrated to: those from before 0026 do not say that
# they run, and cannot read what this program writes (runs suspended for HISTORY_LOST). A migration that removes or
# renames anything, or a new form of what is stored, raises it; a migration that only adds leaves it as it is.
OLDEST_PROGRAM = "0026"
"""The newest migration; a store refuses a database of any other revision."""

metadata = MetaData()

# Native UUIDs take 16 bytes of every index entry of the log instead of 37.
Identifier = Text().with_variant(UUID(as_uuid=False), "postgresql")


class _PostgresJson(UserDefinedType[str]):
    """The column type `json`, written and read as text: SQLAlchemy's own would encode and decode it again."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "JSON"


# `json`, not `jsonb`: it keeps the text, and so the key order, and inserts a fifth faster.
JsonText = Text().with_variant(_PostgresJson(), "postgresql")

# Names are listed in the order of their characters' codes on both databases, whatever language the server speaks.
NameText = Text().with_variant(Text(collation="C"), "postgresql")

_POSTGRESQL = "postgresql"


def partial_index(
    name: str, *columns: Column[Any] | TextClause, where: ColumnElement[bool] | TextClause, unique: bool = False
) -> Index:
    """An index of only those rows that meet a condition, on both databases."""
    return Index(name, *columns, unique=unique, sqlite_where=where, info={_POSTGRESQL: {"where": where}})


def storage(parameters: Mapping[str, str]) -> dict[str, Any]:
    """The `info` of a table that has these storage parameters on PostgreSQL."""
    return {_POSTGRESQL: {"with": parameters}}


def set_postgresql_options() -> None:
    """Apply the PostgreSQL options in the `info` of tables and indexes. Called when PostgreSQL is used."""
    for table in metadata.tables.values():
        parts: list[Table | Index] = [table, *table.indexes]
        for each in parts:
            for name, value in each.info.get(_POSTGRESQL, {}).items():
                each.dialect_options[_POSTGRESQL][name] = value
