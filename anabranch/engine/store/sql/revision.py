"""The schema revision of a database, and whether this program can work with it.

Called by a store when it starts and by `anabranch.migrations`; reads one small table.
"""

from __future__ import annotations

import re

from sqlalchemy import Connection, inspect, text

from anabranch.engine.store.schema import SCHEMA_REVISION, metadata
from anabranch.engine.store.sql.processes import supports
from anabranch.errors import SchemaMismatch

VERSION_TABLE = "alembic_version"

_OUR_REVISION = re.compile(r"[0-9]{4}")

_OWN_DATABASE = "Give anabranch a database of its own in ANABRANCH_DATABASE_URL"

_REVISION = text("SELECT version_num FROM alembic_version")


def revision_of(connection: Connection) -> str | None:
    """The newest applied migration; None if there is none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(_REVISION).scalar_one_or_none()
    return revision


def check_revision(connection: Connection, *, target: str) -> None:
    """Return if this program works with the schema. Raises SchemaMismatch, which names both versions."""
    refuse_unversioned(connection, target=target)
    found = revision_of(connection)
    if found == SCHEMA_REVISION:
        return
    wants = f"this program works with version {SCHEMA_REVISION}"
    if found is None:
        raise SchemaMismatch(f"{target} has no tables yet; {wants}", hint="Run `anabranch migrate`.")
    if not _OUR_REVISION.fullmatch(found):
        raise SchemaMismatch(
            f"{target} has schema version {found}, which is one of another program; {wants}", hint=f"{_OWN_DATABASE}."
        )
    if found < SCHEMA_REVISION:
        raise SchemaMismatch(
            f"{target} has schema version {found}; {wants}",
            hint="Run `anabranch migrate`; its notes say what it locks and whether it may run before the deploy.",
        )
    if is_supported(connection, found):
        return
    raise SchemaMismatch(
        f"{target} has schema version {found}, which is newer; {wants}",
        hint="A newer anabranch has migrated this database: use that release or a later one.",
    )


def is_supported(connection: Connection, found: str) -> bool:
    """Whether the schema is newer than this program, and of a kind that it still works with: during an upgrade step by
    step, and after going back to this program."""
    has_support = found > SCHEMA_REVISION and inspect(connection).has_table("schema_support")
    return has_support and supports(connection, found=found)


def refuse_unversioned(connection: Connection, *, target: str) -> None:
    """Raise SchemaMismatch if tables with our names exist without a recorded version.

    They may belong to another program, or come from a backup without the version table: only the operator can know, and
    a migration would fail half-way.
    """
    # Tables first: a concurrent migration commits both at once.
    tables = sorted(metadata.tables.keys() & set(inspect(connection).get_table_names()))
    if tables and revision_of(connection) is None:
        raise SchemaMismatch(
            f"{target} has tables named {', '.join(tables)}, but no schema version in {VERSION_TABLE}",
            hint=f"{_OWN_DATABASE}, or, if they are anabranch's, restore {VERSION_TABLE} from the same backup.",
        )
