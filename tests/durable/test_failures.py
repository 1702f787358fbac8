"""What the author's code may raise: whatever it is, the step or the run fails with it, and none hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.durable.definition import workflow
from anabranch.durable.step_error import StepError
from tests.durable.conftest import MakePlace

ONCE = {"attempts": 1}


class OwnStop(StopIteration):
    pass


def first_of_none() -> Any:
    return next(each for each in [] if each)


def own_stop() -> Any:
    raise OwnStop(7)


async def stops_in_a_coroutine() -> Any:
    raise StopIteration


STOPS: dict[str, Callable[[], Any]] = {"thread": first_of_none, "own": own_stop, "coroutine": stops_in_a_coroutine}


@workflow(name="stops")
async def stops(ctx: Any, input: Any) -> Any:
    await ctx.step.run("first", STOPS[input], retry=ONCE)


@pytest.mark.parametrize("where", STOPS)
async def test_a_step_that_raises_stop_iteration_fails_in_a_thread_as_in_a_coroutine(
    make_place: MakePlace, where: str
) -> None:
    place = await make_place(stops)
    error = (await place.ended(await place.start("stops", where)))["error"]

    assert (error["type"], error["message"]) == ("RuntimeError", "coroutine raised StopIteration")
    assert error["nodeID"] == "first"
    assert where == "coroutine" or f"in {STOPS[where].__name__}" in error["traceback"]
