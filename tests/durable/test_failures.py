"""What the author's code may raise: whatever it is, the step or the run fails with it, and none hangs."""

from __future__ import annotations

import asyncio
import copy
import pickle  # noqa: TID251 -- process pools do so with what is raised in them
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from anabranch.durable.definition import workflow
from anabranch.durable.execution import StepOrigin, run_attempt
from anabranch.durable.step_error import StepError
from anabranch.engine.rules.stimuli import Completed
from anabranch.engine.rules.values import Payload
from anabranch.errors import NonRetryable, RunError
from tests.durable.conftest import MakeProcess

ONCE = {"attempts": 1}


class OwnStop(StopIteration):
    pass


def first_of_none() -> Any:
    return next(iter([]))


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
    make_process: MakeProcess, where: str
) -> None:
    process = await make_process(stops)
    error = (await process.ended(await process.start("stops", where)))["error"]

    assert (error["type"], error["message"]) == ("RuntimeError", "coroutine raised StopIteration")
    assert error["nodeID"] == "first"
    assert f"in {STOPS[where].__name__}" in error["traceback"]


class OwnEnd(BaseException):
    pass


ENDS: dict[str, BaseException] = {
    "GeneratorExit": GeneratorExit("over"),
    f"{__name__}.OwnEnd": OwnEnd("over"),
    "asyncio.exceptions.CancelledError": asyncio.CancelledError("over"),
}


def ends_here(kind: str) -> None:
    raise ENDS[kind]


async def ends_in_a_coroutine(kind: str) -> None:
    raise ENDS[kind]


ENDING: dict[str, Callable[[str], Any]] = {"thread": ends_here, "coroutine": ends_in_a_coroutine}


@workflow(name="step-ends")
async def step_ends(ctx: Any, input: Any) -> Any:
    await ctx.step.run("end", ENDING[input["where"]], input["kind"], retry=ONCE)


@workflow(name="function-ends")
async def function_ends(ctx: Any, input: Any) -> Any:
    raise ENDS[input["kind"]]


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("where", ENDING)
async def test_a_step_that_raises_what_usually_ends_a_task_fails(
    make_process: MakeProcess, where: str, kind: str
) -> None:
    process = await make_process(step_ends)
    error = (await process.ended(await process.start("step-ends", {"where": where, "kind": kind})))["error"]

    assert (error["nodeID"], error["type"], error["message"]) == ("end", kind, "over")


@pytest.mark.parametrize("kind", ENDS)
async def test_a_function_that_raises_what_usually_ends_a_task_fails(make_process: MakeProcess, kind: str) -> None:
    process = await make_process(function_ends)
    error = (await process.ended(await process.start("function-ends", {"kind": kind})))["error"]

    assert (error["nodeID"], error["type"], error["code"]) == ("", kind, "HANDLER_ERROR")


async def test_a_step_that_is_closed_has_no_outcome() -> None:
    async def work() -> Completed:
        await asyncio.Event().wait()
        return Completed(Payload.of(None))

    async def close(attempt: Coroutine[Any, Any, Any]) -> None:
        with pytest.raises(GeneratorExit):
            attempt.throw(GeneratorExit())

    attempt = run_attempt(cast(StepOrigin, None), work())
    attempt.send(None)
    await asyncio.create_task(close(attempt))


ODD: dict[str, Callable[[], StepError]] = {
    "exception": lambda: StepError("PaymentFailed", ValueError("no funds")),
    "class": lambda: StepError(ValueError, "no funds"),
    "surrogate": lambda: StepError("\ud800", "\ud800"),
    "nul": lambda: StepError("a\0b", "a\0b"),
    "huge": lambda: StepError("x" * 3_000_000, "x" * 3_000_000),
    "code": lambda: StepError("Declined", "no", code="no code\0"),
    "attempt": lambda: StepError("Declined", "no", attempt=2**80),
    "not a number": lambda: StepError("Declined", "no", attempt="third"),
}
KEPT: dict[str, tuple[str, str]] = {
    "exception": ("PaymentFailed", "no funds"),
    "class": ("ValueError", "no funds"),
    "surrogate": ("?", "?"),
    "nul": ("a\ufffdb", "a\ufffdb"),
    "huge": ("x" * 4096, "x" * 4096),
    "code": ("Declined", "no"),
    "attempt": ("Declined", "no"),
    "not a number": ("Declined", "no"),
}


