"""`ctx.step`: the durable operations of coded workflows.

Each is one call of a step: `function_run` numbers it, and answers it from the journal or executes it. On replay, ended
steps are not executed again.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any, Protocol

from anabranch.durable.calls import AttemptEnd, StepCall
from anabranch.durable.definition import Duration, without_timedelta
from anabranch.durable.execution import CalledWith, Heartbeat, StepOrigin, StepThreads, called, run_attempt
from anabranch.durable.function_run import FunctionRun
from anabranch.durable.step_functions import EVERY_POOL_HERE, StepPools, step_node
from anabranch.engine.console.lines import present, report_progress
from anabranch.engine.handler_contract import Helpers
from anabranch.engine.rules.coded.arguments import note_of, note_of_call
from anabranch.engine.rules.coded.names import StepKind
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.shared.retry import DEFAULT_STEP_RETRY, RetryPolicy
from anabranch.engine.rules.stimuli import (
    AwaitsAnySignal,
    AwaitsChild,
    AwaitsSignal,
    AwaitsTime,
    Begun,
    Completed,
    Failed,
)
from anabranch.engine.rules.values import Payload
from anabranch.engine.telemetry import AroundAttempt
from anabranch.errors import InvalidDefinition, StepNotAwaited, ValueNotStorable, ValueTooLarge

# 255 characters, as for every key that comes from outside: no signal has a longer name.
EVENT_CHARACTERS_MAX = 255

# 100 signals of one wait: each that arrives is compared with all waits for its name.
EVENTS_MAX = 100

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_RUN = StepKind.RUN


class StepChildren(Protocol):
    """Starts runs on behalf of steps."""

    async def start(
        self, helpers: Helpers, *, workflow: str, version: int | None, input_: Any, parent_waits: bool
    ) -> str:
        """The id of the one run that this step starts, however often it is asked."""


class Signals(Protocol):
    """Sends signals on behalf of steps."""

    async def send(self, *, tenant_id: str, run_id: str, event: str, payload: Any, key: str) -> bool:
        """Deliver it once per key; was a fitting wait open?"""


class _Asked:
    """A call that a line of the author's code has made."""

    __slots__ = ("code", "coroutine", "instruction", "name")

    name: str
    code: CodeType
    """The author's."""
    instruction: int
    coroutine: Coroutine[Any, Any, Any]

    @property
    def location(self) -> str:
        """File and line, worked out when somebody asks: it takes as long as a good part of a step."""
        lines = (line for start, end, line in self.code.co_lines() if start <= self.instruction < end)
        return f"{self.code.co_filename}, line {next(lines, None)}"


