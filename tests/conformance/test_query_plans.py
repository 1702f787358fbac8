"""PostgreSQL finds runs that are asked for by their ids without reading the index of all open runs, and no step of a
purge reads what an earlier one has read.

It plans a statement once for each connection, and when it last looked at its tables, few runs were open, as is usual:
then that index seems to be the smallest one, and each transition would read all of it until the next plan.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql import psycopg as sqlalchemy_psycopg

from anabranch.engine.rules.events import Status
from anabranch.engine.store.postgresql import postgresql_statements
from anabranch.engine.store.postgresql.postgresql_claim import claim
from anabranch.engine.store.postgresql.postgresql_dialect import PLANNED_FOR_COMMITS, PostgresqlDialect
from anabranch.engine.store.sql import statements
from anabranch.engine.store.sql.housekeeping import housekeeping_statements
from anabranch.migrations import upgrade

OF_ALL_OPEN_RUNS = "ix_instance_available"
OF_CHILDREN = "ix_instance_parent"

OF_COMMITS: dict[str, TextClause] = {
    "commit": postgresql_statements.COMMIT,
    "advance": postgresql_statements.ADVANCE,
    "share-parents": postgresql_statements.SHARE_PARENTS,
    "rejected-creations": postgresql_statements.REJECTED_CREATIONS,
    "wake": postgresql_statements.WAKE,
    "cancel-children": postgresql_statements.cancel_children("instance_id"),
    "cancel-children-of": postgresql_statements.cancel_children("parent_id"),
}


OF_OTHERS: dict[str, TextClause] = {
    "signal": postgresql_statements.append_external(ends=None),
    "cancel": postgresql_statements.append_external(ends=Status.CANCELLED),
    "pause": postgresql_statements.append_external(ends=None, suspends=True),
    "suspend-unfit": postgresql_statements.append_external(ends=None, suspends=True, unfit=True),
    "extend": statements.extend(PostgresqlDialect.among_ids, PostgresqlDialect.row_lock),
    "release": statements.release(PostgresqlDialect.among_ids, PostgresqlDialect.row_lock),
    "awaited-children": statements.AWAITED_CHILDREN,
    "run-to-delete": housekeeping_statements.RUN_TO_DELETE,
    "claim-only": claim(parked=False, only=True, steal=False, knows=False, capacities=False, large=True, alone=False),
}

ENDED_RUNS = """
    INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
        version, last_seq, available_at, starts_at, retention_days, created_at, completed_at)
    SELECT gen_random_uuid(), 'default', 'w', 1, 'drawn', false, CASE WHEN n = 1 THEN 'RUNNING' ELSE 'COMPLETED' END,
        1, 1, CASE WHEN n = 1 THEN 0 END, 0, 30, 0, CASE WHEN n > 1 THEN 1 END
    FROM generate_series(1, 2000) AS n"""
"""All runs but one have ended."""


def plan_of(connection: psycopg.Connection, statement: TextClause) -> list[str]:
    """The lines of the plan for any parameters."""
    connection.execute("SET plan_cache_mode = force_generic_plan")
    compiled = statement.compile(dialect=sqlalchemy_psycopg.dialect(paramstyle="numeric_dollar"))
    nulls = sql.SQL(", ").join([sql.NULL] * len(compiled.positiontup))
    connection.execute(sql.SQL("PREPARE asked AS ") + sql.SQL(str(compiled)))
    lines = [row[0] for row in connection.execute(sql.SQL("EXPLAIN EXECUTE asked({})").format(nulls))]
    connection.execute("DEALLOCATE asked")
    return lines


def reads_of_runs(plan: list[str]) -> list[str]:
    """The lines that say how rows of runs are found."""
    return [line for line in plan if "Scan" in line and " on workflow_instances" in line]


def assert_commits_find_runs_by_their_ids(connection: psycopg.Connection) -> None:
    """All of a commit's statements do."""
    for name, value in PLANNED_FOR_COMMITS.items():
        connection.execute(sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    for name, statement in OF_COMMITS.items():
        plan = plan_of(connection, statement)
        assert reads_of_runs(plan), name
        assert not [line for line in plan if " ix_" in line and OF_CHILDREN not in line], (name, plan)


def test_commits_find_runs_by_their_ids_in_new_tables(empty_postgres_url: str) -> None:
    upgrade(empty_postgres_url)
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        assert_commits_find_runs_by_their_ids(connection)


def test_commits_find_runs_by_their_ids_when_most_runs_have_ended(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(ENDED_RUNS)
        connection.execute("ANALYZE workflow_instances")
        assert_commits_find_runs_by_their_ids(connection)


@pytest.mark.parametrize("statement", OF_OTHERS.values(), ids=OF_OTHERS)
def test_others_who_ask_by_ids_do_not_read_the_index_of_all_open_runs(statement: TextClause, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(ENDED_RUNS)
        connection.execute("ANALYZE workflow_instances")
        plan = plan_of(connection, statement)
    assert reads_of_runs(plan)
    assert not any(OF_ALL_OPEN_RUNS in line for line in plan), plan


@pytest.mark.parametrize("by_workflow", [False, True])
def test_each_step_of_a_purge_begins_where_the_last_one_ended(by_workflow: bool, postgres_url: str) -> None:
    statement = housekeeping_statements.purgeable(
        PostgresqlDialect.row_lock, by_workflow=by_workflow, statuses=0, bounded=True
    )
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(ENDED_RUNS)
        connection.execute("ANALYZE workflow_instances")
        plan = plan_of(connection, statement)
    assert [line for line in plan if "Index Cond" in line and "(ROW(created_at, instance_id) > ROW(" in line], plan
    assert not any("Sort" in line for line in plan), plan
