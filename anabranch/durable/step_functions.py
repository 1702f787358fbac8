"""Functions of steps that executors call: named by their module in the worker, found by that name in the executor.

A worker hands the name and the arguments on, never code. An executor calls only functions that the modules define which
it was started with, never what these import.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.durable.step_error import qualified_name
from anabranch.engine.handler_contract import HandlerResult, HandlerReturn, Helpers
from anabranch.engine.rules.coded.coded_plan import STEP_TYPE
from anabranch.engine.rules.graph.plan import Body, PlanNode
from anabranch.engine.rules.graph.pools import EVERY_POOL, POOL_NAME_PATTERN, is_pool_name
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.shared.run_state import Redone
from anabranch.engine.rules.stimuli import HandlerOutcome
from anabranch.engine.rules.values import Payload
from anabranch.engine.tracebacks import lines_of_the_author
from anabranch.errors import (
    AnabranchError,
    InvalidDefinition,
    NodeFailure,
    NonRetryable,
    ValueNotStorable,
    ValueTooLarge,
)

_HINT = "Write it with `def` at the top of a module that the executor imports, and give it what it needs as arguments."


StepAttempt: TypeAlias = tuple[str, int]
"""Scope and attempt of a step."""


class StepExecutors(Protocol):
    """Has steps executed by other processes."""

    async def run_step(
        self, run: Helpers, node: PlanNode, step_attempt: StepAttempt, *, redone: Redone | None, may_run: bool
    ) -> HandlerOutcome:
        """Have one attempt of a step executed. One that `may_run` already is looked for at executors first."""


@dataclass(frozen=True, slots=True)
class StepPools:
    """The pools that this process serves, and what has steps of others executed."""

    served: Collection[str] = (EVERY_POOL,)
    executors: StepExecutors | None = None

    def executors_of(self, name: str, pool: object) -> StepExecutors | None:
        """Who executes a step of this pool; None: it is called here. Raises InvalidDefinition if nobody does."""
        if not isinstance(pool, str) or not is_pool_name(pool):
            raise InvalidDefinition(
                f"step {name!r}: the pool {pool!r:.80} must match {POOL_NAME_PATTERN}",
                hint="A function that takes `pool` itself gets it by functools.partial.",
            )
        if pool in self.served or EVERY_POOL in self.served:
            return None
        if self.executors is None:
            raise InvalidDefinition(
                f"step {name!r}: this worker does not serve the pool {pool!r}, and there is no broker to executors",
                hint=f'Set ANABRANCH_BROKER_URL, or declare @workflow(pool="{pool}"), for a worker of the pool.',
            )
        return self.executors


EVERY_POOL_HERE = StepPools()
"""Of a process that calls every step itself."""


def step_node(name: str, pool: str, called: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]) -> PlanNode:
    """The node of a job that calls the function of a step. Raises InvalidDefinition, ValueNotStorable, ValueTooLarge
    for what cannot be handed on."""
    function, args, kwargs = called
    config = {"function": _name_of(name, function), "args": list(args), "kwargs": kwargs}
    try:
        config = Payload.of(config).value
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise InvalidDefinition(
            f"step {name!r}: its arguments travel to the pool {pool!r} as JSON: {refusal.message}"
        ) from None
    return PlanNode(
        id=name,
        type=STEP_TYPE,
        config=config,
        output_variable=None,
        join_any=False,
        error_handling="fail_workflow",
        retry=RetryPolicy(max_attempts=1),
        timeout_ms=None,
        handles=frozenset(),
        exits=frozenset(),
        home=Body(loop=None),
        pool=pool,
    )


class StepFunctionHandler:
    """Calls functions of steps in an executor."""

    def __init__(self, modules: Collection[str]) -> None:
        """`modules` are those that the executor was started with; what is in a package of them counts, too."""
        self._modules = modules

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        """Call the function once. Raises NonRetryable for one that is not here, and NodeFailure for its exception."""
        function = self._found(config["function"])
        args, kwargs = config["args"], config["kwargs"]
        try:
            if inspect.iscoroutinefunction(function):
                return HandlerResult(await function(*args, **kwargs))
            returned = await helpers.in_thread(lambda: function(*args, **kwargs))
            return HandlerResult(await returned if inspect.isawaitable(returned) else returned)
        except (AnabranchError, NodeFailure, NonRetryable):
            raise
        except Exception as failure:
            name = qualified_name(type(failure))
            where = lines_of_the_author(failure, mask=helpers.mask)
            raise NodeFailure("HANDLER_ERROR", str(failure), type_name=name, traceback=where) from failure

    def _found(self, name: str) -> Callable[..., Any]:
        module, _, path = name.partition(":")
        if not any(module == each or module.startswith(f"{each}.") for each in self._modules):
            raise NonRetryable(
                f"this executor was not started with `--import {module}`, where {path!r} is", code="STEP_NOT_IMPORTED"
            )
        function = _function_at(module, path)
        if function is None:
            raise NonRetryable(f"module {module!r} of this executor has no function {path!r}", code="STEP_NOT_IMPORTED")
        return function


def _name_of(name: str, function: Any) -> str:
    """The name by which an executor finds a function. Raises InvalidDefinition."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(path, str):
        reason = f"a {type(function).__name__} has no name"
    elif module == "__main__":
        reason = f"{path!r} is in the program itself, which no executor imports"
    elif "<" in path:
        reason = f"{path!r} is made where it is called"
    elif isinstance(function, type):
        reason = f"{path!r} is a class"
    elif _function_at(module, path) is not function:
        reason = f"{module}.{path} is something else, as of a function that is decorated or bound"
    else:
        return f"{module}:{path}"
    raise InvalidDefinition(f"step {name!r}: its function cannot be imported by an executor: {reason}", hint=_HINT)


def _function_at(module: str, path: str) -> Callable[..., Any] | None:
    """The function that the module itself defines at this path, at its top or in a class; None for all else that can be
    reached from there, such as what the module imports."""
    holder: Any = sys.modules.get(module)
    *classes, name = path.split(".")
    for each in classes:
        holder = getattr(holder, each, None)
        if not isinstance(holder, type):
            return None
    found = getattr(holder, name, None)
    if not callable(found) or isinstance(found, type) or "<" in path:
        return None
    is_own = (getattr(found, "__module__", None), getattr(found, "__qualname__", None)) == (module, path)
    function: Callable[..., Any] = found
    return function if is_own else None
