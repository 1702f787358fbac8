"""The engine's clock, on a loop whose time is ours."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.clock import STEP_BACK_MS, SystemClock
from tests.simulation.loop import SimulatedLoop

HOUR_MS = 3_600_000


def test_looking_at_intervals_goes_on_while_the_store_clock_is_set_back():
    """It was not so: leases, recovery and the external watch slept until a time that had moved away by an hour."""
    loop = SimulatedLoop(seed=1)
    with loop.running():
        clock = SystemClock()
        clock.adjust(HOUR_MS)
        asleep = loop.create_task(clock.sleep(500))
        loop.step()
        clock.adjust(0)
        while not asleep.done():
            assert loop.step()
    assert 0.5 <= loop.time() < 0.6


def test_an_answer_that_took_its_time_does_not_set_the_clock_back():
    """It did: runs had started some milliseconds before they were created."""
    loop = SimulatedLoop(seed=1)
    with loop.running():
        clock = SystemClock()
        clock.adjust(HOUR_MS)
        assert clock.now() == HOUR_MS
        clock.adjust(HOUR_MS - STEP_BACK_MS)
        assert clock.now() == HOUR_MS
        clock.adjust(HOUR_MS + 1)
        assert clock.now() == HOUR_MS + 1


def test_a_clock_that_was_set_back_is_followed():
    loop = SimulatedLoop(seed=1)
    with loop.running():
        clock = SystemClock()
        clock.adjust(HOUR_MS)
        assert clock.now() == HOUR_MS
        clock.adjust(HOUR_MS - STEP_BACK_MS - 1)
        assert clock.now() == HOUR_MS - STEP_BACK_MS - 1


def test_a_process_that_stood_still_before_it_read_an_answer_keeps_its_time():
    """It did not: what it created next was eight seconds old."""
    loop = SimulatedLoop(seed=1)
    with loop.running():
        clock = SystemClock()
        clock.adjust(HOUR_MS)
        asked_at = clock.monotonic()
        _pass(loop, 8.0)
        clock.adjust(HOUR_MS + 10, asked_at=asked_at)
        assert clock.now() == HOUR_MS + 8_000


@pytest.mark.parametrize("wrong_by_ms", [-9_000, 9_000])
def test_an_answer_that_took_its_time_corrects_a_clock_that_it_contradicts(wrong_by_ms):
    loop = SimulatedLoop(seed=1)
    with loop.running():
        clock = SystemClock()
        clock.adjust(HOUR_MS + wrong_by_ms)
        asked_at = clock.monotonic()
        _pass(loop, 8.0)
        clock.adjust(HOUR_MS + 10, asked_at=asked_at)
        assert clock.now() == HOUR_MS + 10


def _pass(loop, seconds):
    asleep = loop.create_task(asyncio.sleep(seconds))
    while not asleep.done():
        assert loop.step()
