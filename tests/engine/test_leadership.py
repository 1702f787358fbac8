"""One worker looks for all: who leads, who waits for hints, and when everybody looks again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from anabranch.engine.hints.leadership import (
    AILING_REST_S,
    APART_MS,
    BEAT_MS,
    CONFIRMED_S,
    LEADS,
    OVERDUE_INTERVALS,
    OVERDUE_S,
    REMIND_LAST_S,
    RESIGNS,
    REST_S,
    SENDERS_MAX,
    SILENCE_MS,
    TERM_S,
    Leadership,
)
from anabranch.engine.ownership.claiming import Claimer
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import WorkerReport
from anabranch.engine.store.opening import open_leader_rows, open_store
from anabranch.errors import StoreUnavailable
from tests.engine.conftest import TENANT, MakeProcess, until
from tests.engine.drawing import drawn, node
from tests.engine.elsewhere import NEVER_MS, MakeListening, listening

BOUND_S = (SILENCE_MS + APART_MS) / 1000
"""So long after a leader's last beat, every worker has looked for itself or hears another leader."""


class World:
    """Workers of one database, whose clock and hints are in the hands of the test."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.holder: tuple[str, float] | None = None
        self.due_runs = (0, 0)
        self.available = True
        self.random = random.Random(7)
        self.workers: list[Worker] = []

    def add(self, name: str, *, listens: bool = True, may_lead: bool = True) -> Worker:
        worker = Worker(self, name, may_lead=may_lead)
        self.workers.append(worker)
        worker.leadership.listens(connected=listens)
        return worker

    def held_by(self) -> str | None:
        """Who holds the lease now."""
        return self.holder[0] if self.holder is not None and self.holder[1] > self.now_s else None

    async def one_more_beat(self) -> None:
        """Every worker looks that would; the leader first."""
        self.pass_time(BEAT_MS / 1000)
        for each in sorted(self.workers, key=lambda each: not each.leadership.leads):
            await each.leadership.look()

    def pass_time(self, seconds: float) -> None:
        """Meanwhile looks succeed, but for those that hang or fail."""
        self.now_s += seconds
        for each in self.workers:
            each.leadership._searching.succeeded += 1
            each.poller.succeeded += not (each.poller.is_failing or each.poller.is_hanging)


class Worker:
    """One worker; also its rows, and its clock."""

    def __init__(self, world: World, name: str, *, may_lead: bool) -> None:
        self.world = world
        self.name = name
        self.offers = self.reads = self.takes = 0
        self.is_heard = True
        self.leadership = Leadership(
            rows=self,
            worker_id=name,
            clock=self,
            poll_ms=500,
            send=self.send,
            offer=self.offer,
            may_lead=may_lead,
            draw=world.random.randrange,
        )
        self.poller = Requested(self.sleep)
        self.leadership.add(self.poller)

    @property
    def looks(self) -> int:
        """How often this worker was told to look for itself."""
        return self.poller.requests

    def offer(self) -> None:
        self.offers += 1

    def send(self, word: str) -> None:
        for other in self.world.workers:
            if self.is_heard and other is not self:
                other.leadership.receive([word])

    async def holder(self) -> str | None:
        self.reads += 1
        if not self.world.available:
            raise StoreUnavailable("the database is away")
        return self.world.held_by()

    async def take(self, *, worker_id: str, lease_ms: int) -> bool:
        self.takes += 1
        if not self.world.available:
            raise StoreUnavailable("the database is away")
        holder = self.world.holder
        if holder is None or holder[0] == worker_id or holder[1] <= self.world.now_s:
            self.world.holder = (worker_id, self.world.now_s + lease_ms / 1000)
            return True
        return False

    async def give_up(self, *, worker_id: str) -> None:
        if self.world.holder is not None and self.world.holder[0] == worker_id:
            self.world.holder = None

    async def due(self, *, limit: int) -> tuple[int, int]:
        return self.world.due_runs

    def monotonic(self) -> float:
        return self.world.now_s

    def now(self) -> int:
        return round(self.world.now_s * 1000)

    def adjust(self, store_now: int, *, asked_at: float | None = None) -> None:
        raise AssertionError("this clock is set by the test")

    async def sleep(self, milliseconds: int) -> None:
        raise AssertionError("nothing waits here")


class Requested(Poller):
    """Notes requests; its looks fail, succeed or hang as the test says."""

    def __init__(self, sleep: Callable[[int], Awaitable[None]]) -> None:
        super().__init__(self.nothing, name="looking", every_ms=500, sleep=sleep)
        self.requests = 0
        self.is_failing = self.is_hanging = False

    async def nothing(self) -> None:
        if self.is_failing:
            raise StoreUnavailable("reading does not work")

    def soon(self) -> None:
        self.requests += 1


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_worker_leads_and_the_others_are_covered_by_its_beats(world: World) -> None:
    leader, other = world.add("a"), world.add("b")

    await leader.leadership.look()
    await other.leadership.look()

    assert (leader.leadership.leads, leader.leadership.covers()) == (True, False)
    assert (other.leadership.leads, other.leadership.covers()) == (False, True)
    assert other.looks == 0


async def test_a_worker_that_hears_no_beat_looks_for_itself_within_the_bound_and_leads_once_the_lease_is_over(
    world: World,
) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()

    world.pass_time(BOUND_S)
    assert not other.leadership.covers()
    await other.leadership.look()

    assert (other.looks, other.leadership.leads) == (1, True)


async def test_of_many_workers_only_the_first_looks_when_the_leader_dies(world: World) -> None:
    leader, *others = [world.add(f"worker-{number}") for number in range(20)]
    await leader.leadership.look()
    world.workers.remove(leader)

    for _ in range(round(BOUND_S * 1000)):
        world.pass_time(0.001)
        for each in others:
            if not each.leadership.leads and not each.leadership.covers():
                await each.leadership.look()

    assert sum(each.looks for each in others) == 1
    assert sum(each.leadership.leads for each in others) == 1


async def test_a_worker_whose_line_is_lost_polls_although_the_leader_lives(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()

    other.leadership.listens(connected=False)
    await other.leadership.look()

    assert (other.looks, other.leadership.covers(), other.leadership.leads) == (1, False, False)


async def test_a_worker_that_the_beats_do_not_reach_polls_and_does_not_take_the_lead(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    leader.is_heard = False
    for _ in range(5):
        await leader.leadership.look()
        await other.leadership.look()
        world.pass_time(2)

    assert (leader.leadership.leads, other.leadership.leads, other.leadership.covers()) == (True, False, False)
    assert (other.looks, other.takes) == (5, 0)


async def test_a_leader_that_was_frozen_steps_back_when_it_hears_its_successor(world: World) -> None:
    frozen, other = world.add("a"), world.add("b")
    await frozen.leadership.look()
    world.pass_time(BOUND_S)
    await other.leadership.look()
    assert frozen.leadership.leads, "it does not know yet"

    await frozen.leadership.look()

    assert (frozen.leadership.leads, frozen.leadership.covers(), other.leadership.leads) == (False, True, True)


async def test_a_leader_that_stops_is_followed_without_the_silence(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()

    await leader.leadership.stop()
    world.pass_time(APART_MS / 1000)
    await other.leadership.look()

    assert other.leadership.leads


async def test_a_leader_makes_room_after_its_term_and_looks_until_another_leads(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    world.pass_time(TERM_S + 1)

    await leader.leadership.look()
    assert (leader.leadership.leads, leader.leadership.covers(), leader.looks) == (False, False, 2)
    world.pass_time(APART_MS / 1000)
    await other.leadership.look()
    await leader.leadership.look()

    assert (other.leadership.leads, leader.leadership.covers()) == (True, True)


async def test_a_leader_without_others_leads_again_after_its_term(world: World) -> None:
    alone = world.add("a")
    await alone.leadership.look()
    world.pass_time(TERM_S + 1)
    await alone.leadership.look()

    world.pass_time(REST_S)
    await alone.leadership.look()

    assert alone.leadership.leads


async def test_without_the_database_a_worker_looks_for_itself_all_the_same(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    world.pass_time(BOUND_S)
    world.available = False

    with pytest.raises(StoreUnavailable):
        await other.leadership.look()

    assert (other.looks, other.leadership.covers(), other.leadership.leads) == (1, False, False)


async def test_due_runs_are_told_once_and_again_with_growing_pauses_while_they_stay(world: World) -> None:
    leader = world.add("a")
    await leader.leadership.look()

    async def told(due: tuple[int, int], *, after_s: float) -> bool:
        world.due_runs, before = due, leader.offers
        world.pass_time(after_s)
        await leader.leadership.look_for_due()
        return leader.offers > before

    assert not await told((0, 0), after_s=0.5)
    assert await told((1, 1_000), after_s=0.5)
    assert not await told((1, 1_000), after_s=0.5)
    assert await told((1, 1_000), after_s=0.5)
    assert not await told((1, 1_000), after_s=1.5)
    assert await told((1, 1_000), after_s=0.5)
    assert await told((2, 1_000), after_s=0.0), "one more: its pause ended"
    assert not await told((1, 1_000), after_s=0.5)
    assert await told((1, 2_000), after_s=0.0), "another one, as many"
    for _ in range(9):
        await told((1, 2_000), after_s=REMIND_LAST_S)
    assert not await told((1, 2_000), after_s=REMIND_LAST_S - 1)
    assert await told((1, 2_000), after_s=1)


async def test_who_does_not_lead_does_not_look_for_due_runs(world: World) -> None:
    other = world.add("b")
    world.due_runs = (1, 1_000)
    await other.leadership.look_for_due()
    assert other.offers == 0


# -- who may be believed ------------------------------------------------------------------
@pytest.mark.parametrize("sender", ["nobody", "", "b"], ids=["a forged id", "none", "its own"])
async def test_beats_of_somebody_that_the_row_does_not_name_cover_nobody(world: World, sender: str) -> None:
    worker = world.add("b", may_lead=False)
    worker.leadership.receive([LEADS, f"{LEADS}:{sender}"])
    await worker.leadership.look()

    worker.leadership.receive([LEADS, f"{LEADS}:{sender}"])

    assert not worker.leadership.covers()


async def test_a_foreign_leader_costs_a_covered_worker_nothing_and_does_not_keep_it_covered(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    await other.leadership.look()
    reads, looks = other.reads, other.looks
    for _ in range(5):
        other.leadership.receive([f"{LEADS}:{number}" for number in range(SENDERS_MAX + 1)])
        other.leadership.receive([f"{RESIGNS}:foreign"])
        await world.one_more_beat()
        assert other.leadership.covers()
    assert (other.reads, other.looks) == (reads, looks)

    world.workers.remove(leader)
    for _ in range(4):
        other.leadership.receive([f"{LEADS}:{number}" for number in range(SENDERS_MAX + 1)])
        await world.one_more_beat()

    assert other.leadership.leads


async def test_beats_forged_in_the_name_of_a_dead_leader_cover_no_longer_than_until_the_next_report(
    world: World,
) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    await other.leadership.look()
    world.workers.remove(leader)
    world.pass_time(BOUND_S)
    other.leadership.receive([f"{LEADS}:a"])
    assert other.leadership.covers()

    other.leadership._holding._wanted = False
    other.leadership.confirm(world.held_by())
    assert not other.leadership.covers()
    assert other.leadership._holding._wanted, "it looks at once"
    await other.leadership.look()

    assert (other.looks > 0, other.leadership.leads) == (True, True)


async def test_without_reports_the_row_is_believed_for_a_while_and_read_again_without_other_looks(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    await other.leadership.look()
    assert other.reads == 1
    beats = round(CONFIRMED_S * 1000 / BEAT_MS)

    for _ in range(beats - 1):
        await world.one_more_beat()
    assert other.reads == 1
    await world.one_more_beat()

    assert (other.reads, other.looks, other.leadership.covers()) == (2, 0, True)


async def test_a_report_keeps_a_worker_covered_without_a_read(world: World) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    await other.leadership.look()
    for number in range(40):
        await world.one_more_beat()
        if number % 5 == 0:
            other.leadership.confirm(world.held_by())
    assert (other.reads, other.looks) == (1, 0)


async def test_who_may_not_lead_is_told_to_look_when_the_only_leader_is_gone_and_does_not_lead(world: World) -> None:
    leader, command = world.add("a"), world.add("b", may_lead=False)
    await leader.leadership.look()
    await command.leadership.look()
    assert (command.looks, command.leadership.covers()) == (0, True)

    await leader.leadership.stop()
    world.workers.remove(leader)
    world.pass_time(BOUND_S)
    await command.leadership.look()

    assert (command.looks, command.takes, command.leadership.leads) == (1, 0, False)


# -- who leads next -----------------------------------------------------------------------
async def test_the_lead_goes_round_among_all_workers(world: World) -> None:
    for number in range(6):
        world.add(f"worker-{number}")
    await world.workers[0].leadership.look()
    leaders: set[str | None] = set()
    for _ in range(40):
        world.pass_time(TERM_S - 2 - BEAT_MS / 1000)
        await world.one_more_beat()
        leaders.add(world.held_by())
        world.pass_time(3)
        await next(each for each in world.workers if each.leadership.leads).leadership.look()
        for _ in range(APART_MS // 5):
            world.pass_time(0.005)
            for each in world.workers:
                if not each.leadership.leads and not each.leadership.covers():
                    await each.leadership.look()
    assert leaders >= {each.name for each in world.workers}


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_leader_whose_looks_fail_or_hang_makes_room_and_rests_longer(world: World, how: str) -> None:
    leader, other = world.add("a"), world.add("b")
    await leader.leadership.look()
    await other.leadership.look()
    if how == "fails":
        leader.poller.is_failing = True
        await leader.poller._look_once()
    else:
        leader.poller.is_hanging = True
        world.pass_time(OVERDUE_INTERVALS * 0.5 + OVERDUE_S)
        await leader.leadership.look()
        assert leader.leadership.leads, "not yet"
        world.pass_time(0.1)
    await leader.leadership.look()
    assert not leader.leadership.leads
    world.pass_time(APART_MS / 1000)
    await other.leadership.look()
    assert (other.leadership.leads, leader.leadership.covers()) == (True, False)
    await leader.leadership.look()
    assert leader.leadership.covers()

    await other.leadership.stop()
    world.workers.remove(other)
    world.pass_time(BOUND_S)
    await leader.leadership.look()
    assert not leader.leadership.leads, "it rests"
    world.pass_time(AILING_REST_S)
    leader.poller.is_failing = leader.poller.is_hanging = False
    await leader.poller._look_once()
    await leader.leadership.look()
    assert leader.leadership.leads


# -- on PostgreSQL ------------------------------------------------------------------------
@pytest.fixture
def database_url(postgres_url: str) -> str:
    """Only there workers lead: SQLite shows for nothing whether something was written."""
    return postgres_url


@pytest.fixture
async def hinted(make_process: MakeProcess) -> MakeListening:
    return listening(make_process)


async def test_the_row_has_one_leader_until_its_lease_is_over(database_url: str) -> None:
    store = open_store(database_url)
    await store.start()
    rows = open_leader_rows(store)
    assert rows is not None
    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(rows.take(worker_id=name, lease_ms=60_000)) for name in "abc"]
    (leader,) = [name for name, each in zip("abc", tries, strict=True) if each.result()]
    other = "b" if leader == "a" else "a"

    assert await rows.take(worker_id=leader, lease_ms=60_000)
    assert not await rows.take(worker_id=other, lease_ms=60_000)
    assert await rows.holder() == leader
    assert (await store.report_worker(WorkerReport(worker_id=other, executing=0))).leader == leader
    await rows.give_up(worker_id=other)
    assert not await rows.take(worker_id=other, lease_ms=60_000)
    await rows.give_up(worker_id=leader)
    assert await rows.holder() is None
    assert (await store.report_worker(WorkerReport(worker_id=other, executing=0))).leader is None
    assert await rows.take(worker_id=other, lease_ms=0)
    assert await rows.take(worker_id=leader, lease_ms=60_000), "the lease of the other is over"
    await store.stop()


async def test_a_due_run_that_the_leader_cannot_take_reaches_a_worker_that_does_not_poll(
    hinted: MakeListening,
) -> None:
    leader, worker = await hinted(held_max=0, leads=True), await hinted(knows_leader=True)
    await leads(leader.engine.leadership, over=worker.engine.leadership)
    server = await hinted(works=False)
    server.engine.store.report_to(Silent())  # type: ignore[attr-defined]
    run_id = await server.run(drawn("unannounced", node("only")))

    await leader.engine.leadership.look_for_due()

    assert (await worker.ended(run_id))["status"] == "COMPLETED"


async def test_a_pause_that_nobody_announced_is_told_by_the_leader(hinted: MakeListening) -> None:
    leader, worker = await hinted(leads=True), await hinted(knows_leader=True)
    await leads(leader.engine.leadership, over=worker.engine.leadership)
    await leader.engine.store.pause(tenant_id=TENANT, workflow_id=None, by="Ada")

    await leader.engine._external.look()

    await until(lambda: worker.engine.pause_watch._paused)
    assert worker.engine.pause_watch._paused == {(TENANT, None)}


async def test_a_pause_is_heard_of_without_a_leader(hinted: MakeListening) -> None:
    worker, server = await hinted(), await hinted(works=False)
    await server.service.pause_tenant(tenant_id=TENANT, by="Ada")
    await until(lambda: worker.engine.pause_watch._paused)
    assert worker.engine.pause_watch._paused == {(TENANT, None)}


async def test_an_idle_worker_that_is_covered_claims_on_request_only_and_one_with_runs_polls(
    hinted: MakeListening,
) -> None:
    leader, worker = await hinted(leads=True), await hinted(knows_leader=True)
    await leads(leader.engine.leadership, over=worker.engine.leadership)
    claimer = worker.engine.claimer
    assert pause_of(claimer) is None
    assert {look.poller.name for look in leader.engine.leadership._looks} == {
        "claiming",
        "housekeeping",
        "looking for due runs",
        "looking for external changes",
    }, "if one of them fails, it resigns"

    await worker.run(drawn("keeps", node("gate", "testGate", config={"gate": "never"})))
    assert pause_of(claimer) == NEVER_MS
    assert pause_of(leader.engine.claimer) == NEVER_MS


async def test_a_process_that_never_leads_takes_up_due_runs_itself_once_the_only_leader_has_stopped(
    hinted: MakeListening,
) -> None:
    leader = await hinted(held_max=0, leads=True)
    await until(lambda: leader.engine.leadership.leads)
    command = await hinted(knows_leader=True)
    await until(command.engine.leadership.covers)
    await until(lambda: pause_of(command.engine.claimer) is None)
    server = await hinted(works=False)
    server.engine.store.report_to(Silent())  # type: ignore[attr-defined]
    run_id = await server.run(drawn("left", node("only")))

    await leader.engine.stop()

    assert (await command.ended(run_id))["status"] == "COMPLETED"
    assert not command.engine.leadership.leads


async def leads(one: Leadership, *, over: Leadership) -> None:
    """Return when one worker leads and covers the other, which never leads."""
    await until(lambda: one.leads and over.covers())


def pause_of(claimer: Claimer) -> int | None:
    return claimer._pause_ms()


class Silent:
    """Receives what a store has written, and says nothing of it."""

    def committed(self, *_: object) -> None: ...

    def appended(self, *_: object, **__: object) -> None: ...

    def released(self) -> None: ...
