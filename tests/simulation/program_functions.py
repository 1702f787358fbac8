"""Performs programs: the function that the real runner calls, every call of it and of its steps entered in a ledger.

The ledger is the outside world of coded runs, as `nodes.Ledger` is that of drawn ones: it survives
crashes and knows what was really called and what functions were really told. `coded_judge` listens to it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from anabranch import StepError
from anabranch.engine.rules.events import ActivationKey
from anabranch.errors import NonRetryable
from tests.simulation.network import SENDER
from tests.simulation.programs import (
    Caught,
    Gather,
    Invoke,
    Look,
    Node,
    Program,
    Raise,
    Repeated,
    Run,
    Send,
    Sleep,
    Wait,
)

# An hour: no world lasts as long.
NEVER_S = 3_600

# Longer than a function stays for.
PAUSE_S = 1.2

REFUSED = "refused"
"""What a signal that its receiver refuses is worth to a program."""

Call = tuple[str, int]
"""(name, how many calls of it came before this one, and this one)."""


class ProgramFailed(Exception):
    """What a function raises because its program says so."""


class StepFailed(Exception):
    """What a step raises because its program says so."""


@dataclass(slots=True, eq=False)
class FunctionCall:
    """One call of a function, for as long as it goes on."""

    run_id: str
    attempt: int
    worker_id: str
    version: int
    cancelled: Any
    """True once nobody awaits it any more."""
    open: dict[Call, None] = field(default_factory=dict)
    """What it has asked for and was not told."""
    aborted: list[StepCall] = field(default_factory=list)
    """Calls of functions that were cancelled."""
    looks: int = 0
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class StepCall:
    """One call of a step's function."""

    number: int
    """Of all calls in this world: it is part of what the function returns or raises."""
    function: FunctionCall
    call: Call
    key: ActivationKey
    attempt: int
    """The attempt that this was, as the log stood then."""


class Listener(Protocol):
    """Who is told what functions do."""

    def function_begins(self, call: FunctionCall) -> None:
        """A function is called."""

    def step_begins(self, function: FunctionCall, call: Call, spec: Run) -> tuple[ActivationKey, int]:
        """A step's function is about to be called; its key, and which try of it that is by the log."""

    def told(self, function: FunctionCall, call: Call, value: Any, error: StepError | None) -> None:
        """The function was answered."""

    def looked(self, function: FunctionCall, look: int, picture: list[Any]) -> None:
        """The function has read its context for so many times."""


class StepLedger:
    """All calls of all functions and of their steps."""

    def __init__(self, listener: Listener, *, seed: int) -> None:
        self.listener = listener
        self.dice = random.Random(f"steps {seed}")
        self.calls: list[StepCall] = []
        self.under_way: dict[StepCall, None] = {}
        """Calls of functions that have not returned."""
        self.functions: dict[tuple[str, str], FunctionCall] = {}
        """The latest call of a run's function in each process, by (run id, worker id)."""

    def begin_function(self, ctx: Any) -> FunctionCall:
        """A function is called."""
        call = FunctionCall(ctx.run_id, ctx.attempt, SENDER.get().worker_id, ctx.version, ctx.cancelled)
        self.listener.function_begins(call)
        self.functions[call.run_id, call.worker_id] = call
        return call

    def begin_step(self, function: FunctionCall, call: Call, spec: Run) -> StepCall:
        """A function is called."""
        key, attempt = self.listener.step_begins(function, call, spec)
        begun = StepCall(len(self.calls), function, call, key, attempt)
        self.calls.append(begun)
        self.under_way[begun] = None
        return begun

    def forget_process(self, worker_id: str) -> None:
        """A process is gone, and with it what it was doing."""
        self.under_way = {call: None for call in self.under_way if call.function.worker_id != worker_id}
        self.functions = {key: call for key, call in self.functions.items() if key[1] != worker_id}


async def play(program: Program, ctx: Any, input_: Mapping[str, Any], ledger: StepLedger) -> list[Any]:
    """The function of a program: a list of what its parts were worth."""
    call = ledger.begin_function(ctx)
    try:
        return await _Player(ctx, input_, ledger, call).sequence(program)
    finally:
        call.is_over = True


