"""Schedules and messages are looked at by the worker that leads; when the lead moves, so do the looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from anabranch.app import build
from anabranch.engine.hints.leadership import APART_MS
from anabranch.engine.ports import Clock
from anabranch.settings import Settings
from anabranch.triggers.run_starter import Starter
from anabranch.triggers.schedules.saved_schedules import SavedSchedules
from anabranch.triggers.schedules.scheduler import Scheduler
from anabranch.triggers.topics.publisher import Publisher
from anabranch.triggers.topics.saved_topics import SavedTopics
from tests.engine.test_leadership import BOUND_S, Worker, World

LOOKS = {"starting what is due", "finishing messages"}


class Looker:
    """The scheduler and the publisher of a worker, on tables that are empty and count who asks; also their clock, whose
    pauses end when the test says so."""

    def __init__(self, world: World, worker: Worker) -> None:
        self._world, self.leadership = world, worker.leadership
        self.schedules = self.messages = 0
        self._pauses: list[asyncio.Future[None]] = []
        starter, clock = cast("Starter", None), cast("Clock", self)
        covers = self.leadership.covers
        self.pollers = (
            Scheduler(
                saved=cast("SavedSchedules", self),
                starter=starter,
                clock=clock,
                store_now=self.store_now,
                covers=covers,
            ),
            Publisher(
                saved=cast("SavedTopics", self), starter=starter, clock=clock, store_now=self.store_now, covers=covers
            ),
        )

    @property
    def looks(self) -> tuple[int, int]:
        """How often it has looked for due schedules, and for unfinished messages."""
        return self.schedules, self.messages

    async def due_schedules(self, **_: Any) -> list[Any]:
        self.schedules += 1
        return []

    async def take_unfinished(self, **_: Any) -> list[Any]:
        self.messages += 1
        return []

    async def remove_finished(self, **_: Any) -> int:
        return 0

    async def store_now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self._world.now_s

    async def sleep(self, milliseconds: int) -> None:
        pause = asyncio.get_running_loop().create_future()
        self._pauses.append(pause)
        await pause

    def end_pauses(self) -> None:
        """Every pause that has an end is over."""
        pauses, self._pauses = self._pauses, []
        for pause in pauses:
            if not pause.done():
                pause.set_result(None)


@asynccontextmanager
async def lookers(count: int) -> AsyncIterator[tuple[World, list[Looker]]]:
    """So many workers; the first of them leads and the others know."""
    world = World()
    workers = [world.add(f"worker-{number}") for number in range(count)]
    found = [Looker(world, worker) for worker in workers]
    for each in found:
        for poller in each.pollers:
            each.leadership.add(poller)
    for worker in workers:
        await worker.leadership.look()
    for each in found:
        for poller in each.pollers:
            await poller.start()
    await settle()
    try:
        yield world, found
    finally:
        for each in found:
            for poller in each.pollers:
                await poller.stop()


async def settle() -> None:
    """Nothing here waits for anything but the test: after some turns of the loop all have come to their pauses."""
    for _ in range(50):
        await asyncio.sleep(0)


async def rounds(count: int, all_of_them: list[Looker]) -> list[tuple[int, int]]:
    """What each has looked at while so many pauses ended."""
    before = [each.looks for each in all_of_them]
    for _ in range(count):
        for each in all_of_them:
            each.end_pauses()
        await settle()
    return [
        (each.schedules - schedules, each.messages - messages)
        for each, (schedules, messages) in zip(all_of_them, before, strict=True)
    ]


async def test_only_the_leader_looks_for_due_schedules_and_unfinished_messages() -> None:
    async with lookers(3) as (_, workers):
        assert [each.looks for each in workers] == [(1, 1)] * 3, "each once when it starts"
        assert await rounds(5, workers) == [(5, 5), (0, 0), (0, 0)]


async def test_the_next_leader_looks_at_once_when_the_leader_stops_and_goes_on() -> None:
    async with lookers(3) as (world, (leader, second, third)):
        await leader.leadership.stop()
        world.pass_time(APART_MS / 1000)
        await second.leadership.look()
        await third.leadership.look()
        await settle()
        assert (second.looks, third.looks) == ((2, 2), (1, 1)), "at once, and only the next leader"
        assert await rounds(5, [second, third]) == [(5, 5), (0, 0)]


async def test_the_next_leader_looks_when_one_is_frozen_and_that_one_stops_looking_when_it_goes_on() -> None:
    async with lookers(3) as (world, (frozen, second, third)):
        frozen_worker = world.workers.pop(0)
        world.pass_time(BOUND_S)
        assert not second.leadership.covers() and not third.leadership.covers()
        await second.leadership.look()
        await settle()
        assert second.looks == (2, 2)
        await third.leadership.look()
        assert await rounds(5, [second, third]) == [(5, 5), (0, 0)]

        world.workers.append(frozen_worker)
        assert await rounds(1, [frozen]) == [(1, 1)], "it believes that it leads, and looks besides"
        await frozen.leadership.look()
        await second.leadership.look()
        await rounds(1, [frozen])
        assert await rounds(5, [frozen]) == [(0, 0)], "until it reads who leads, and hears that"


async def test_a_process_that_works_lets_the_leader_look_and_one_that_does_not_has_no_looks(database_url: str) -> None:
    settings = Settings.load(environ={}, database_url=database_url)
    async with build(settings).open_services(works=True) as services:
        leadership = services.engine.leadership
        pollers = {look.poller.name: look.poller for look in leadership._looks if look.poller.name in LOOKS}
        assert pollers.keys() == LOOKS
        assert {poller._only_on_request for poller in pollers.values()} == {leadership.covers}
    async with build(settings).open_services(works=False) as services:
        assert not LOOKS & {look.poller.name for look in services.engine.leadership._looks}
