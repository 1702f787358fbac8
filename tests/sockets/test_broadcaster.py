"""The broadcaster without a network: whatever happens in whatever order, each client hears each update once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from anabranch.errors import NotFound, StoreUnavailable
from anabranch.sockets.broadcaster import LOOK_S
from anabranch.sockets.clients import UPDATES_BEHIND_MAX
from anabranch.sockets.rooms import BATCH_S, BATCH_UPDATES_MAX, EVENTS_ASIDE_MAX, SNAPSHOT_S
from tests.sockets.services import RUN, AppServices, completed, dispatched, node_seqs


async def test_where_nobody_watches_nothing_is_kept_or_read() -> None:
    async with AppServices() as services:
        services.begin()
        await services.timer.pass_(10)
        assert services.log.loads == 0 and services.broadcaster.rooms_count == 0


async def test_a_gap_is_filled_from_the_log() -> None:
    async with AppServices(held=True) as services:
        services.begin()
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(0)
        assert (await joined)["seq"] == 2
        services.commit(completed("a"), dispatched("b"), told=False)
        services.commit(completed("b"), dispatched("c"))
        await services.timer.pass_(1)
        assert node_seqs(line.heard()) == [3, 4, 5, 6]


async def test_what_others_commit_is_seen_at_the_next_look() -> None:
    async with AppServices() as services:
        services.begin()
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(LOOK_S * 2)
        await joined
        services.commit(completed("a"), dispatched("b"), told=False)
        await services.timer.pass_(LOOK_S + BATCH_S)
        assert node_seqs(line.heard()) == [3, 4]
        loads = services.log.loads
        await services.timer.pass_(LOOK_S * 10)
        assert services.log.loads == loads, "a run that does not move is not read"


async def test_a_hint_is_followed_at_once() -> None:
    async with AppServices() as services:
        services.begin()
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(LOOK_S + BATCH_S + 0.05)
        await joined
        services.commit(completed("a"), told=False)
        services.broadcaster.changed(RUN)
        await services.timer.pass_(0)
        assert node_seqs(line.heard()) == [3]


async def test_a_store_that_was_away_is_asked_again() -> None:
    async with AppServices() as services:
        services.begin()
        client, line = services.client()
        services.log.away = True
        with pytest.raises(StoreUnavailable):
            await services.broadcaster.join(client, RUN)
        assert services.broadcaster.rooms_count == 0 and client.memberships == {}
        services.log.away = False
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(1)
        await joined
        services.log.away = True
        services.commit(completed("a"), told=False)
        services.broadcaster.changed(RUN)
        await services.timer.pass_(3)
        services.log.away = False
        await services.timer.pass_(LOOK_S + BATCH_S)
        assert node_seqs(line.heard()) == [3]


async def test_a_flood_that_was_not_kept_is_read_once_the_store_is_back() -> None:
    async with AppServices(held=True) as services:
        services.begin()
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(0)
        await joined
        services.log.away = True
        services.commit(*(dispatched(f"n{number}") for number in range(EVENTS_ASIDE_MAX + 1)))
        await services.timer.pass_(LOOK_S)
        services.log.away = False
        await services.timer.pass_(LOOK_S + BATCH_S)
        assert [each["seq"] for each in line.heard()] == [len(services.log.events)]


async def test_a_run_that_is_not_there_leaves_no_room() -> None:
    async with AppServices() as services:
        client, _ = services.client()
        with pytest.raises(NotFound):
            await services.broadcaster.join(client, RUN)
        assert services.broadcaster.rooms_count == 0


async def test_a_run_whose_rows_were_removed_was_cancelled() -> None:
    async with AppServices() as services:
        services.begin()
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(1)
        await joined
        services.log.removed = True
        await services.timer.pass_(1)
        told = [(each["event"], each.get("nodeID"), each["status"]) for each in line.heard()]
        assert told == [
            ("workflow_node_update", "a", "cancelled"),
            ("workflow_status_update", None, "CANCELLED"),
        ]
        assert services.broadcaster.rooms_count == 0


async def test_a_client_that_takes_nothing_gets_a_snapshot_in_place_of_what_it_missed() -> None:
    async with AppServices(held=True) as services:
        services.begin()
        (slow, slow_line), (fast, fast_line) = services.client(), services.client()
        joins = [asyncio.create_task(services.broadcaster.join(each, RUN)) for each in (slow, fast)]
        await services.timer.pass_(0)
        await asyncio.gather(*joins)
        slow_line.get_stuck()
        for number in range(UPDATES_BEHIND_MAX):
            services.commit(dispatched(f"n{number}"), completed(f"n{number}"))
            if number % 10 == 0:
                await services.timer.pass_(BATCH_S)
        await services.timer.pass_(BATCH_S)
        stuck_with = len(slow_line.messages)
        services.end()
        await services.timer.pass_(BATCH_S)
        slow_line.get_loose()
        await services.timer.pass_(2 * SNAPSHOT_S)

        seqs = node_seqs(fast_line.heard())
        assert seqs[:-1] == list(range(3, 3 + 2 * UPDATES_BEHIND_MAX)), "who keeps up hears everything"
        assert len(slow_line.messages) < stuck_with + 12, "what it did not take was not kept"
        heard = slow_line.heard()
        assert [each["event"] for each in heard[-2:]] == ["workflow_run_snapshot", "workflow_status_update"]
        snapshot, end = heard[-2:]
        assert (
            snapshot["seq"] == end["seq"] == len(services.log.events)
            and snapshot["status"] == end["status"] == "COMPLETED"
        )
        assert len(snapshot["nodes"]) == 1 + UPDATES_BEHIND_MAX
        assert end["contextData"]["input"] == 1
        assert slow.memberships == {} and services.broadcaster.rooms_count == 0


async def test_a_flood_is_told_by_a_snapshot_a_second() -> None:
    async with AppServices(held=True) as services:
        services.begin()
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN))
        await services.timer.pass_(0)
        await joined
        for wave in range(6):
            services.commit(*(dispatched(f"{wave}-{number}") for number in range(BATCH_UPDATES_MAX + 1)))
            await services.timer.pass_(SNAPSHOT_S / 2)
        services.end()
        await services.timer.pass_(2 * SNAPSHOT_S)
        kinds = [each["event"] for each in line.heard()]
        assert kinds.count("workflow_run_snapshot") in (3, 4, 5), kinds.count("workflow_run_snapshot")
        assert kinds[-1] == "workflow_status_update"
        assert len(line.messages) < 12


async def test_a_long_absence_is_made_up_for_by_a_snapshot() -> None:
    async with AppServices(held=True) as services:
        services.begin()
        for number in range(UPDATES_BEHIND_MAX):
            services.commit(dispatched(f"n{number}"), completed(f"n{number}"))
        client, line = services.client()
        joined = asyncio.create_task(services.broadcaster.join(client, RUN, since=3))
        await services.timer.pass_(1)
        answer = await joined
        services.end()
        await services.timer.pass_(1)
        kinds = [each["event"] for each in line.heard()]
        assert kinds == ["workflow_run_snapshot", "workflow_node_update", "workflow_status_update"]
        assert line.heard()[0]["seq"] == answer["seq"]


class Judge:
    """A client of the property test: what it must hear, given when it joined."""

    def __init__(self, services: AppServices) -> None:
        self.services = services
        self.client, self.line = services.client()
        self.joining: asyncio.Task[dict[str, Any]] | None = None
        self.since: int | None = None
        self.mark = 0
        self.answer: dict[str, Any] | None = None

    def join(self, since: int | None) -> None:
        self.since = since
        self.mark = len(self.line.messages)
        self.answer = None

        async def join() -> dict[str, Any]:
            return await self.services.broadcaster.join(self.client, RUN, since=since)

        self.joining = asyncio.create_task(join())

    async def learn(self) -> None:
        """Take the answer, once it is there."""
        if self.joining is not None and self.joining.done():
            self.answer, self.joining = await self.joining, None

    def check(self, *, complete: bool) -> None:
        """What was heard since the join is a beginning (or all) of what had to be told."""
        if self.answer is None:
            return
        seq = self.answer["seq"]
        first = seq if self.since is None else min(self.since, seq)
        expected = [event.seq for event in self.services.log.events if event.seq > first and event.node_id]
        messages, self.line.messages = self.line.messages, self.line.messages[self.mark :]
        heard = self.line.heard()
        self.line.messages = messages
        assert not [each for each in heard if each["event"] == "workflow_run_snapshot"]
        seqs = [
            each["seq"] for each in heard if each["event"] == "workflow_node_update" and each["status"] != "cancelled"
        ]
        assert seqs == expected[: len(seqs)], (
            f"since {self.since}, joined at {seq}: {seqs} is no beginning of {expected}"
        )
        if complete:
            assert seqs == expected
            assert [each["status"] for each in heard if each["event"] == "workflow_status_update"][-1:] == (
                ["COMPLETED"] if first < len(self.services.log.events) else []
            )
        assert [each["seq"] for each in heard] == sorted(each["seq"] for each in heard)


@pytest.mark.parametrize("seed", range(60))
async def test_each_update_is_heard_once_and_in_order(seed: int) -> None:
    dice = random.Random(seed)
    async with AppServices(held=dice.random() < 0.5) as services:
        services.begin()
        judges = [Judge(services) for _ in range(3)]
        number = 0
        for _ in range(60):
            judge = dice.choice(judges)
            match dice.randrange(8):
                case 0 | 1 | 2:
                    number += 1
                    told = dice.random() < (0.8 if services.held else 0.3)
                    services.commit(dispatched(f"n{number}"), completed(f"n{number}"), told=told)
                case 3:
                    if judge.joining is None:
                        seq = len(services.log.events)
                        judge.join(dice.choice([None, 0, max(0, seq - 3), seq, seq + 2]))
                case 4:
                    if judge.answer is not None:
                        judge.check(complete=False)
                        services.broadcaster.leave(judge.client, RUN)
                        judge.answer = None
                case 5:
                    (judge.line.get_loose if judge.line.stuck else judge.line.get_stuck)()
                case 6:
                    services.broadcaster.changed(RUN)
                case 7:
                    services.held = not services.held
            for each in judges:
                await each.learn()
                each.check(complete=False)
            await services.timer.pass_(dice.choice([0, 0, 0, 0.01, 0.1, 0.6]))
        for each in judges:
            each.line.get_loose()
        services.held = False
        services.end(told=dice.random() < 0.5)
        await services.timer.pass_(5)
        for each in judges:
            await each.learn()
            each.check(complete=True)
        assert services.broadcaster.rooms_count == 0
