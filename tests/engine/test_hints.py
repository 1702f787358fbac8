"""Hints between processes on one PostgreSQL: what they shorten, and that nothing depends on them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import psycopg
import pytest

from anabranch.engine.hints.hint_line import Channel, HintLine
from anabranch.engine.hints.leadership import RESIGN_S
from anabranch.engine.hints.local_peers import LocalPeers
from anabranch.engine.store.opening import open_hint_line, open_store
from anabranch.errors import StoreUnavailable
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node
from tests.engine.elsewhere import (
    HANGING,
    NEVER_MS,
    WAITING,
    MakeListening,
    assert_a_cancel_reaches_the_owner,
    assert_a_signal_reaches_a_parked_run,
    listening,
)


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """Only PostgreSQL has a line between processes."""
    return postgres_url


@pytest.fixture
async def hinted(make_process: MakeProcess) -> MakeListening:
    """Starts a process that hears hints, and by default never polls."""
    return listening(make_process)


class Watcher:
    """Somebody who watches runs through one process."""

    def __init__(self, process: Process) -> None:
        self.told: list[str] = []
        self.hints = process.engine.hints
        self.hints.subscribe(self)

    def changed(self, instance_id: str, *, ended: bool) -> None:
        self.told.append(instance_id)

    def moved(self, *, ends_are_known: bool) -> None:
        """Only SQLite shows that somebody has committed."""

    async def told_of(self, instance_id: str) -> None:
        await until(lambda: instance_id in self.told)
        self.told.clear()


async def test_an_external_cancel_reaches_the_owner_by_a_hint(hinted: MakeListening) -> None:
    await assert_a_cancel_reaches_the_owner(hinted)


async def test_a_signal_reaches_a_parked_run_by_a_hint(hinted: MakeListening) -> None:
    await assert_a_signal_reaches_a_parked_run(hinted)


async def test_a_signal_in_one_process_needs_no_line(make_process: MakeProcess) -> None:
    alone = await make_process(poll_ms=NEVER_MS)
    alone.engine.store.report_to(alone.engine.hints)  # type: ignore[attr-defined]
    run_id = await alone.run(WAITING)
    await until(lambda: not alone.engine.orchestrator.owns(run_id))

    assert await alone.service.send_signal(run_id, "go", None, tenant_id=TENANT)

    assert (await alone.ended(run_id))["status"] == "COMPLETED"


async def test_a_start_by_a_process_that_does_not_work_is_taken_up_by_a_hint(hinted: MakeListening) -> None:
    worker, server = await hinted(), await hinted(works=False)

    run_id = await server.run(drawn("quick", node("only")))

    assert (await server.ended(run_id))["status"] == "COMPLETED"
    assert [event.type for of, event in worker.log.events if of == run_id][-1] == "INSTANCE_COMPLETED"


async def test_a_handover_is_taken_up_by_a_hint(hinted: MakeListening) -> None:
    leaving, heir = await hinted(), await hinted()
    run_id = await leaving.run(HANGING)
    await leaving.log.saw("NODE_DISPATCHED", "gate")

    await leaving.engine.stop()

    await until(lambda: heir.engine.orchestrator.owns(run_id))
    nodes.open_gate("API")
    assert (await heir.ended(run_id))["status"] == "COMPLETED"


async def test_a_lead_that_cannot_be_given_up_leaves_time_for_the_handover(
    hinted: MakeListening, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving, heir = await hinted(leads=True), await hinted()
    await until(lambda: leaving.engine.leadership.leads)
    run_id = await leaving.run(HANGING)
    await leaving.log.saw("NODE_DISPATCHED", "gate")

    async def give_up(*, worker_id: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(leaving.engine.leadership._rows, "give_up", give_up)
    # No longer than giving up the lead may take.
    await leaving.engine.stop(within_s=RESIGN_S)

    await until(lambda: heir.engine.orchestrator.owns(run_id))
    nodes.open_gate("API")
    assert (await heir.ended(run_id))["status"] == "COMPLETED"


async def test_a_parent_hears_of_its_child_by_a_hint(hinted: MakeListening) -> None:
    first, second = await hinted(held_max=1), await hinted()
    await first.service.save_workflow(drawn("child", node("only")), tenant_id=TENANT)

    parent = await first.run(drawn("parent", node("call", "workflow", config={"workflow": "child"})))

    assert (await first.ended(parent))["status"] == "COMPLETED", "the child had no room beside its parent"
    assert any(event.type == "INSTANCE_COMPLETED" and of != parent for of, event in second.log.events)


async def test_who_watches_a_run_is_told_of_changes_elsewhere(hinted: MakeListening) -> None:
    worker, server = await hinted(), await hinted(works=False)
    run_id = await worker.run(HANGING)
    await worker.log.saw("NODE_DISPATCHED", "gate")
    watcher = Watcher(server)
    watcher.hints.watch(run_id)
    await watcher.told_of(run_id)  # the line stands: look at everything once
    await until(lambda: run_id in worker.engine.hints._watched_elsewhere)
    assert worker.engine.hints.is_watched(run_id)
    watcher.told.clear()

    nodes.open_gate("API")

    await watcher.told_of(run_id)
    assert (await server.ended(run_id))["status"] == "COMPLETED"


async def test_who_awaits_the_end_of_a_run_is_told_of_nothing_else(hinted: MakeListening) -> None:
    worker, server = await hinted(), await hinted(works=False)
    run_id = await worker.run(HANGING)
    await worker.log.saw("NODE_DISPATCHED", "gate")
    watcher = Watcher(server)
    watcher.hints.watch(run_id, end_only=True)
    await watcher.told_of(run_id)  # the line stands: look at everything once
    await until(lambda: run_id in worker.engine.hints._awaited_elsewhere)
    watcher.told.clear()
    said: list[tuple[Channel, list[str]]] = []
    send = worker.engine.hints._hint_on_line

    def note(channel: Channel, instance_ids: Collection[str]) -> None:
        if run_id in instance_ids:
            said.append((channel, list(instance_ids)))
        send(channel, instance_ids)

    worker.engine.hints._hint_on_line = note  # type: ignore[method-assign]
    nodes.open_gate("API")

    await watcher.told_of(run_id)
    assert said == [(Channel.ENDED, [run_id])]


async def test_who_watches_a_run_is_told_of_cancels_by_anybody(hinted: MakeListening) -> None:
    worker, server, stranger = await hinted(), await hinted(works=False), await hinted(works=False)
    parked = [await worker.run(WAITING) for _ in range(2)]
    await worker.log.saw("NODE_WAITING", "wait", count=2)
    watcher = Watcher(server)
    for run_id in parked:
        watcher.hints.watch(run_id)
    await until(lambda: server.engine.hints.listening)
    watcher.told.clear()

    await stranger.service.cancel_run(parked[0], tenant_id=TENANT, reason="")
    await watcher.told_of(parked[0])
    await server.service.cancel_run(parked[1], tenant_id=TENANT, reason="")

    assert parked[1] in watcher.told, "a write of its own process is told at once"


async def test_who_stops_watching_is_told_no_more(hinted: MakeListening) -> None:
    worker, server = await hinted(), await hinted(works=False)
    watched, left = [await worker.run(WAITING) for _ in range(2)]
    watcher = Watcher(server)
    for run_id in (watched, left):
        watcher.hints.watch(run_id)
    await until(lambda: server.engine.hints.listening)
    watcher.hints.unwatch(left)
    watcher.told.clear()

    for run_id in (left, watched):
        await worker.service.cancel_run(run_id, tenant_id=TENANT, reason="")

    await until(lambda: watcher.told)
    assert set(watcher.told) == {watched}


async def test_what_hints_would_have_shortened_happens_without_them_too(
    make_process: MakeProcess, hinted: MakeListening
) -> None:
    owner, deaf = await hinted(poll_ms=50), await make_process(works=False)
    parked, held = await owner.run(WAITING), await owner.run(HANGING)
    await owner.log.saw("NODE_WAITING", "wait")
    await owner.log.saw("NODE_DISPATCHED", "gate")

    await deaf.service.send_signal(parked, "go", None, tenant_id=TENANT)
    await deaf.service.cancel_run(held, tenant_id=TENANT, reason="")
    started = await deaf.run(drawn("quick", node("only")))

    assert [(await deaf.ended(run))["status"] for run in (parked, held, started)] == [
        "COMPLETED",
        "CANCELLED",
        "COMPLETED",
    ]
    await until(lambda: nodes.stopped == ["gate"])


async def test_a_cut_line_is_mended_and_what_was_missed_is_looked_for(
    hinted: MakeListening, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, server = await hinted(), await hinted(works=False)
    line = worker.engine.hints._line
    assert line is not None
    listen, may_connect = line.listen, asyncio.Event()

    async def listen_later(*arguments: Any, **named: Any) -> None:
        await may_connect.wait()
        await listen(*arguments, **named)

    monkeypatch.setattr(line, "listen", listen_later)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as administrator:
        await administrator.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'anabranch hints'"
        )
    await until(lambda: not worker.engine.hints.listening)

    missed = await server.run(drawn("missed", node("only")))
    may_connect.set()

    assert (await server.ended(missed))["status"] == "COMPLETED"
    assert worker.engine.hints.listening
    heard = await server.run(drawn("heard", node("only")))
    assert (await server.ended(heard))["status"] == "COMPLETED"


async def test_forged_hints_lead_to_nothing_but_a_look(hinted: MakeListening, database_url: str) -> None:
    worker = await hinted()
    run_id = await worker.run(HANGING)
    await worker.log.saw("NODE_DISPATCHED", "gate")
    before = await worker.service.get_run_status(run_id, tenant_id=TENANT)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as stranger:
        for channel in Channel:
            for payload in ("", "x" * 7_999, f"{run_id} {run_id} DROP", "\N{SNOWMAN} \\ '", "0" * 36):
                await stranger.execute("SELECT pg_notify(%s, %s)", [channel.value, payload])
    await until(lambda: run_id in worker.engine.hints._watched_elsewhere)

    assert await worker.service.get_run_status(run_id, tenant_id=TENANT) == before
    assert worker.engine.hints.listening
    nodes.open_gate("API")
    assert (await worker.ended(run_id))["status"] == "COMPLETED"


async def test_many_ids_travel_in_as_few_messages_as_they_fit_into(database_url: str) -> None:
    ids = {f"{number:036d}" for number in range(1_000)}
    sender, listener = line_to(database_url), line_to(database_url)
    assert sender is not None and listener is not None
    heard: list[tuple[Channel, str]] = []
    connected = asyncio.Event()
    listening = asyncio.create_task(
        listener.listen(lambda channel, words: heard.extend((channel, word) for word in words), connected=connected.set)
    )
    await connected.wait()

    await sender.send({Channel.CHANGED: ids, Channel.WATCHED: ids})

    await until(lambda: len(heard) >= 2 * len(ids))
    assert sorted(heard) == sorted((channel, each) for channel in (Channel.CHANGED, Channel.WATCHED) for each in ids)
    listening.cancel()
    await sender.close()


async def test_an_engine_hears_neither_itself_nor_twice_those_that_tell_it_without_the_database(
    database_url: str,
) -> None:
    line, beside, other = line_to(database_url), line_to(database_url), line_to(database_url)
    assert line is not None and beside is not None and other is not None
    here, peer = (
        LocalPeers("a place", receive=lambda *_: None, watches=lambda _, *, ended: False, line=each)
        for each in (line, beside)
    )
    here.join()
    peer.join()
    heard: list[str] = []
    connected = asyncio.Event()
    listening = asyncio.create_task(
        line.listen(lambda _, words: heard.extend(words), connected=connected.set, ignores=here.is_speaker)
    )
    await connected.wait()

    await line.send({Channel.TOUCHED: ["own"]})
    await beside.send({Channel.TOUCHED: ["told-at-once"]})
    await other.send({Channel.TOUCHED: ["external"]})

    await until(lambda: heard)
    assert heard == ["external"]
    listening.cancel()
    for each in (line, beside, other):
        await each.close()
    here.leave()
    peer.leave()


async def test_a_line_without_a_server_says_so(postgres_server: object) -> None:
    line = line_to("postgresql://nobody@127.0.0.1:1/nowhere")
    assert line is not None

    with pytest.raises(StoreUnavailable):
        await line.send({Channel.PENDING: [""]})
    with pytest.raises(StoreUnavailable):
        await line.listen(lambda *_: None, connected=lambda: None)


def test_sqlite_has_no_line(tmp_path: object) -> None:
    assert line_to(f"sqlite:///{tmp_path}/runs.db") is None


def line_to(url: str) -> HintLine | None:
    """A line of its own to a database whose sessions are known to be their clients' own."""
    return open_hint_line(open_store(url, pooled=False))
