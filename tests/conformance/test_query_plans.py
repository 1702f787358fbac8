"""PostgreSQL finds runs that are asked for by id with an index on ids, whatever it knows about its tables.

It plans the statement of a commit once for each connection, and few runs are open when it last looked at its tables, as
mostly: then the index of all open runs seems to be the smaller one, and each transition reads all of it.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql import psycopg as sqlalchemy_psycopg

from anabranch.engine.rules.events import Status
from anabranch.engine.store.postgresql import postgresql_statements
from anabranch.engine.store.postgresql.postgresql_dialect import PLANNED_FOR_COMMITS, PostgresqlDialect
from anabranch.engine.store.sql import statements

OF_ALL_OPEN_RUNS = "ix_instance_available"

BY_ID: dict[str, TextClause] = {
    "commit": postgresql_statements.COMMIT,
    "advance": postgresql_statements.ADVANCE,
    "share-parents": postgresql_statements.SHARE_PARENTS,
    "rejected-creations": postgresql_statements.REJECTED_CREATIONS,
    "wake": postgresql_statements.WAKE,
    "ended-children": postgresql_statements.ENDED_CHILDREN,
    "cancel-children": postgresql_statements.cancel_children("instance_id"),
    "cancel-children-of": postgresql_statements.cancel_children("parent_id"),
    "signal": postgresql_statements.append_external(ends=None),
    "cancel": postgresql_statements.append_external(ends=Status.CANCELLED),
    "pause": postgresql_statements.append_external(ends=None, suspends=True),
    "extend": statements.extend(PostgresqlDialect.among_ids, PostgresqlDialect.row_lock),
    "release": statements.release(PostgresqlDialect.among_ids, PostgresqlDialect.row_lock),
    "awaited-children": statements.AWAITED_CHILDREN,
}

ENDED_RUNS = """
    INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
        version, last_seq, available_at, starts_at, retention_days, created_at, completed_at)
    SELECT gen_random_uuid(), 'default', 'w', 1, 'drawn', false, CASE WHEN n = 1 THEN 'RUNNING' ELSE 'COMPLETED' END,
        1, 1, CASE WHEN n = 1 THEN 0 END, 0, 30, 0, CASE WHEN n > 1 THEN 1 END
    FROM generate_series(1, 2000) AS n"""


def plan_of(connection: psycopg.Connection, statement: TextClause) -> str:
    """The plan for any parameters."""
    compiled = statement.compile(dialect=sqlalchemy_psycopg.dialect(paramstyle="numeric_dollar"))
    nulls = sql.SQL(", ").join([sql.NULL] * len(compiled.positiontup))
    connection.execute(sql.SQL("PREPARE asked AS ") + sql.SQL(str(compiled)))
    asked = sql.SQL("EXPLAIN EXECUTE asked") + (sql.SQL("({})").format(nulls) if compiled.positiontup else sql.SQL(""))
    return "\n".join(row[0] for row in connection.execute(asked))


@pytest.mark.parametrize("seen", ["no-runs", "ended-runs"])
@pytest.mark.parametrize("statement", BY_ID.values(), ids=BY_ID)
def test_what_is_asked_for_by_id_does_not_read_all_open_runs(
    statement: TextClause, seen: str, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        if seen == "ended-runs":
            connection.execute(ENDED_RUNS)
        connection.execute("ANALYZE")
        for name, value in PLANNED_FOR_COMMITS.items():
            connection.execute(sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        assert OF_ALL_OPEN_RUNS not in plan_of(connection, statement)
