"""A process that fails while it starts leaves nothing running behind, and no report of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.app import build
from anabranch.engine.hints.hints import Hints
from anabranch.engine.ownership.history_watch import HistoryWatch
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import StoreUnavailable
from anabranch.settings import Settings
from anabranch.transport.job_sender import JobSender
from anabranch.triggers.topics.publisher import Publisher
from tests.transport.local_transport import LocalBroker, LocalTransport


async def _fails(*_: Any) -> None:
    raise StoreUnavailable("the database went away")


@pytest.mark.parametrize("part", [HistoryWatch, Hints, JobSender, Publisher], ids=lambda part: part.__name__)
async def test_what_has_started_before_the_failure_is_stopped(
    database_url: str, part: type, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("anabranch.app.transports._transport", lambda settings, name: LocalTransport(LocalBroker()))
    forgotten: list[str] = []
    forget = SqlStore.forget_process

    async def noted(store: SqlStore, process_id: str) -> None:
        await forget(store, process_id)
        forgotten.append(process_id)

    monkeypatch.setattr(SqlStore, "forget_process", noted)
    monkeypatch.setattr(part, "start", _fails)
    before = asyncio.all_tasks()
    settings = Settings(database_url=database_url, broker_url="amqp://localhost")
    with pytest.raises(StoreUnavailable):
        async with build(settings).open_services(works=True):
            pass
    left = [task.get_name() for task in asyncio.all_tasks() - before if not task.done()]
    assert (left, len(forgotten)) == ([], 1)
