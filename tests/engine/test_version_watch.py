"""Processes on one SQLite file, and engines in one process: who hears of what without a poll.

Every poll is an hour away, so whoever acts was told to.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine.hints import hints as module
from anabranch.engine.hints.hint_line import Channel
from anabranch.engine.hints.hints import Hints
from anabranch.engine.hints.local_peers import LocalPeers
from anabranch.engine.orchestrator import NO_OUTCOME
from anabranch.engine.store.opening import open_store, open_version_watch
from anabranch.engine.store.sqlite import data_version
from anabranch.errors import StoreUnavailable
from anabranch.service import RunWaits
from anabranch.service.runs import run_waits
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node
from tests.engine.elsewhere import (
    NEVER_MS,
    MakeListening,
    assert_a_cancel_reaches_the_owner,
    assert_a_signal_reaches_a_parked_run,
    listening,
)

QUICK = drawn("quick", node("only"))


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """PostgreSQL has a line between processes instead."""
    return sqlite_url


@pytest.fixture
async def watching(make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch) -> MakeListening:
    """Starts a process that watches the version of the database, and never polls."""
    monkeypatch.setattr(run_waits, "LOOK_MS", NEVER_MS)
    monkeypatch.setattr(run_waits, "FIRST_LOOK_MS", NEVER_MS)
    return listening(make_process)


def count_calls(process: Process, *names: str) -> Counter[str]:
    """How often its engine asks its store for these from now on."""
    calls = Counter[str]()
    for name in names:
        setattr(process.engine.store, name, _counted(calls, name, getattr(process.engine.store, name)))
    return calls


def _counted(calls: Counter[str], name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def ask(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return await verb(*arguments, **named)

    return ask


# -- other processes ----------------------------------------------------------------------
async def test_a_start_by_another_process_is_claimed_without_waiting_for_the_poll(watching: MakeListening) -> None:
    worker, client = await watching(), await watching(works=False)

    run_id = await client.run(QUICK)

    assert (await client.ended(run_id))["status"] == "COMPLETED"
    assert [event.type for of, event in worker.log.events if of == run_id][-1] == "INSTANCE_COMPLETED"


async def test_the_end_of_a_run_elsewhere_is_heard_by_who_waits_for_it(watching: MakeListening) -> None:
    await watching()
    client = await watching(works=False)
    waits = RunWaits(client.engine)

    for _ in range(3):
        run_id = await client.run(QUICK)
        async with asyncio.timeout(30):
            await waits.ended(run_id, tenant_id=TENANT)
        assert (await client.service.get_run_status(run_id, tenant_id=TENANT)).status.is_terminal

    await waits.stop()


async def test_a_cancel_by_another_process_reaches_the_owner(watching: MakeListening) -> None:
    await assert_a_cancel_reaches_the_owner(watching)


async def test_a_signal_by_another_process_reaches_a_parked_run(watching: MakeListening) -> None:
    await assert_a_signal_reaches_a_parked_run(watching)


# -- what it costs ------------------------------------------------------------------------
async def test_who_is_idle_neither_claims_nor_compares(watching: MakeListening) -> None:
    worker = await watching()
    asked = count_calls(worker, "external_changes_possible", "claim", "versions")
    watch = worker.engine.hints._watch
    looks = Counter[str]()
    moved = watch.moved  # type: ignore[union-attr]

    def counted() -> bool:
        looks["moved"] += 1
        return moved()

    watch.moved = counted  # type: ignore[union-attr, method-assign]
    await until(lambda: looks["moved"] >= 20)
    asked.clear()  # what was written before it began has been looked for
    await until(lambda: looks["moved"] >= 40)

    assert asked == {}


async def test_own_commits_are_no_reason_to_claim(watching: MakeListening) -> None:
    worker = await watching()
    asked = count_calls(worker, "claim")
    watch = worker.engine.hints._watch
    others_wrote = watch.others_wrote  # type: ignore[union-attr]

    def counted() -> bool | None:
        asked["watch"] += 1
        return others_wrote()

    watch.others_wrote = counted  # type: ignore[union-attr, method-assign]
    for number in range(1, 6):
        run_id = await worker.run(QUICK)
        await worker.log.saw("INSTANCE_COMPLETED", instance_id=run_id)
        await until(lambda number=number: asked["watch"] >= number)  # type: ignore[misc]

    assert asked["claim"] <= 2, "at the start, and for what was written before it began"


async def test_what_another_process_writes_beside_own_commits_is_found_once_it_can_be_said(
    database_url: str,
) -> None:
    store, stranger = open_store(database_url), sqlite3.connect(database_url.removeprefix("sqlite:///"))
    await store.start()
    watch = open_version_watch(store)
    assert watch is not None
    seen = [watch.others_wrote()]
    await store.external_changes_possible()
    seen.append(watch.others_wrote())
    await store.register_code(name="own", version=1, definition={})
    seen.append(watch.others_wrote())
    stranger.execute("CREATE TABLE further (number INTEGER)")
    seen += [watch.others_wrote(), watch.others_wrote()]
    await store.external_changes_possible()
    seen.append(watch.others_wrote())
    committing, go_on = threading.Event(), threading.Event()

    def commit(_: object) -> None:
        committing.set()
        go_on.wait()

    under_way = asyncio.create_task(store.write(commit))
    await asyncio.to_thread(committing.wait)
    seen.append(watch.others_wrote())
    go_on.set()
    await under_way
    seen.append(watch.others_wrote())
    stranger.close()
    await store.stop()

    assert seen == [None, False, False, True, True, False, None, False]


@pytest.mark.parametrize(
    ("others", "runs", "pause_ms"),
    [(False, False, module.WATCH_IDLE_MS_MAX), (True, False, module.WATCH_MS_MIN), (False, True, module.WATCH_MS_MIN)],
)
async def test_a_heartbeat_of_its_own_keeps_no_process_awake(*, others: bool, runs: bool, pause_ms: int) -> None:
    class OneCommit(Commits):
        moves, told = 0, asyncio.Event()

        def moved(self) -> bool:
            self.moves += 1
            return self.moves == 1

        def others_wrote(self) -> bool:
            self.told.set()
            return others

    clock, watch = StillClock(), OneCommit()
    hints = Hints(
        line=None,
        watch=watch,
        clock=clock,  # type: ignore[arg-type]
        works=True,
        compare=lambda _: None,
        pending=lambda: None,
        moved=lambda: None,
    )
    await hints.start()
    await watch.told.wait()  # it is opened: earlier commits are unknown
    clock.at_s += 3_600
    if runs:
        hints.committed([], NO_OUTCOME)
    watch.told.clear()
    await watch.told.wait()
    await asyncio.sleep(0)
    pause = hints._watch_pause_ms()
    await hints.stop()

    assert pause == pause_ms


async def test_while_it_cannot_be_said_who_commits_a_thread_asks_now_and_then() -> None:
    class BusyWriter(Commits):
        moves = 1
        """Nobody commits after the first one."""

        def moved(self) -> bool:
            self.moves, moved = 0, self.moves > 0
            return moved

        def others_wrote(self) -> None:
            asked["watch"] += 1

    asked, looked = Counter[str](), asyncio.Event()
    hints = Hints(
        line=None,
        watch=BusyWriter(),
        clock=StillClock(),  # type: ignore[arg-type]
        works=True,
        compare=lambda _: None,
        pending=lambda: None,
        moved=looked.set,
    )
    await hints.start()
    await looked.wait()
    await hints.stop()

    assert asked["watch"] == module.UNSURE_MAX


class StillClock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.at_s = 1_000.0

    def monotonic(self) -> float:
        return self.at_s

    async def sleep(self, milliseconds: int) -> None:
        """Not called: nothing is started."""


def hints_at(clock: StillClock, *, works: bool) -> Hints:
    nothing: dict[str, Callable[..., None]] = dict.fromkeys(("compare", "pending", "moved"), lambda *_: None)
    return Hints(line=None, clock=clock, works=works, **nothing)  # type: ignore[arg-type]


def test_the_longer_nothing_happens_the_rarer_it_looks() -> None:
    clock = StillClock()
    hints = hints_at(clock, works=True)
    hints.watch("a run")
    pauses = []
    for quiet_s in (0.0, 0.08, 0.16, 0.4, 5.0, 8.0, 3_600.0):
        clock.at_s = 1_000.0 + quiet_s
        pauses.append(hints._watch_pause_ms())

    assert pauses == [
        module.WATCH_MS_MIN,
        10,
        20,
        module.WATCH_MS_MAX,
        module.WATCH_MS_MAX,
        80,
        module.WATCH_IDLE_MS_MAX,
    ]


async def test_where_the_version_cannot_be_read_it_polls_as_without(watching: MakeListening) -> None:
    worker, client = await watching(), await watching(works=False)
    watch = worker.engine.hints._watch
    assert watch is not None
    opened = asyncio.Event()
    open_again = watch.open

    def unreadable() -> bool:
        watch.moved = readable  # type: ignore[method-assign]
        raise StoreUnavailable("the file cannot be read")

    async def note_and_open() -> None:
        opened.set()
        assert not worker.engine.hints.listening, "nobody relies on it meanwhile"
        await open_again()

    readable, watch.moved, watch.open = watch.moved, unreadable, note_and_open  # type: ignore[method-assign]
    await opened.wait()

    run_id = await client.run(QUICK)

    assert (await client.ended(run_id))["status"] == "COMPLETED", "it is watched again"


def test_a_client_looks_only_while_it_waits() -> None:
    hints = hints_at(StillClock(), works=False)
    pauses = [hints._watch_pause_ms()]
    hints.watch("a run")
    pauses.append(hints._watch_pause_ms())
    hints.unwatch("a run")

    assert [*pauses, hints._watch_pause_ms()] == [None, module.WATCH_MS_MIN, None]


class Commits:
    """A database to which somebody commits all the time."""

    async def open(self) -> None:
        """Nothing to open."""

    def moved(self) -> bool:
        """Always."""
        return True

    def others_wrote(self) -> bool:
        """Always."""
        return True

    def ended(self, instance_ids: Collection[str]) -> Collection[str]:
        """None of them."""
        return []

    def close(self) -> None:
        """Nothing to close."""


async def test_who_begins_to_wait_between_two_looks_makes_none_of_them_late() -> None:
    paused_ms: list[int] = []

    class NotingClock(StillClock):
        async def sleep(self, milliseconds: int) -> None:
            paused_ms.append(milliseconds)

    looks, enough = itertools.count(1), asyncio.Event()

    def wait_for_one_more() -> None:
        number = next(looks)
        hints.watch(f"run {number}")
        if number == 30:
            enough.set()

    hints = Hints(
        line=None,
        watch=Commits(),
        clock=NotingClock(),  # type: ignore[arg-type]
        works=True,
        compare=lambda _: None,
        pending=lambda: None,
        moved=wait_for_one_more,
    )
    await hints.start()
    hints.watch("the first run")
    await enough.wait()
    await hints.stop()

    assert paused_ms == []


# -- the version itself -------------------------------------------------------------------
async def test_a_log_that_was_written_long_ago_answers_for_the_version(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = open_version_watch(open_store(database_url))
    assert watch is not None
    path = Path(database_url.removeprefix("sqlite:///"))
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("CREATE TABLE further (number INTEGER)")
    await watch.open()
    os.utime(f"{path}-wal", (1_000_000_000, 1_000_000_000))
    asked = Counter[str]()
    ask = data_version._ask
    monkeypatch.setattr(data_version, "_ask", lambda connection: asked.update(["ask"]) or ask(connection))

    seen = [watch.moved(), watch.moved(), watch.moved()]
    asked_while_nothing_was_written = asked["ask"]
    writer.execute("INSERT INTO further VALUES (1)")
    seen.append(watch.moved())
    watch.close()
    writer.close()

    assert seen == [False, False, False, True]
    assert (asked_while_nothing_was_written, asked["ask"]) == (1, 2)


async def test_a_commit_moves_the_version_once_and_a_lock_hides_it_only_for_a_while(database_url: str) -> None:
    store = open_store(database_url)
    watch = open_version_watch(store)
    assert watch is not None
    await watch.open()
    path = Path(database_url.removeprefix("sqlite:///"))
    writer = sqlite3.connect(path, isolation_level=None)
    seen = [watch.moved()]
    writer.execute("CREATE TABLE further (number INTEGER)")
    seen += [watch.moved(), watch.moved()]
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO further VALUES (1)")
    seen.append(watch.moved())
    writer.execute("COMMIT")
    seen += [watch.moved(), watch.moved()]
    watch.close()
    watch.close()
    writer.close()

    assert seen == [False, True, False, False, True, False]


async def test_the_end_of_an_awaited_run_is_read_without_a_look_at_each_commit(watching: MakeListening) -> None:
    worker, client = await watching(), await watching(works=False)
    waits = RunWaits(client.engine)
    asked = count_calls(client, "ended_children")
    chain = drawn("chain", *(node(f"n{number}") for number in range(10)))

    run_id = await client.run(chain)
    end = await waits.ended(run_id, tenant_id=TENANT)
    await waits.stop()

    assert end is not None and end.status.value == "COMPLETED"
    assert asked["ended_children"] <= 2, "once as it begins to look, and once as it is told of the end"
    assert await worker.ended(run_id)


async def test_what_cannot_be_read_is_no_end(database_url: str) -> None:
    watch = open_version_watch(open_store(database_url))
    assert watch is not None
    await watch.open()
    seen = [watch.ended(["no such run"])]
    owner = sqlite3.connect(Path(database_url.removeprefix("sqlite:///")), isolation_level=None)
    owner.execute("ALTER TABLE workflow_instances RENAME TO hidden")
    seen.append(watch.ended(["no such run"]))
    owner.close()
    watch.close()

    assert seen == [[], None]


def test_only_a_file_is_watched(postgres_url: str) -> None:
    assert open_version_watch(open_store(postgres_url, pooled=False)) is None


# -- engines of one process ---------------------------------------------------------------
async def test_engines_of_one_process_tell_each_other_without_the_database(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_waits, "LOOK_MS", NEVER_MS)
    monkeypatch.setattr(run_waits, "FIRST_LOOK_MS", NEVER_MS)
    peers: dict[str, Any] = {"poll_ms": NEVER_MS, "target": "one database"}
    worker = await make_process(**peers)
    client, stranger = await make_process(works=False, **peers), await make_process(poll_ms=NEVER_MS)
    waits = RunWaits(client.engine)

    run_id = await client.run(QUICK)
    async with asyncio.timeout(30):
        await waits.ended(run_id, tenant_id=TENANT)

    assert [event.type for of, event in worker.log.events if of == run_id][-1] == "INSTANCE_COMPLETED"
    assert stranger.log.events == []
    await waits.stop()


async def test_peers_receive_hints_on_their_own_loops_until_they_leave() -> None:
    heard: list[tuple[str, str, list[str]]] = []
    here = LocalPeers("a database", receive=lambda *_: heard.append(("here", *_)), watches=lambda _, *, ended: False)  # type: ignore[arg-type]
    joined, leaving = threading.Event(), threading.Event()
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def be_elsewhere() -> None:
        def note(channel: Channel, ids: Any) -> None:
            heard.append((threading.current_thread().name, channel, ids))
            loop.call_soon_threadsafe(told.set)

        elsewhere = LocalPeers("a database", receive=note, watches=lambda each, *, ended: each == "watched")
        elsewhere.join()
        joined.set()
        await asyncio.to_thread(leaving.wait)

    other = threading.Thread(target=lambda: asyncio.run(be_elsewhere()), name="elsewhere")
    other.start()
    await asyncio.to_thread(joined.wait)
    here.join()
    here.send_to_watchers(Channel.ENDED, ["watched", "other"])
    await told.wait()
    leaving.set()
    await asyncio.to_thread(other.join)
    here.send(Channel.PENDING, [""])  # its loop is closed: nobody hears it, and nothing fails
    here.leave()
    here.leave()

    assert heard == [("elsewhere", Channel.ENDED, ["watched"])]
    assert not here.present
