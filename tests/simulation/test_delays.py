"""The heap of due times, stopped at the very moment at which something changes."""

from __future__ import annotations

import asyncio

from anabranch.engine.clock import SystemClock
from anabranch.engine.queues import DelayQueue
from tests.simulation.loop import SimulatedLoop

STEPS_MAX = 50


def test_a_stop_that_comes_with_a_change_ends_all_the_same():
    """The cancel was swallowed with the event (asyncio.wait_for up to Python 3.11), and the stop never returned."""
    for seed in range(40):
        loop = SimulatedLoop(seed=seed)
        with loop.running():
            clock = SystemClock()
            clock.adjust(0)
            delays = DelayQueue(clock, lambda instance_id: None)
            stopped = loop.create_task(_change_and_stop(delays, seed % 4))
            while loop.step() and loop.steps < STEPS_MAX:
                pass
            assert stopped.done(), f"with seed {seed} the stop waits for ever"


async def _change_and_stop(delays: DelayQueue, callbacks_between: int) -> None:
    await delays.start()
    delays.schedule("late", 60_000)
    await asyncio.sleep(0.001)
    delays.schedule("soon", 30_000)
    for _ in range(callbacks_between):
        await asyncio.sleep(0)
    await delays.stop()
