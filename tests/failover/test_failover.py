"""A PostgreSQL primary is killed and its standby promoted, under a process that goes on: several hosts in the URL, and
what becomes of runs whose last rows the standby never got.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from anabranch.engine.rules.events import EventType
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import StoreUnavailable
from anabranch.migrations import upgrade
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, fresh_nodes, make_process, until
from tests.engine.drawing import drawn, node
from tests.replication import ReplicatedServers, replicated_servers

__all__ = ["fresh_nodes", "make_process"]


@pytest.fixture
def servers() -> Iterator[ReplicatedServers]:
    """A primary with the current schema, and its standby."""
    with replicated_servers() as pair:
        upgrade(pair.url)
        yield pair


@pytest.fixture
def database_url(servers: ReplicatedServers) -> str:
    """Both hosts."""
    return servers.url


@pytest.fixture
async def standby_first(servers: ReplicatedServers) -> AsyncIterator[SqlStore]:
    """A store whose URL names the standby first."""
    url = f"postgresql://postgres@{servers.standby.address},{servers.primary.address}/postgres"
    store = open_store(url)
    yield store
    await store.stop()


@pytest.mark.timeout(300)
async def test_what_a_promoted_standby_never_got_is_set_aside_and_everything_else_goes_on(
    servers: ReplicatedServers,
    make_process: MakeProcess,
    standby_first: SqlStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await standby_first.start()
    await standby_first.check_commits()
    process, other = await make_process(), await make_process()
    two_gates = (node("one", "testGate", config={"gate": "1"}), node("two", "testGate", config={"gate": "2"}))
    held = await process.run(drawn("held", *two_gates))
    ended = await process.run(drawn("ended", node("one", "testGate", config={"gate": "1"})))
    waits = await process.run(drawn("waits", node("wait", "waitForEvent", config={"event": "go"})))
    await until(lambda: nodes.calls.total() == 2)
    await process.log.saw("NODE_WAITING", "wait")
    await asyncio.to_thread(servers.wait_until_equal)

    await asyncio.to_thread(servers.cut_replication)
    nodes.open_gate("1")
    assert (await process.ended(ended))["status"] == "COMPLETED"
    await until(lambda: nodes.calls.total() == 3)
    fresh = await process.run(drawn("fresh", node("only")))
    await process.ended(fresh)
    await asyncio.to_thread(servers.primary.kill)
    await asyncio.to_thread(servers.promote)

    for lost in (held, ended):
        shown = await _suspended(other, lost)
        assert (shown["status"], shown["suspendedFor"]) == ("SUSPENDED", "HISTORY_LOST")
    assert nodes.calls.total() == 3, "nothing was done twice"
    epoch = await process.engine.store.epoch()
    assert epoch is not None and epoch.number == 2
    await until(lambda: fresh in caplog.text)
    await process.service.send_signal(waits, "go", None, tenant_id=TENANT)
    await asyncio.to_thread(servers.standby.change, "UPDATE database_epochs SET began_at = began_at - 3600000")
    await make_process()  # for this one a lease has passed since the failover
    assert (await process.ended(waits))["status"] == "COMPLETED"


async def _suspended(process: Process, run_id: str) -> dict[str, object]:
    async with asyncio.timeout(60):
        while True:
            try:
                log = await process.engine.store.read_log(run_id)
                if EventType.INSTANCE_SUSPENDED in [event.type for event in log]:
                    return await process.service.get_run(run_id, tenant_id=TENANT)
            except StoreUnavailable:
                pass  # until the standby is promoted
            await asyncio.sleep(0.01)
