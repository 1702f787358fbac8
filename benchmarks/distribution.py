"""The statements that distribute our tables over several PostgreSQL servers with Citus, from the schema itself.

    python -m benchmarks.distribution

Runs and all that belongs to a run are distributed by `instance_id`, so a commit of one run stays on one server. Citus
requires that each unique index of a distributed table contains the column that it is distributed by; those that do not
are listed by `conflicts`, and each has a replacement in `REPLACED`. Called by the test that compares `docs/scale.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Index, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex

from anabranch.engine.store.schema import metadata, set_postgresql_options

RUN_COLUMN = "instance_id"
RUNS = "workflow_instances"

# Read with every claim or commit of a run, and changed rarely: each server has them whole.
REFERENCE_TABLES = ("workflows", "workflow_versions", "pauses")

# Found by its content, not by a run.
BY_ANOTHER_COLUMN = {"stored_values": "sha256"}

# Names runs, but is found by its own id, and written only when a job comes to nothing.
ON_COORDINATOR = ("dead_letters",)

REPLACED = {
    "ux_instance_idempotency": (
        "a run with a key gets an id derived from tenant, workflow and key, so the primary key refuses the second one"
    ),
}
"""Unique indexes that cannot be kept, and what makes up for them."""


def distributed() -> list[Table]:
    """The tables of runs, `workflow_instances` first."""
    tables = [table for table in metadata.sorted_tables if RUN_COLUMN in table.columns]
    tables = [table for table in tables if table.name not in ON_COORDINATOR]
    return sorted(tables, key=lambda table: (table.name != RUNS, table.name))


def local() -> list[str]:
    """The tables that stay on the coordinator: none of them is read or written while a run advances."""
    others = {*REFERENCE_TABLES, *BY_ANOTHER_COLUMN, *(table.name for table in distributed())}
    return sorted(table.name for table in metadata.sorted_tables if table.name not in others)


def conflicts() -> list[Index]:
    """Unique indexes of runs and logs that do not contain the column."""
    return [
        index
        for table in distributed()
        for index in sorted(table.indexes, key=lambda each: str(each.name))
        if index.unique and RUN_COLUMN not in index.columns
    ]


def keys_without_the_column() -> list[str]:
    """Primary keys and unique constraints that do not contain the column: there must be none."""
    return [
        str(constraint.name)
        for table in distributed()
        for constraint in (table.primary_key, *(c for c in table.constraints if isinstance(c, UniqueConstraint)))
        if RUN_COLUMN not in constraint.columns
    ]


def statements() -> Iterator[str]:
    """What turns a migrated database into a distributed one, on the coordinator."""
    set_postgresql_options()
    yield "CREATE EXTENSION citus;"
    for name in REFERENCE_TABLES:
        yield f"SELECT create_reference_table('{name}');"
    for index in conflicts():
        yield f"DROP INDEX {index.name};"
        name = str(index.name).replace("ux_", "ix_", 1)
        created = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
        yield created.replace("CREATE UNIQUE INDEX", "CREATE INDEX").replace(str(index.name), name) + ";"
    yield f"SELECT create_distributed_table('{RUNS}', '{RUN_COLUMN}');"
    for table in distributed()[1:]:
        yield f"SELECT create_distributed_table('{table.name}', '{RUN_COLUMN}', colocate_with => '{RUNS}');"
    for name, column in BY_ANOTHER_COLUMN.items():
        yield f"SELECT create_distributed_table('{name}', '{column}', colocate_with => 'none');"


if __name__ == "__main__":
    print("\n".join(statements()))