@workflow(name="declines")
async def declines(ctx: Any, input: Any) -> Any:
    raise ODD[input]()


@pytest.mark.parametrize("odd", ODD)
async def test_a_step_error_of_the_author_fails_the_run_whatever_its_fields_are(
    make_process: MakeProcess, odd: str
) -> None:
    process = await make_process(declines)
    error = (await process.ended(await process.start("declines", odd)))["error"]

    assert (error["type"], error["message"]) == KEPT[odd]
    assert (error["code"], error["attempt"]) == ("HANDLER_ERROR", 1)


@workflow(name="altered")
async def altered(ctx: Any, input: Any) -> Any:
    failure = StepError("Declined", "no")
    failure.message, failure.code = ["no"], None  # type: ignore[assignment]
    raise failure


async def test_a_step_error_that_was_altered_fails_the_run_too(make_process: MakeProcess) -> None:
    process = await make_process(altered)
    error = (await process.ended(await process.start("altered")))["error"]

    assert (error["code"], error["message"]) == ("HANDLER_ERROR", "['no']")


# -- groups of exceptions -----------------------------------------------------------------------------
def declined(why: str) -> None:
    raise ValueError(why)


@workflow(name="one-of-a-group")
async def one_of_a_group(ctx: Any, input: Any) -> Any:
    async with asyncio.TaskGroup() as outer:
        outer.create_task(charges(ctx))


async def charges(ctx: Any) -> None:
    async with asyncio.TaskGroup() as inner:
        inner.create_task(ctx.step.run("charge", declined, "card declined", retry=ONCE))


async def test_the_only_failure_in_nested_task_groups_is_the_runs_error(make_process: MakeProcess) -> None:
    process = await make_process(one_of_a_group)
    error = (await process.ended(await process.start("one-of-a-group")))["error"]

    assert (error["type"], error["message"], error["nodeID"]) == ("ValueError", "card declined", "charge")
    assert "in declined" in error["traceback"]


@workflow(name="refused-in-a-group", retry={"attempts": 3})
async def refused_in_a_group(ctx: Any, input: Any) -> Any:
    raise BaseExceptionGroup("both", [NonRetryable("never"), OwnEnd("over")])


async def test_a_group_with_something_final_in_it_is_final(make_process: MakeProcess) -> None:
    process = await make_process(refused_in_a_group)
    error = (await process.ended(await process.start("refused-in-a-group")))["error"]

    assert (error["attempt"], error["type"]) == (1, "BaseExceptionGroup")
    assert error["message"] == (
        f"2 branches of the function failed: anabranch.errors.NonRetryable: never; {__name__}.OwnEnd: over"
    )


@workflow(name="many-in-a-group")
async def many_in_a_group(ctx: Any, input: Any) -> Any:
    raise ExceptionGroup("many", [StepError("Declined", str(n) + "x" * 10_000) for n in range(20)])


async def test_of_many_failures_in_a_group_the_first_ones_are_told(make_process: MakeProcess) -> None:
    process = await make_process(many_in_a_group)
    message = (await process.ended(await process.start("many-in-a-group")))["error"]["message"]

    assert message.startswith("20 branches of the function failed: Declined: 0xx") and "Declined: 7xx" in message
    assert message.endswith("; and 12 more") and "Declined: 8xx" not in message


# -- copies ---------------------------------------------------------------------------------------------
class Refused(StepError):
    """An author's own kind, with fewer arguments."""

    def __init__(self, who: str) -> None:
        super().__init__("Refused", f"{who} refused", "REFUSED", 2)
        self.who = who


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda failure: pickle.loads(pickle.dumps(failure)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
def test_a_step_error_is_copied_with_its_fields(way: str) -> None:
    failure = Refused("ada")
    failure.stored = RunError("REFUSED", "Refused", "ada refused", "ask", "#2", 2)

    again = COPIES[way](failure)

    assert again is not failure and type(again) is Refused
    assert (again, str(again), again.who, again.stored) == (failure, "ada refused", "ada", failure.stored)
