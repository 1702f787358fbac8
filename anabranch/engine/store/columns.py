"""What all tables stand on: the picture's revision, the collection they are in, and the types of columns."""

from __future__ import annotations

from sqlalchemy import MetaData, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

SCHEMA_REVISION = "0013"
"""The newest migration; a store refuses a database of any other revision."""

metadata = MetaData()

# Native UUIDs take 16 bytes of every index entry of the log instead of 37.
Identifier = Text().with_variant(postgresql.UUID(as_uuid=False), "postgresql")


class _PostgresJson(UserDefinedType[str]):
    """The column type `json`, written and read as text: SQLAlchemy's own would encode and decode it again."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "JSON"


# `json`, not `jsonb`: it keeps the text, and so the key order, and inserts a fifth faster.
JsonText = Text().with_variant(_PostgresJson(), "postgresql")

# Names are listed in the order of their characters' codes on both databases, whatever language the server speaks.
NameText = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
