"""What belongs to a simulated process, and so stops with it."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from tests.simulation.loop import Owner, SimulatedLoop, outside


def later(loop, act):
    loop.call_later(0.1, act, context=contextvars.Context())


def soon(loop, act):
    loop.call_soon(act, context=contextvars.Context())


def in_a_task(loop, act):
    async def wait():
        await asyncio.sleep(0.1)
        act()

    loop.create_task(wait(), context=contextvars.Context())


@pytest.mark.parametrize("schedule", [later, soon, in_a_task])
def test_a_crash_ends_what_a_process_scheduled_in_an_empty_context(schedule):
    """It did not: functions of crashed and of frozen processes went on, since the engine calls them so."""
    loop, owner, done = SimulatedLoop(seed=1), Owner(), []
    with loop.running():
        owner.context.run(schedule, loop, lambda: done.append("done"))
        loop.kill(owner)
        while loop.step():
            pass
    assert not done


@pytest.mark.parametrize("schedule", [later, soon, in_a_task])
def test_a_frozen_process_does_later_what_it_scheduled_in_an_empty_context(schedule):
    loop, owner, done = SimulatedLoop(seed=1), Owner(), []
    with loop.running():
        owner.context.run(schedule, loop, lambda: done.append("done"))
        loop.freeze(owner)
        while loop.step():
            pass
        assert not done
        loop.thaw(owner)
        while loop.step():
            pass
    assert done == ["done"]


def test_what_comes_from_outside_outlives_the_process_that_asked_for_it():
    loop, owner, done = SimulatedLoop(seed=1), Owner(), []
    with loop.running():
        owner.context.run(lambda: loop.call_soon(done.append, "done", context=outside()))
        loop.kill(owner)
        loop.step()
    assert done == ["done"]
