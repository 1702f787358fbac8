"""One read for many callers, and never an answer that was read before the question."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.service.runs.shared_reads import SharedReads


class Source:
    """A value that changes, behind reads that a test lets through one by one."""

    def __init__(self) -> None:
        self.value = 1
        self.reads = 0
        self.gate = asyncio.Semaphore(0)

    async def read(self, key: str) -> int:
        self.reads += 1
        value = self.value
        await self.gate.acquire()
        if value < 0:
            raise LookupError(key)
        return value


async def apply_outcome() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_callers_during_a_read_share_the_next_one() -> None:
    source = Source()
    shared = SharedReads(source.read)
    first = asyncio.create_task(shared.get("a"))
    await apply_outcome()
    source.value = 2
    others = [asyncio.create_task(shared.get("a")) for _ in range(100)]
    await apply_outcome()
    source.gate.release()
    await apply_outcome()
    source.gate.release()

    assert await first == 1
    assert await asyncio.gather(*others) == [2] * 100, "a read that began before they asked would say 1"
    assert source.reads == 2


async def test_a_failure_reaches_everybody_and_the_next_caller_reads_anew() -> None:
    source = Source()
    shared = SharedReads(source.read)
    source.value = -1
    source.gate.release()
    with pytest.raises(LookupError):
        await shared.get("a")

    source.value = 3
    source.gate.release()
    assert await shared.get("a") == 3


async def test_a_caller_that_gives_up_takes_nothing_from_the_others() -> None:
    source = Source()
    shared = SharedReads(source.read)
    impatient = asyncio.create_task(shared.get("a"))
    await apply_outcome()
    patient = asyncio.create_task(shared.get("a"))
    await apply_outcome()
    impatient.cancel()
    await apply_outcome()
    source.gate.release()
    source.gate.release()

    assert await patient == 1


async def test_keys_do_not_wait_for_each_other() -> None:
    source = Source()
    shared = SharedReads(source.read)
    reads = [asyncio.create_task(shared.get(key)) for key in "abc"]
    await apply_outcome()

    assert source.reads == 3
    for _ in reads:
        source.gate.release()
    assert await asyncio.gather(*reads) == [1, 1, 1]
