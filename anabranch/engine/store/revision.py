"""Which schema a database has, and whether this program can work with it.

Called by a store when it starts and by `anabranch.migrations`; reads one tiny table.
"""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from anabranch.engine.store.schema import SCHEMA_REVISION
from anabranch.errors import SchemaMismatch

VERSION_TABLE = "alembic_version"

_REVISION = text("SELECT version_num FROM alembic_version")


def revision_of(connection: Connection) -> str | None:
    """The newest migration that was applied; None where there was none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(_REVISION).scalar_one_or_none()
    return revision


def check_revision(connection: Connection, *, place: str) -> None:
    """Return if the schema is this program's; raises SchemaMismatch, which names both versions."""
    found = revision_of(connection)
    if found == SCHEMA_REVISION:
        return
    wants = f"this program works with version {SCHEMA_REVISION}"
    if found is None:
        raise SchemaMismatch(f"{place} has no tables yet; {wants}", hint="Run `anabranch migrate`.")
    if found < SCHEMA_REVISION:
        raise SchemaMismatch(
            f"{place} has schema version {found}; {wants}",
            hint="Run `anabranch migrate`; its notes say what it locks and whether it may run before the deploy.",
        )
    raise SchemaMismatch(
        f"{place} has schema version {found}, which is newer; {wants}",
        hint="A newer anabranch has migrated this database: use that release or a later one.",
    )
