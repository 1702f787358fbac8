"""`ctx.step`: the durable verbs of coded workflows.

Each is one call of a step: `body` numbers it and answers it from the journal, or has it done once
more. Nothing here is called on replay of what has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from anabranch.durable.body import BodyRun
from anabranch.durable.calls import Call, Try
from anabranch.durable.execution import called, inside_step, tried
from anabranch.engine.handling import Helpers
from anabranch.engine.rules.coded.places import StepKind
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.retry import RetryPolicy
from anabranch.engine.rules.stimuli import AwaitsChild, AwaitsSignal, AwaitsTime, Begun, Completed, StepOutcome
from anabranch.engine.rules.values import Payload
from anabranch.engine.telemetry import AroundTry, unsurrounded
from anabranch.errors import InvalidDefinition

Duration = str | int | float | timedelta
"""`"5m"`, `"PT5M"`, a number of milliseconds, or a timedelta; 0 to 5 years."""


class Children(Protocol):
    """Starts runs on behalf of steps."""

    async def start(
        self, helpers: Helpers, *, workflow: str, version: int | None, input_: Any, parent_waits: bool
    ) -> str:
        """The id of the one run that this step starts, however often it is asked."""


class Signals(Protocol):
    """Sends signals on behalf of steps."""

    async def send(self, *, tenant_id: str, run_id: str, event: str, payload: Any, key: str) -> bool:
        """Deliver it once per key; was a fitting wait open?"""


class Steps:
    """What a body asks for. Names have 1 to 128 letters, digits, `.`, `_`, `-`; repeats are numbered in call order."""

    def __init__(
        self,
        body: BodyRun,
        *,
        helpers: Helpers,
        children: Children,
        signals: Signals,
        threads: Executor,
        around: AroundTry = unsurrounded,
    ) -> None:
        self._body = body
        self._helpers = helpers
        self._children = children
        self._signals = signals
        self._threads = threads
        self._around = around

    async def run(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        retry: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 -- of each try, and counted by the engine
        **kwargs: Any,
    ) -> Any:
        """What `fn(*args, **kwargs)` returned: called now, or taken from the log.

        `fn` may be async, or not: then it runs in a thread. It is called at least once; what it
        returns is JSON of at most 1 MB. `retry` is `{"attempts": 3, "backoff": {"kind": "exp", "base":
        "1s", "max": "60s", "jitter": 0.2}}`, `timeout` bounds each try. Raises StepError once no other
        try is made.
        """
        policy, timeout_ms = _policy(name, retry), _milliseconds(name, "timeout", timeout)
        call = self._call(name, StepKind.RUN)
        function = partial(fn, *args, **kwargs)

        async def try_once(attempt: int) -> tuple[StepOutcome, BaseException | None]:
            work = partial(called, name, function, self._threads)
            with self._around(self._helpers.instance_id, call.name, call.scope, attempt):
                return await tried(call.name, call.scope, attempt, work, timeout_ms)

        return await self._body.answer(call, try_once, policy)

    async def sleep(self, name: str, duration: Duration) -> None:
        """Return after so long, counted from the first time it was asked for, restarts or not. Frees the worker."""
        duration_ms = _milliseconds(name, "duration", duration)
        if duration_ms is None:
            raise InvalidDefinition(f"step {name!r}: a duration is needed, such as '5m'")
        asked = AwaitsTime(duration_ms)
        await self._body.answer(self._call(name, StepKind.SLEEP), _asks_for(asked))

    async def wait_for_event(
        self,
        name: str,
        *,
        event: str | None = None,
        match: Any = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 -- durable: it goes on while the body is unwound
    ) -> Any:
        """The payload of the oldest fitting signal that no other wait has taken; None once `timeout` is over.

        `event` is the signal's name, that of the step unless given. It fits if its payload is a
        superset of `match` (objects recursively, everything else equal).
        """
        timeout_ms = _milliseconds(name, "timeout", timeout)
        asked = AwaitsSignal(name if event is None else event, None if match is None else Payload.of(match), timeout_ms)
        return await self._body.answer(self._call(name, StepKind.EVENT), _asks_for(asked))

    async def invoke(self, name: str, workflow: str, input: Any = None, *, version: int | None = None) -> Any:
        """The output of a run of another workflow, drawn or coded, that this step starts once.

        `workflow` is its name or id, in the tenant of this run. Raises StepError: CHILD_FAILED, CHILD_CANCELLED.
        """
        call = self._call(name, StepKind.CHILD)
        helpers = replace(self._helpers, node_id=call.name, scope=call.scope)

        async def start() -> AwaitsChild:
            input_ = {} if input is None else input
            child_id = await self._children.start(
                helpers, workflow=workflow, version=version, input_=input_, parent_waits=True
            )
            return AwaitsChild(child_id)

        async def try_once(attempt: int) -> tuple[StepOutcome, BaseException | None]:
            # The log must know of the step before its child is born: else a cancel in between would miss the child.
            if not self._body.has_begun(call):
                return Begun(), None
            return await tried(call.name, call.scope, attempt, start)

        return await self._body.answer(call, try_once)

    async def signal(self, run_id: str, event: str, payload: Any = None, *, name: str = "signal") -> bool:
        """Send a signal to another run of the tenant, once. True if a fitting wait was open when it arrived."""
        call = self._call(name, StepKind.SIGNAL)
        helpers = replace(self._helpers, node_id=call.name, scope=call.scope)

        async def send() -> Completed:
            delivered = await self._signals.send(
                tenant_id=helpers.tenant_id,
                run_id=run_id,
                event=event,
                payload=payload,
                key=helpers.idempotency_key,
            )
            return Completed(Payload.of(delivered))

        async def try_once(attempt: int) -> tuple[StepOutcome, BaseException | None]:
            return await tried(call.name, call.scope, attempt, send)

        return bool(await self._body.answer(call, try_once))

    def _call(self, name: str, kind: StepKind) -> Call:
        outer = inside_step.get()
        if outer is not None:
            raise InvalidDefinition(f"step {outer!r} asks for step {name!r}: a step cannot contain others")
        return self._body.call(name, kind)


def _asks_for(wait: StepOutcome) -> Try:
    async def ask(_: int) -> tuple[StepOutcome, None]:
        return wait, None

    return ask


def _policy(name: str, retry: Mapping[str, Any] | None) -> RetryPolicy:
    try:
        return RetryPolicy.parse_of_code(retry)
    except ValueError as refusal:
        raise InvalidDefinition(f"step {name!r}: {refusal}") from None


def _milliseconds(name: str, what: str, duration: Duration | None) -> int | None:
    if duration is None:
        return None
    try:
        if isinstance(duration, timedelta):
            duration = duration / timedelta(milliseconds=1)
        return parse_duration(duration)
    except ValueError as refusal:
        raise InvalidDefinition(f"step {name!r}: {what}: {refusal}") from None
