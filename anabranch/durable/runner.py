"""The runner: calls workflow functions, as the task worker calls handlers.

The composition root creates it, passes it to the engine as the handler of workflow functions, and connects it with the
engine. It reports the outcome of a function to the rules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from anabranch.durable.context import Context
from anabranch.durable.definition import OnError, Workflow, WorkflowRegistry
from anabranch.durable.execution import StepThreads
from anabranch.durable.function_run import FunctionRun
from anabranch.durable.step_error import StepError, qualified_name
from anabranch.durable.step_functions import EVERY_POOL_HERE, StepPools
from anabranch.durable.steps import Signals, StepChildren, Steps
from anabranch.engine.handler_contract import HandlerResult, HandlerReturn, Helpers, ends_us
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ownership.run_access import RunAccess
from anabranch.engine.queues import present_slot
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.events import ActivationKey, SuspendReason
from anabranch.engine.rules.shared.failures import failed_by, kept_error, who_is
from anabranch.engine.rules.stimuli import Failed, FunctionBlocked, FunctionSuspended
from anabranch.engine.telemetry import AroundAttempt
from anabranch.engine.tracebacks import lines_of_the_author
from anabranch.errors import AnabranchError, InvalidDefinition, NonRetryable, RunError

logger = logging.getLogger("anabranch.durable")

# 1,000 failed steps among the causes of an error: more is not one error any more.
CAUSES_MAX = 1_000

# At most 8 members of an exception group, 400 characters each: less than the limit of an error's message.
MEMBERS_SHOWN_MAX = 8
MEMBER_CHARACTERS_MAX = 400

# Read past the class of the exception: what it defines under these names is the author's code, and may raise.
_CAUSES_OF = [vars(BaseException)[name] for name in ("__cause__", "__context__")]


class Runner:
    """Runs the workflow functions that this process knows."""

    def __init__(
        self,
        registry: WorkflowRegistry,
        *,
        children: StepChildren,
        signals: Signals,
        around: AroundAttempt | None = None,
        system: WorkflowRegistry | None = None,
        on_error: OnError = "fail",
        pools: StepPools = EVERY_POOL_HERE,
    ) -> None:
        """`on_error` applies to workflows that do not set it."""
        self._pools = pools
        self.registry = registry
        self._on_error = on_error
        self._system = system or WorkflowRegistry()
        """Workflows of the system's own: known here, and not registered before they are used."""
        self.registries = (self.registry, self._system)
        """All workflows that can be called here."""
        self._children = children
        self._signals = signals
        self._around = around
        self._engine: Engine | None = None
        self._threads = StepThreads()
        self._warned: set[tuple[str, int]] = set()
        """Workflows whose functions were warned of."""

    def connect(self, engine: Engine) -> None:
        """Run the workflow functions of this engine's runs from now on."""
        self._engine = engine

    def digests(self) -> Mapping[tuple[str, int], str]:
        """Digests of the workflows here, by name and version; without those of the system's own."""
        return self.registry.digests()

    def stop(self) -> None:
        """Start no more threads; running ones are abandoned."""
        self._threads.stop()

    async def execute(self, config: Mapping[str, Any], context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        """Call the workflow function in the config once."""
        name, version = config["workflow"], config["version"]
        found = self.registry.find(name, version) or self._system.find(name, version)
        if found is None:
            message = f"no worker that has looked at this run has version {version} of the workflow {name!r}"
            return FunctionBlocked(SuspendReason.UNKNOWN_WORKFLOW, message)
        assert self._engine is not None, "connect comes before any run"
        run_access = RunAccess.of(self._engine.orchestrator.owned, helpers.instance_id)
        journal = None if run_access is None else run_access.journal
        activation = None if journal is None else journal.function
        # An attempt that was answered while its job was still queued is not called any more: the next one may be.
        if run_access is None or journal is None or activation is None or activation.attempt != helpers.attempt:
            raise NonRetryable(f"attempt {helpers.attempt} of this function is no longer awaited")  # nobody reads this
        return await self._call(found, run_access, journal, helpers)

    async def _call(
        self, found: Workflow, run_access: RunAccess, journal: CodedState, helpers: Helpers
    ) -> HandlerReturn:
        assert self._engine is not None, "connect comes before any run"
        run = FunctionRun(run_access, journal, self._engine.clock, present_slot.get())
        steps = Steps(
            run,
            helpers=helpers,
            children=self._children,
            signals=self._signals,
            threads=self._threads,
            around=self._around,
            pools=self._pools,
        )
        context = Context(
            run_id=helpers.instance_id,
            version=found.version,
            function_run=run,
            steps=steps,
            cancelled=helpers.cancelled,
            log=helpers.log,
        )
        called_by = None if journal.function is None else journal.function.called_by
        helpers.is_first_call = not journal.steps and helpers.attempt == 1
        input_ = orjson.loads(journal.input.raw)["input"]
        task = asyncio.current_task()
        run_access.listen(run.advance, run.steps_under_way)
        try:
            returned = await run.run(partial(found.function, context, input_))
            if not isinstance(returned, FunctionSuspended | FunctionBlocked):
                steps.check_awaited()
        except BaseException as failure:  # any exception of the function is its outcome
            if ends_us(failure, task):
                raise
            if isinstance(failure, InvalidDefinition):
                return FunctionBlocked(SuspendReason.DEFINITION_ERROR, failure.message, called_by, found.digest)
            failed = function_failure(failure, helpers)
            return replace(failed, suspends=(found.on_error or self._on_error) == "suspend")
        finally:
            if run.has_swallowed:
                self._warn_of_swallowing(found)
            run_access.stop_listening(run.advance)
            steps.close()
        if isinstance(returned, FunctionBlocked):
            return replace(returned, refused_by=found.digest)
        if isinstance(returned, FunctionSuspended):
            return returned
        return HandlerResult(returned)

    def _warn_of_swallowing(self, found: Workflow) -> None:
        key = (found.name, found.version)
        if key not in self._warned:
            self._warned.add(key)
            logger.warning(
                "workflow %r version %d: its function caught the exception that unwinds it (Suspended) and went on;"
                " nothing of that is recorded. Raise it again.",
                *key,
            )


def function_failure(failure: BaseException, helpers: Helpers) -> Failed:
    """The failure of the function, with the failed steps among its causes, which a retry executes again."""
    failed = _failed(failure, helpers)
    return replace(failed, error=replace(failed.error, steps=_failed_steps(failure)))


def _failed_steps(failure: BaseException) -> tuple[ActivationKey, ...]:
    """The steps whose errors this one is, or comes from: members of groups, causes and contexts included."""
    found: dict[ActivationKey, None] = {}
    seen: set[int] = set()
    left: list[BaseException | None] = [failure]
    while left and len(found) < CAUSES_MAX:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, StepError) and isinstance(each.stored, RunError):
            found[each.stored.node_id, each.stored.scope] = None
        left += [of.__get__(each) for of in _CAUSES_OF]
        if isinstance(each, BaseExceptionGroup):
            left += each.exceptions
    return tuple(found)