class _Player:
    def __init__(self, ctx: Any, input_: Mapping[str, Any], ledger: StepLedger, function: FunctionCall) -> None:
        self._ctx = ctx
        self._input = input_
        self._ledger = ledger
        self._function = function
        self._numbers: dict[str, int] = {}

    async def sequence(self, program: Program) -> list[Any]:
        return [await self._part(node) for node in program]

    async def _part(self, node: Node) -> Any:
        step = self._ctx.step
        match node:
            case Run():
                return await self._run(node)
            case Sleep():
                return await self._asked(node.name, step.sleep(node.name, node.duration_ms))
            case Wait():
                match_ = None if node.kind is None else {"kind": node.kind}
                wait = step.wait_for_event(node.name, event=node.event, match=match_, timeout=node.timeout_ms)
                return await self._asked(node.name, wait)
            case Send():
                return await self._send(node)
            case Invoke():
                return await self._asked(node.name, step.invoke(node.name, node.workflow, {}))
            case Look():
                return self._look()
            case Raise():
                if self._ctx.attempt < node.below:
                    raise ProgramFailed(f"attempt {self._ctx.attempt} of the function fails")
                return None
            case Gather():
                return await self._gather(node)
            case Caught():
                try:
                    return await self.sequence(node.part)
                except StepError as failure:
                    return [failure.code, await self.sequence(node.instead)]
            case Repeated():
                return [await self.sequence(node.part) for _ in range(node.times)]

    async def _run(self, spec: Run) -> Any:
        call = (spec.name, self._numbers.get(spec.name, 0) + 1)
        retry = {"attempts": spec.tries, "backoff": {"kind": "exp", "base": spec.base_ms, "max": "4s", "jitter": 0.2}}
        asked = self._ctx.step.run(spec.name, self._do, spec, call, retry=retry, timeout=spec.timeout_ms)
        return await self._asked(spec.name, asked)

    async def _do(self, spec: Run, call: Call) -> dict[str, Any]:
        begun = self._ledger.begin_step(self._function, call, spec)
        try:
            takes_s = self._ledger.dice.random() * spec.takes_ms / 1000
            if takes_s:
                await asyncio.sleep(takes_s)
        except asyncio.CancelledError:
            self._function.aborted.append(begun)
            raise
        finally:
            self._ledger.under_way.pop(begun, None)
        if spec.fatal:
            raise NonRetryable(f"call {begun.number}")
        if self._function.attempt < spec.fails_below or begun.attempt <= spec.fails:
            raise StepFailed(f"call {begun.number}")
        return {"step": spec.name, "call": begun.number}

    async def _send(self, node: Send) -> Any:
        receiver = self._ctx.run_id if node.to_itself else self._input.get("peer") or self._ctx.run_id
        number = self._numbers.get(node.name, 0) + 1
        sender = f"{self._ctx.run_id}/{node.name}/{number}@{self._ctx.attempt}"
        payload = {"kind": number % 2, "from": node.name, "sender": sender}
        try:
            return await self._asked(node.name, self._ctx.step.signal(receiver, node.event, payload, name=node.name))
        except StepError:
            return REFUSED

    async def _gather(self, node: Gather) -> list[Any]:
        if node.how == "queue":
            return await self._queued(node)
        if node.how == "cancel":
            return await self._until_others_end(node)
        branches = [self._branch(node.how, branch) for branch in self._limited(node)]
        if node.how == "timeout":
            async with asyncio.timeout(NEVER_S):
                return list(await asyncio.gather(*branches))
        if node.how == "wait":
            tasks = [asyncio.create_task(branch) for branch in branches]
            await asyncio.wait(set(tasks), return_when=asyncio.FIRST_EXCEPTION, timeout=NEVER_S)
            return list(await asyncio.gather(*tasks))
        if node.how not in ("group", "collect"):
            return list(await asyncio.gather(*branches))
        if node.how == "group":
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(branch) for branch in branches]
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
            return [task.result() for task in tasks]
        collected = await asyncio.gather(*branches, return_exceptions=True)
        for each in collected:
            if isinstance(each, BaseException) and not isinstance(each, StepError):
                raise each
        return [each.code if isinstance(each, StepError) else each for each in collected]

    async def _until_others_end(self, node: Gather) -> list[Any]:
        """The first branch is cancelled when all others have ended; it is worth nothing, wherever it was by then."""
        first = asyncio.create_task(self.sequence(node.branches[0]))
        others = await asyncio.gather(*(self.sequence(branch) for branch in node.branches[1:]))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return list(others)

    def _limited(self, node: Gather) -> list[Callable[[], Awaitable[list[Any]]]]:
        """Its branches, as many of them at once as its lock or semaphore lets in."""
        limits = {"lock": asyncio.Lock(), "semaphore": asyncio.Semaphore(2)}
        limit = limits.get(node.how)

        async def limited(branch: Program) -> list[Any]:
            if limit is None:
                return await self.sequence(branch)
            async with limit:
                return await self.sequence(branch)

        return [partial(limited, branch) for branch in node.branches]

    async def _branch(self, how: str, branch: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        if how == "pause":
            await asyncio.sleep(PAUSE_S)
        return await (asyncio.shield(branch()) if how == "shield" else branch())

    async def _queued(self, node: Gather) -> list[Any]:
        """Two workers take the branches from a queue."""
        jobs: asyncio.Queue[int] = asyncio.Queue()
        worth: dict[int, list[Any]] = {}
        for number in range(len(node.branches)):
            jobs.put_nowait(number)

        async def work() -> None:
            while not jobs.empty():
                number = jobs.get_nowait()
                worth[number] = await self.sequence(node.branches[number])
                await asyncio.sleep(PAUSE_S)

        await asyncio.gather(work(), work())
        return [worth[number] for number in range(len(node.branches))]

    def _look(self) -> list[Any]:
        ctx = self._ctx
        picture = [ctx.now().isoformat(), ctx.random(), str(ctx.uuid4()), ctx.attempt]
        self._function.looks += 1
        self._ledger.listener.looked(self._function, self._function.looks, picture)
        return picture

    async def _asked(self, name: str, answer: Awaitable[Any]) -> Any:
        """What a step answers, and the judge hears of it. What is unwound stays open."""
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        call = (name, number)
        self._function.open[call] = None
        try:
            value = await answer
        except asyncio.CancelledError:
            del self._function.open[call]
            raise
        except StepError as failure:
            del self._function.open[call]
            self._ledger.listener.told(self._function, call, None, failure)
            raise
        del self._function.open[call]
        self._ledger.listener.told(self._function, call, value, None)
        return value
