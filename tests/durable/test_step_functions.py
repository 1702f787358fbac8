"""Steps in pools: what an executor can call, what is refused before anything is recorded, and what it says then."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from anabranch.durable.step_functions import StepFunctionHandler, StepPools, step_node
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.errors import InvalidDefinition, NodeFailure, NonRetryable


def plain(text: str, *, times: int = 1) -> str:
    if times < 0:
        raise LookupError("times is negative")
    return text * times


async def asynchronous(text: str) -> str:
    return text


@functools.lru_cache
def decorated(text: str) -> str:
    return text


class Holder:
    @staticmethod
    def fixed(text: str) -> str:
        return text

    def bound(self, text: str) -> str:
        return text


class Threads:
    """The part of `Helpers` that a plain function needs."""

    mask = staticmethod(str)

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        return function()


async def called(config: Mapping[str, Any], *modules: str) -> Any:
    returned = await StepFunctionHandler(modules).execute(config, {}, cast("Helpers", Threads()))
    assert isinstance(returned, HandlerResult)
    return returned.output


@pytest.mark.parametrize("function", [plain, asynchronous, Holder.fixed, decorated])
async def test_a_function_of_a_module_is_called_by_its_name(function: Callable[..., Any]) -> None:
    node = step_node("s", "gpu", (function, ("ab",), {}))
    assert (node.pool, await called(node.config, __name__)) == ("gpu", "ab")


async def test_arguments_travel_as_json() -> None:
    node = step_node("s", "gpu", (plain, ("ab",), {"times": 2}))
    assert node.config == {"function": f"{__name__}:plain", "args": ["ab"], "kwargs": {"times": 2}}
    assert await called(node.config, __package__ or "") == "abab", "a package stands for its modules"
    for arguments in ((object(),), (float("nan"),), ("x" * 1_100_000,)):
        with pytest.raises(InvalidDefinition, match="travel to the pool 'gpu' as JSON"):
            step_node("s", "gpu", (plain, arguments, {}))


def test_a_function_that_no_executor_can_import_is_refused() -> None:
    def inner() -> None: ...

    alias = functools.wraps(plain)(lambda text: text)
    for function in (lambda: None, inner, functools.partial(plain, "a"), Holder().bound, alias, Holder):
        with pytest.raises(InvalidDefinition, match="cannot be imported by an executor"):
            step_node("s", "gpu", (cast("Callable[..., Any]", function), (), {}))


async def test_an_executor_calls_only_functions_of_its_modules() -> None:
    with pytest.raises(NonRetryable, match="not started with `--import os`") as refused:
        await called({"function": "os:system", "args": ["true"], "kwargs": {}}, __name__)
    assert refused.value.code == "STEP_NOT_IMPORTED"
    with pytest.raises(NonRetryable, match="has no function 'absent'"):
        await called({"function": f"{__name__}:absent", "args": [], "kwargs": {}}, __name__)


class Escape:
    modules = os
    borrowed = staticmethod(os.getpid)


escape = Escape()
borrowed = os.getpid
nameless = lambda: None  # noqa: E731 -- it is tried whether it can be called


@pytest.mark.parametrize(
    "path",
    [
        "os.getpid",
        "borrowed",
        "Escape.modules.getpid",
        "Escape.borrowed",
        "escape.modules.getpid",
        "functools.partial",
        "Escape",
        "escape.__init__",
        "plain.__call__",
        "plain.__globals__",
        "nameless",
        "<lambda>",
        "",
    ],
)
async def test_an_executor_calls_nothing_that_its_modules_only_reach(path: str) -> None:
    with pytest.raises(NonRetryable, match="has no function") as refused:
        await called({"function": f"{__name__}:{path}", "args": [], "kwargs": {}}, __name__)
    assert refused.value.code == "STEP_NOT_IMPORTED"


async def test_an_exception_keeps_its_type_and_its_place() -> None:
    with pytest.raises(NodeFailure) as failure:
        await called(step_node("s", "gpu", (plain, ("a",), {"times": -1})).config, __name__)
    assert (failure.value.type_name, str(failure.value)) == ("LookupError", "times is negative")
    assert "times is negative" in failure.value.traceback or "plain" in failure.value.traceback


def test_a_pool_that_nobody_serves_is_refused_with_what_to_do() -> None:
    served = StepPools(("default", "fast"))
    assert served.executors_of("s", "fast") is None
    with pytest.raises(InvalidDefinition, match="does not serve the pool 'gpu'") as refusal:
        served.executors_of("s", "gpu")
    assert '@workflow(pool="gpu")' in refusal.value.advice
    with pytest.raises(InvalidDefinition, match="must match"):
        served.executors_of("s", "GPU")