def _failed(failure: BaseException, helpers: Helpers) -> Failed:
    """The same without its steps. For an exception group of a task group: the failures of its members."""
    if not isinstance(failure, BaseExceptionGroup):
        return _failed_by_one(failure, helpers)
    members = [_failed_by_one(each, helpers) for each in _members(failure)]
    if len(members) == 1:
        return members[0]
    shown = [f"{each.error.type}: {each.error.message[:MEMBER_CHARACTERS_MAX]}" for each in members[:MEMBERS_SHOWN_MAX]]
    more = [f"and {len(members) - MEMBERS_SHOWN_MAX} more"] if len(members) > MEMBERS_SHOWN_MAX else []
    error = kept_error(
        "HANDLER_ERROR",
        qualified_name(type(failure)),
        f"{len(members)} branches of the function failed: {'; '.join(shown + more)}",
        helpers.node_id,
        helpers.scope,
        helpers.attempt,
        lines_of_the_author(failure),
    )
    return Failed(error, retryable=all(each.retryable for each in members))


def _members(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """What is in the group and the groups in it, in the order in which they were raised."""
    left: list[BaseException] = [group]
    while left:
        failure = left.pop()
        if isinstance(failure, BaseExceptionGroup):
            left.extend(reversed(failure.exceptions))
        else:
            yield failure


def _failed_by_one(failure: BaseException, helpers: Helpers) -> Failed:
    if isinstance(failure, StepError):
        return _uncaught(failure)
    failed = failed_by(
        failure,
        node_id=helpers.node_id,
        scope=helpers.scope,
        attempt=helpers.attempt,
        name_of=qualified_name,
        traceback=lines_of_the_author(failure),
        who=who_is(helpers.instance_id, helpers.node_id, helpers.scope),
    )
    if isinstance(failure, AnabranchError):
        return Failed(failed.error, retryable=False)  # an invalid declaration stays invalid
    return failed


def _uncaught(failure: StepError) -> Failed:
    """A step failed for good and the function did not catch it: the run's error is the step's."""
    stored = failure.stored
    if not isinstance(stored, RunError):
        # The author's own: its fields may be anything.
        stored = kept_error(failure.code, failure.type, failure.message, attempt=failure.attempt)
    return Failed(stored, retryable=True)
