"""A console on rows in memory, the activations that speak to it, and a watcher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from anabranch.engine.console.console import Console
from anabranch.engine.console.console_rows import Line, ProgressReport, StoredLines, StoredSize
from anabranch.engine.console.console_writer import ConsoleOptions
from anabranch.engine.handler_contract import Helpers
from anabranch.engine.rules.events import ActivationKey
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import DatabaseUnreachable
from tests.engine.conftest import TENANT

RUN = "00000000-0000-7000-8000-000000000001"
OTHER = "00000000-0000-7000-8000-000000000002"


class Rows:
    """Rows in memory, with a database that can be away."""

    def __init__(self) -> None:
        self.rows: list[StoredLines] = []
        self.writes: list[list[StoredLines]] = []
        """What each write was asked for, also those that failed."""
        self.reports: list[ProgressReport] = []
        self.is_away = False

    async def write(self, rows: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        self.writes.append(list(rows))
        if self.is_away:
            raise DatabaseUnreachable("away")
        self.rows += self.writes[-1]
        self.reports += reports

    async def stored_sizes(self, instance_ids: Sequence[str]) -> Mapping[str, StoredSize]:
        found = {each: [row for row in self.rows if row.instance_id == each] for each in instance_ids}
        return {
            each: StoredSize(sum(row.size for row in rows), max(row.position for row in rows))
            for each, rows in found.items()
            if rows
        }

    async def sizes(self) -> Mapping[str, int]:
        return Counter({TENANT: sum(row.size for row in self.rows)})

    @property
    def lines(self) -> list[Line]:
        return [line for row in self.rows for line in row.decoded()]

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]


def origin_of(console: Console, *, node_id: str = "n", instance_id: str = RUN) -> Helpers:
    return Helpers(
        instance_id=instance_id,
        tenant_id=TENANT,
        node_id=node_id,
        workflow_id=None,
        scope="",
        attempt=1,
        context={},
        now_ms=0,
        console=console,
    )


def console_of(rows: Any, **options: Any) -> Console:
    return Console(rows=rows, options=ConsoleOptions(**options))


async def store_runs(store: SqlStore, *instance_ids: str) -> None:
    """Store runs that the lines may belong to."""
    created = text("""
        INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
            version, last_seq, starts_at, retention_days, created_at)
        VALUES (:instance_id, :tenant_id, 'said', 1, 'drawn', false, 'COMPLETED', 1, 1, 0, 7, 0)
    """)
    runs = [{"instance_id": each, "tenant_id": TENANT} for each in instance_ids]
    await store.write(lambda connection: connection.execute(created, runs))


class Watcher:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def lines_logged(self, instance_id: str, lines: Sequence[Line]) -> None:
        self.texts += [line.text for line in lines]

    def step_began(self, instance_id: str, key: ActivationKey, attempt: int) -> None:
        raise AssertionError("no step begins here")

    def progress_made(self, reports: Sequence[ProgressReport]) -> None:
        raise AssertionError("nobody reports progress here")
