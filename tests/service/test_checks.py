"""Checks that take long: in threads of their own, in turn for each tenant, and bounded in number."""

from __future__ import annotations

import asyncio
import threading

import pytest

from anabranch.errors import TooManyChecks
from anabranch.service.definitions.checks import WAITING_MAX, Checks

SCHEMA = {"items": {"type": "integer"}}


async def test_a_tenant_whose_checks_take_long_holds_up_no_other():
    checks, gate = Checks(), threading.Event()
    slow = [asyncio.ensure_future(checks.run("slow", gate.wait)) for _ in range(10)]
    try:
        assert await checks.run("quick", lambda: "checked") == "checked"
        assert await checks.input_problems("quick", SCHEMA, list(range(10_000))) == []
    finally:
        gate.set()
        await asyncio.gather(*slow)


async def test_so_many_checks_of_a_tenant_wait_and_further_ones_are_refused():
    checks, gate = Checks(), threading.Event()
    waiting = [asyncio.ensure_future(checks.run("acme", gate.wait)) for _ in range(WAITING_MAX + 1)]
    try:
        await asyncio.sleep(0)
        with pytest.raises(TooManyChecks):
            await checks.run("acme", gate.wait)
        under_way = asyncio.ensure_future(checks.input_problems("acme", SCHEMA, list(range(10_000)), bounded=False))
    finally:
        gate.set()
        await asyncio.gather(*waiting)
    assert await under_way == [], "work that is under way is not refused"
    assert await checks.run("acme", lambda: "again") == "again"


async def test_a_large_input_is_checked_beside_the_event_loop_and_a_small_one_on_it(monkeypatch: pytest.MonkeyPatch):
    checks, used = Checks(), []
    real = checks._run

    async def noting(*arguments: object, **options: object) -> object:
        used.append(arguments[0])
        return await real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checks, "_run", noting)
    assert await checks.input_problems("acme", SCHEMA, [1, 2, 3]) == []
    assert used == []
    assert (await checks.input_problems("acme", SCHEMA, [*range(10_000), "x"]))[0][0] == "/10000"
    assert used == ["acme"]


async def test_what_a_check_raises_is_raised_and_the_next_one_is_made():
    checks = Checks()
    with pytest.raises(ZeroDivisionError):
        await checks.run("acme", lambda: 1 // 0)
    assert await checks.run("acme", lambda: "next") == "next"