class Steps:
    """What a workflow function asks for. Names have 1 to 128 letters, digits, `.`, `_`, `-`; repeats are numbered."""

    def __init__(
        self,
        function_run: FunctionRun,
        *,
        helpers: Helpers,
        children: StepChildren,
        signals: Signals,
        threads: StepThreads,
        around: AroundAttempt | None = None,
        pools: StepPools = EVERY_POOL_HERE,
    ) -> None:
        self._function_run = function_run
        self._helpers = helpers
        self._children = children
        self._signals = signals
        self._threads = threads
        self._around = around
        self._pools = pools
        self._unawaited: dict[_Asked, None] = {}
        """What was asked for and has not begun."""

    def run(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        retry: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
        pool: str | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Call `fn(*args, **kwargs)` as a step, or return its result from the log. `fn` may be async; a plain function
        runs in a thread.

        It is called at least once; its result must be JSON of at most 1 MB. `retry` is `{"maxAttempts": 3, "backoff":
        {"kind": "exp", "base": "1s", "max": "60s", "jitter": 0.2}}`, `timeout` bounds each attempt, `heartbeat_timeout`
        its time without a `ctx.step.progress`. With `pool` an executor of that pool calls it: a function of a module,
        whose arguments are JSON. Raises StepError once no other attempt is made.
        """
        asked = self._asked(name)
        bounds = None
        if timeout is not None or heartbeat_timeout is not None:
            bounds = {"timeout": timeout, "heartbeat_timeout": heartbeat_timeout}
        if pool is None:
            asked.coroutine = self._run(asked, (fn, args, kwargs), retry, bounds)
        else:
            asked.coroutine = self._run_in_pool(asked, (fn, args, kwargs), retry, bounds, pool)
        return asked.coroutine

    async def _run(
        self,
        asked: _Asked,
        called_with: CalledWith,
        retry: Mapping[str, Any] | None,
        bounds: Mapping[str, Duration | None] | None,
    ) -> Any:
        name = self._begun(asked)
        policy = DEFAULT_STEP_RETRY if retry is None else _policy(name, retry)
        limits = None if bounds is None else [_milliseconds(name, *bound) for bound in bounds.items()]
        call = self._call(name, _RUN, note_of_call, called_with, policy)
        if not callable(called_with[0]):
            raise TypeError("the first argument must be callable")
        return await self._function_run.answer(call, None, partial(self._attempt, call, called_with, limits))

    def _attempt(
        self, call: StepCall, called_with: CalledWith, limits: Sequence[int | None] | None, attempt: int
    ) -> Awaitable[AttemptEnd]:
        """Call the function of a step once, within its timeout and heartbeat timeout (ms)."""
        origin = StepOrigin(self._helpers, call.name, call.scope, attempt)
        if origin.console is not None:
            origin.console.take_beginning(origin)
        if limits is None and self._around is None and not self._threads.left_behind:
            return run_attempt(origin, called(origin, called_with, self._threads))  # as for most steps
        return self._attempt_within(origin, called_with, *(limits or (None, None)))

    async def _attempt_within(
        self, origin: StepOrigin, called_with: CalledWith, timeout_ms: int | None, silence_ms: int | None
    ) -> AttemptEnd:
        """The same after an earlier attempt of the step whose thread still runs, and within limits and telemetry."""
        await self._threads.earlier_attempt_ended(origin.key)
        heartbeat = None if silence_ms is None else Heartbeat(origin, silence_ms)
        within = None if self._around is None else self._around(origin.instance_id, *origin.dispatch)
        with within or nullcontext():
            return await run_attempt(origin, called(origin, called_with, self._threads), timeout_ms, heartbeat)

    async def _run_in_pool(
        self,
        asked: _Asked,
        called_with: CalledWith,
        retry: Mapping[str, Any] | None,
        bounds: Mapping[str, Duration | None] | None,
        pool: str,
    ) -> Any:
        executors = self._pools.executors_of(asked.name, pool)
        node = step_node(asked.name, pool, called_with)
        if executors is None:
            return await self._run(asked, called_with, retry, bounds)
        name = self._begun(asked)
        policy = DEFAULT_STEP_RETRY if retry is None else _policy(name, retry)
        if bounds is not None:
            timeout_ms, silence_ms = (_milliseconds(name, *bound) for bound in bounds.items())
            node = replace(node, timeout_ms=timeout_ms, heartbeat_ms=silence_ms)
        call = self._call(name, _RUN, note_of_call, called_with, policy)
        call.is_elsewhere = True

        async def attempt_once(attempt: int) -> AttemptEnd:
            """One attempt by an executor, and its outcome."""
            outcome = await executors.run_step(
                self._helpers,
                node,
                (call.scope, attempt),
                redone=self._function_run.redone(call),
                may_run=self._function_run.has_begun(call),
            )
            assert isinstance(outcome, Completed | Failed), "executors do not wait for the engine"
            return outcome, None

        return await self._function_run.answer(call, attempt_once=attempt_once)

    def sleep(self, name: str, duration: Duration) -> Coroutine[Any, Any, None]:
        """Sleep for a duration, counted from the first call, across restarts. Frees the worker meanwhile."""
        asked = self._asked(name)
        asked.coroutine = self._sleep(asked, duration)
        return asked.coroutine

    async def _sleep(self, asked: _Asked, duration: Duration) -> None:
        name = self._begun(asked)
        duration_ms = _milliseconds(name, "duration", duration)
        if duration_ms is None:
            raise InvalidDefinition(f"step {name!r}: a duration is needed, such as '5m'")
        await self._function_run.answer(self._call(name, StepKind.SLEEP), wait=AwaitsTime(duration_ms))

    def wait_for_event(
        self, name: str, *, event: str | None = None, match: Any = None, timeout: Duration | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal and return its payload, or None after `timeout`.

        Takes the oldest matching signal that no other wait has taken. `event` is the signal's name, 1 to 255 characters
        (default: the step's name). A signal matches if its payload is a superset of `match` (objects recursively,
        everything else equal). With `timeout=0`, only a signal that has already arrived.
        """
        asked = self._asked(name)
        asked.coroutine = self._wait_for_event(asked, event, match, timeout)
        return asked.coroutine

    async def _wait_for_event(
        self,
        asked: _Asked,
        event: str | None,
        match: Any,
        timeout: Duration | None,  # noqa: ASYNC109 -- durable: it goes on while the function is unwound
    ) -> Any:
        name = self._begun(asked)
        if event is not None:
            _check_event(name, event)
        wait = AwaitsSignal(
            name if event is None else event, _match(name, match), _milliseconds(name, "timeout", timeout)
        )
        call = self._call(name, StepKind.EVENT, note_of, ({"event": wait.event, "match": match},))
        return await self._function_run.answer(call, wait=wait)

    def wait_for_any(
        self, name: str, events: Mapping[str, Any], *, timeout: Duration | None = None
    ) -> Coroutine[Any, Any, tuple[str, Any] | None]:
        """Wait for the first of several signals and return (event, payload), or None after `timeout`.

        `events` maps each signal's name to its `match`, None for any payload: `{"approve": {"by": "ada"}, "reject":
        None}`. The first is the one that arrived first, whatever its name. It is one wait, like `wait_for_event`: a
        signal goes to the oldest open wait that it matches. With `timeout=0`, one that has come already.
        """
        asked = self._asked(name)
        asked.coroutine = self._wait_for_any(asked, events, timeout)
        return asked.coroutine

    async def _wait_for_any(
        self,
        asked: _Asked,
        events: Mapping[str, Any],
        timeout: Duration | None,  # noqa: ASYNC109 -- durable: it goes on while the function is unwound
    ) -> tuple[str, Any] | None:
        name = self._begun(asked)
        _check_events(name, events)
        matches = {event: _match(name, match) for event, match in events.items()}
        wait = AwaitsAnySignal(matches, _milliseconds(name, "timeout", timeout))
        call = self._call(name, StepKind.EVENT, note_of, ({"events": dict(events)},))
        came = await self._function_run.answer(call, wait=wait)
        return None if came is None else (came["event"], came["payload"])

    def invoke(
        self, name: str, workflow: str, input: Any = None, *, version: int | None = None
    ) -> Coroutine[Any, Any, Any]:
        """The output of a run of another workflow, drawn or coded, that this step starts once.

        `workflow` is its name or id, in the tenant of this run. Raises StepError: CHILD_FAILED, CHILD_CANCELLED.
        """
        asked = self._asked(name)
        asked.coroutine = self._invoke(asked, workflow, input, version)
        return asked.coroutine

    async def _invoke(self, asked: _Asked, workflow: str, input: Any, version: int | None) -> Any:
        name = self._begun(asked)
        _check_text(name, "workflow, by its name or id,", workflow)
        input_ = {} if input is None else input
        arguments = {"workflow": workflow, "version": version, "input": input_}
        call = self._call(name, StepKind.CHILD, note_of, (arguments,))
        helpers = self._helpers.about(call.name, call.scope, self._function_run.redone(call))

        async def start() -> AwaitsChild:
            child_id = await self._children.start(
                helpers, workflow=workflow, version=version, input_=input_, parent_waits=True
            )
            return AwaitsChild(child_id)

        async def attempt_once(attempt: int) -> AttemptEnd:
            # The log must know of the step before its child is created: else a cancel in between would miss the child.
            if not self._function_run.has_begun(call):
                return Begun(), None
            return await run_attempt(StepOrigin(self._helpers, call.name, call.scope, attempt), start())

        return await self._function_run.answer(call, attempt_once=attempt_once)

    def signal(
        self, run_id: str, event: str, payload: Any = None, *, name: str = "signal"
    ) -> Coroutine[Any, Any, bool]:
        """Send a signal to another run of the tenant, once. True if a fitting wait was open when it arrived."""
        asked = self._asked(name)
        asked.coroutine = self._signal(asked, run_id, event, payload)
        return asked.coroutine

    async def _signal(self, asked: _Asked, run_id: str, event: str, payload: Any) -> bool:
        name = self._begun(asked)
        _check_text(name, "run_id", run_id)
        _check_text(name, "event", event)
        call = self._call(name, StepKind.SIGNAL, note_of, ([run_id, event, payload],))
        helpers = self._helpers.about(call.name, call.scope, self._function_run.redone(call))

        async def send() -> Completed:
            delivered = await self._signals.send(
                tenant_id=helpers.tenant_id,
                run_id=run_id,
                event=event,
                payload=payload,
                key=helpers.idempotency_key,
            )
            return Completed(Payload.of(delivered))

        async def attempt_once(attempt: int) -> AttemptEnd:
            return await run_attempt(StepOrigin(self._helpers, call.name, call.scope, attempt), send())

        return bool(await self._function_run.answer(call, attempt_once=attempt_once))

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report the progress of the current step, and restart its heartbeat timeout. Thread-safe.

        Raises InvalidDefinition outside of steps, ValueError unless the numbers are 0 or more.
        """
        origin = present.get()
        if origin is None or not origin.is_step:
            raise InvalidDefinition(
                "ctx.step.progress was called outside of a step",
                hint="Call it in the function of a step; its threads get the context by `asyncio.to_thread`.",
            )
        report_progress(origin, done, total, text)

    # -- the runner's side ----------------------------------------------------------------
    def check_awaited(self) -> None:
        """Raise StepNotAwaited if the function has created a step that was never awaited."""
        for asked in self._unawaited:
            if inspect.getcoroutinestate(asked.coroutine) == inspect.CORO_CREATED:
                raise StepNotAwaited(
                    f"step {asked.name!r} was asked for in {asked.location}, but never awaited: nothing was executed"
                )

    def close(self) -> None:
        """Close the coroutines that were never awaited."""
        for asked in self._unawaited:
            if inspect.getcoroutinestate(asked.coroutine) == inspect.CORO_CREATED:
                asked.coroutine.close()

    # -- within ---------------------------------------------------------------------------
    def _asked(self, name: str) -> _Asked:
        """What the line that called our caller asks for, until it begins."""
        author = sys._getframe(2)
        asked = _Asked()
        asked.name, asked.code, asked.instruction = name, author.f_code, author.f_lasti
        self._unawaited[asked] = None
        return asked

    def _begun(self, asked: _Asked) -> str:
        del self._unawaited[asked]
        return asked.name

    def _call(
        self,
        name: str,
        kind: StepKind,
        note: Callable[..., str] | None = None,
        arguments: tuple[Any, ...] = (),
        policy: RetryPolicy = DEFAULT_STEP_RETRY,
    ) -> StepCall:
        """Number a call, with the note of its arguments: `note(*arguments)`."""
        outer = present.get()
        if outer is not None and outer.is_step:
            raise InvalidDefinition(f"step {outer.node_id!r} calls step {name!r}: a step cannot contain others")
        call = self._function_run.ask(name, kind, None if note is None else note(*arguments), policy)
        if note is not None and self._function_run.origins:
            own = self._helpers.instance_id
            call.as_copied = [note(*arguments, renamed=(own, origin)) for origin in self._function_run.origins]
        return call


def _match(name: str, match: Any) -> Payload | None:
    if match is None:
        return None
    try:
        return Payload.of(match)
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise type(refusal)(f"step {name}: its match: {refusal.message}") from None


def _check_events(name: str, events: object) -> None:
    if not isinstance(events, Mapping) or not 1 <= len(events) <= EVENTS_MAX:
        raise InvalidDefinition(
            f"step {name!r}: events names 1 to {EVENTS_MAX} signals, each with its match or None:"
            ' {"approve": {"by": "ada"}, "reject": None}'
        )
    for event in events:
        _check_event(name, event)


def _check_text(name: str, what: str, given: object) -> None:
    if not isinstance(given, str):
        raise InvalidDefinition(f"step {name!r}: {what} is text, not a value of type {type(given).__name__}")


def _check_event(name: str, event: str) -> None:
    _check_text(name, "event", event)
    if not 1 <= len(event) <= EVENT_CHARACTERS_MAX:
        raise InvalidDefinition(
            f"step {name!r}: no signal has such a name: event has 1 to {EVENT_CHARACTERS_MAX} characters,"
            f" not {len(event)}"
        )
    try:
        Payload.of(event)
    except ValueNotStorable as refusal:
        raise InvalidDefinition(f"step {name!r}: no signal has such a name: event is {refusal.message}") from None


def _policy(name: str, retry: Mapping[str, Any]) -> RetryPolicy:
    try:
        return RetryPolicy.parse(retry, default=DEFAULT_STEP_RETRY)
    except ValueError as refusal:
        raise InvalidDefinition(f"step {name!r}: {refusal}") from None


def _milliseconds(name: str, what: str, duration: Duration | None) -> int | None:
    if duration is None:
        return None
    try:
        return parse_duration(without_timedelta(duration))
    except ValueError as refusal:
        raise InvalidDefinition(f"step {name!r}: {what}: {refusal}") from None
