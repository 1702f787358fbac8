"""The poller: when it looks, what it does with failures, and how it ends. Time is virtual."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from anabranch.engine import periodic_poller as module
from anabranch.engine.periodic_poller import APART_MS, OWED_MS_MAX, RETRY_FIRST_MS, RETRY_LAST_MS, Poller
from anabranch.errors import StoreUnavailable
from tests.durable.loop_world import VirtualLoop

AWAY = StoreUnavailable("the database is away")


def virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop whose time passes when nothing else is to be done."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(**fixtures))

    return run


class Looks:
    """Notes when it was looked, and answers as it was told to; None once nothing is left."""

    def __init__(self, *answers: bool | Exception | None) -> None:
        self.answers = list(answers)
        self.at_ms: list[int] = []

    async def __call__(self) -> bool | None:
        self.at_ms.append(round(asyncio.get_running_loop().time() * 1000))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


async def sleep_ms(milliseconds: int) -> None:
    await asyncio.sleep(milliseconds / 1000)


def polling(look: Looks, every_ms: int | None = 1_000, **options: object) -> Poller:
    return Poller(look, name="looking", every_ms=every_ms, sleep=sleep_ms, **options)  # type: ignore[arg-type]


@virtual_time
async def test_it_looks_at_every_interval_and_for_the_first_time_after_one() -> None:
    looks = Looks()
    poller = polling(looks)
    await poller.start()
    await sleep_ms(3_500)
    await poller.stop()
    await sleep_ms(5_000)

    assert looks.at_ms == [1_000, 2_000, 3_000]


@virtual_time
async def test_it_looks_at_once_when_asked_and_then_at_the_interval_again() -> None:
    looks = Looks()
    poller = polling(looks)
    await poller.start()
    await sleep_ms(300)
    poller.soon()
    await sleep_ms(1_500)
    await poller.stop()

    assert looks.at_ms == [300, 1_300]


@virtual_time
async def test_what_was_asked_for_before_the_start_is_looked_at_with_it() -> None:
    looks = Looks()
    poller = polling(looks)
    poller.soon()
    await poller.start()
    await sleep_ms(10)
    await poller.stop()

    assert looks.at_ms == [0]


@pytest.mark.parametrize(("takes_ms", "apart_ms"), [(0, 1), (2, 2 + 8), (10, 10 + 40), (30, 30 + 50)])
def test_a_flood_of_requests_leaves_four_fifths_of_the_time_and_the_last_one_is_answered(
    takes_ms: int, apart_ms: int
) -> None:
    looked_ms = list[int]()

    @virtual_time
    async def flood() -> None:
        async def look() -> None:
            looked_ms.append(round(asyncio.get_running_loop().time() * 1000))
            await sleep_ms(takes_ms)

        poller = Poller(look, name="looking", every_ms=None, sleep=sleep_ms)
        await poller.start()
        for _ in range(1_000):
            poller.soon()
            await sleep_ms(1)
        await sleep_ms(2 * APART_MS)
        await poller.stop()

    flood()
    pauses = [later - earlier for earlier, later in itertools.pairwise(looked_ms)]
    at_once = OWED_MS_MAX // (apart_ms - takes_ms)
    assert set(pauses[:at_once]) <= {max(takes_ms, 1)}, "as many as may be owed"
    assert set(pauses[at_once + 1 :]) == {apart_ms}
    assert looked_ms[-1] >= 999


@virtual_time
async def test_a_look_that_found_something_owes_as_much_as_it_took() -> None:
    looked_ms: list[int] = []

    async def look() -> None:
        looked_ms.append(round(asyncio.get_running_loop().time() * 1000))
        poller.found = True
        await sleep_ms(5)
        poller.soon()

    poller = Poller(look, name="looking", every_ms=None, sleep=sleep_ms)
    await poller.start()
    poller.soon()
    await sleep_ms(1_000)
    await poller.stop()

    pauses = [later - earlier for earlier, later in itertools.pairwise(looked_ms)]
    assert set(pauses[: OWED_MS_MAX // 5]) == {5}
    assert set(pauses[OWED_MS_MAX // 5 + 1 :]) == {10}


@virtual_time
async def test_who_asks_after_a_while_is_answered_at_once() -> None:
    looks = Looks()
    poller = polling(looks, every_ms=None)
    await poller.start()
    for at_ms in range(100):
        await sleep_ms(10 - at_ms % 2)
        poller.soon()
    await sleep_ms(1)
    await poller.stop()

    assert len(looks.at_ms) == 100


@virtual_time
async def test_an_interval_may_change_and_cease() -> None:
    intervals: list[int | None] = [10, 20, 40, None, 80, None]
    looks = Looks()
    poller = Poller(looks, name="looking", every_ms=lambda: intervals.pop(0), sleep=sleep_ms)
    await poller.start()
    await sleep_ms(1_000)
    poller.soon()
    await sleep_ms(1_000)
    await poller.stop()

    assert looks.at_ms == [10, 30, 70, 1_000, 1_080]


@virtual_time
async def test_without_an_interval_nobody_looks_unasked() -> None:
    looks = Looks()
    poller = polling(looks, every_ms=None)
    await poller.start()
    await sleep_ms(3_600_000)
    await poller.stop()

    assert looks.at_ms == []


@virtual_time
async def test_a_request_during_a_look_leads_to_another_one() -> None:
    looking, looked = asyncio.Event(), list[int]()

    async def look() -> None:
        looked.append(1)
        await looking.wait()

    poller = Poller(look, name="looking", every_ms=None, sleep=sleep_ms)
    await poller.start()
    poller.soon()
    await sleep_ms(100)
    poller.soon()
    looking.set()
    await sleep_ms(2 * APART_MS)
    await poller.stop()

    assert len(looked) == 2


@virtual_time
async def test_a_look_that_left_something_is_followed_at_once() -> None:
    looks = Looks(True, True, False)
    poller = polling(looks)
    await poller.start()
    await sleep_ms(1_500)
    await poller.stop()

    assert looks.at_ms == [1_000, 1_000, 1_000]


@virtual_time
async def test_a_look_that_always_leaves_something_lets_others_have_their_turn() -> None:
    looks = Looks(*[True] * 10_000)
    poller = Poller(looks, name="looking", every_ms=None, sleep=sleep_ms)
    await poller.start()
    poller.soon()
    for _ in range(10):
        await asyncio.sleep(0)
    await poller.stop()

    assert 0 < len(looks.at_ms) <= 10, "one look at most for each of our turns"


@virtual_time
async def test_failures_are_told_once_and_backed_off(caplog: pytest.LogCaptureFixture) -> None:
    looks = Looks(AWAY, AWAY, AWAY, AWAY, AWAY, None, AWAY)
    poller = polling(looks, every_ms=None)
    await poller.start()
    poller.soon()
    await sleep_ms(60_000)
    pauses = [later - earlier for earlier, later in zip(looks.at_ms, looks.at_ms[1:], strict=False)]
    poller.soon()
    await sleep_ms(60_000)
    await poller.stop()

    assert pauses == [RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, 4 * RETRY_FIRST_MS, RETRY_LAST_MS, RETRY_LAST_MS]
    told = [record.getMessage() for record in caplog.records]
    assert told == ["looking waits for the database: the database is away"] * 2, "once for each outage"


@virtual_time
async def test_a_fault_is_told_with_its_place_and_another_one_again(caplog: pytest.LogCaptureFixture) -> None:
    looks = Looks(RuntimeError("one"), RuntimeError("one"), RuntimeError("two"), None)
    poller = polling(looks)
    await poller.start()
    await sleep_ms(60_000)
    await poller.stop()

    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert all(record.exc_info for record in caplog.records)
    assert len(looks.at_ms) > 10, "it goes on"


@virtual_time
async def test_asking_does_not_shorten_the_pause_after_a_failure() -> None:
    looks = Looks(AWAY)
    poller = polling(looks, every_ms=None)
    await poller.start()
    poller.soon()
    await sleep_ms(1)
    poller.soon()
    await sleep_ms(RETRY_FIRST_MS - 10)
    early = len(looks.at_ms)
    await sleep_ms(20)
    await poller.stop()

    assert (early, len(looks.at_ms)) == (1, 2)


@virtual_time
async def test_pauses_after_failures_are_no_longer_than_asked_for() -> None:
    looks = Looks(*[AWAY] * 20)
    poller = polling(looks, every_ms=100, retry_last_ms=100)
    await poller.start()
    await sleep_ms(1_050)
    await poller.stop()

    assert looks.at_ms == list(range(100, 1_050, 100))


@virtual_time
async def test_who_wants_to_be_told_of_outages_is_told_of_each_in_place_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = list[StoreUnavailable]()
    poller = polling(Looks(AWAY, AWAY), unavailable=told.append)
    await poller.start()
    await sleep_ms(10_000)
    await poller.stop()

    assert told == [AWAY, AWAY] and caplog.records == []


@virtual_time
async def test_finishing_does_what_was_asked_for_and_no_more() -> None:
    looks = Looks()
    poller = polling(looks, every_ms=None)
    await poller.start()
    poller.soon()
    await sleep_ms(1)
    poller.soon()
    await poller.finish()
    await sleep_ms(10_000)
    await poller.stop()

    assert len(looks.at_ms) == 2


@virtual_time
async def test_finishing_ends_though_the_last_look_fails() -> None:
    looks = Looks(AWAY)
    poller = polling(looks, every_ms=None)
    await poller.start()
    poller.soon()
    await poller.finish()

    assert len(looks.at_ms) == 1


@pytest.mark.parametrize("end", [Poller.stop, Poller.finish])
@virtual_time
async def test_it_may_end_before_it_begins_and_twice(end: Callable[[Poller], object]) -> None:
    for starts in (False, True):
        looks = Looks()
        poller = polling(looks)
        if starts:
            await poller.start()
        await end(poller)  # type: ignore[misc]
        await end(poller)  # type: ignore[misc]
        poller.soon()
        await sleep_ms(10_000)
        assert looks.at_ms == [], "a poller that has ended does not look again"


@virtual_time
async def test_a_stop_cuts_a_look_off() -> None:
    cut_off = asyncio.Event()

    async def look() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut_off.set()

    poller = Poller(look, name="looking", every_ms=None, sleep=sleep_ms)
    poller.soon()
    await poller.start()
    await sleep_ms(1)
    await poller.stop()

    assert cut_off.is_set()


@virtual_time
async def test_a_look_that_does_not_give_way_holds_up_no_stop(caplog: pytest.LogCaptureFixture) -> None:
    released = asyncio.Event()

    async def look() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await released.wait()

    poller = Poller(look, name="looking", every_ms=None, sleep=sleep_ms)
    poller.soon()
    await poller.start()
    await sleep_ms(1)
    began = asyncio.get_running_loop().time()
    await poller.stop()

    assert asyncio.get_running_loop().time() - began == pytest.approx(module.STOP_S)
    assert "left behind" in caplog.text
    released.set()
    await asyncio.sleep(0)


@virtual_time
async def test_while_others_look_it_does_so_on_request_only_and_then_at_its_interval_again() -> None:
    looks, others_look = Looks(), True
    poller = polling(looks, only_on_request=lambda: others_look)
    await poller.start()
    await sleep_ms(5_000)
    assert looks.at_ms == []

    poller.soon()
    await sleep_ms(5_000)
    others_look = False
    assert looks.at_ms == [5_000]
    poller.soon()
    await sleep_ms(2_500)

    assert looks.at_ms == [5_000, 10_000, 11_000, 12_000]
    await poller.stop()


@virtual_time
async def test_it_tells_how_many_looks_have_succeeded_and_whether_the_last_one_failed() -> None:
    poller = polling(Looks(None, AWAY, None))
    await poller.start()
    told = []
    for _ in range(3):
        await sleep_ms(1_001)
        told.append((poller.succeeded, poller.fails))
    await poller.stop()

    assert told == [(1, False), (1, True), (2, False)]
    assert poller.interval_ms == 1_000
