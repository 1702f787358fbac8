"""Node types for the tests of the engine: they fail, hang and count on request."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel

from anabranch import HandlerResult, NonRetryable, node_type

calls: Counter[str] = Counter()
"""Executions by idempotency key."""
stopped: list[str] = []
"""Node ids whose handler was told to stop."""
gates: dict[str, asyncio.Event] = {}
"""`gated` nodes wait for the event of their name."""


def open_gate(name: str) -> None:
    """Let those through who wait at a gate, and who comes to it later."""
    gates.setdefault(name, asyncio.Event()).set()


class FailsConfig(BaseModel):
    times: int = 1
    final: bool = False
    message: str = "not today"


@node_type("testFails", config=FailsConfig)
class Fails:
    """Fails its first `times` attempts."""

    async def execute(self, config: FailsConfig, context: Any, helpers: Any) -> HandlerResult:
        calls[helpers.idempotency_key] += 1
        if helpers.attempt <= config.times:
            if config.final:
                raise NonRetryable(config.message)
            raise RuntimeError(config.message)
        return HandlerResult({"attempt": helpers.attempt})


class GateConfig(BaseModel):
    gate: str


@node_type("testGate", config=GateConfig, timeout=None)
class Gate:
    """Waits until the test opens its gate."""

    async def execute(self, config: GateConfig, context: Any, helpers: Any) -> HandlerResult:
        calls[helpers.idempotency_key] += 1
        try:
            await gates.setdefault(config.gate, asyncio.Event()).wait()
        except asyncio.CancelledError:
            stopped.append(helpers.node_id)
            raise
        return HandlerResult({"key": helpers.idempotency_key})


class LogsConfig(BaseModel):
    waits: bool


@node_type("testLogs", config=LogsConfig)
class Logs:
    """Logs a line, waits for a turn of the event loop on request, and fails its first attempt."""

    async def execute(self, config: LogsConfig, context: Any, helpers: Any) -> HandlerResult:
        helpers.log.info("attempt %s", helpers.attempt)
        if config.waits:
            await asyncio.sleep(0)
        if helpers.attempt == 1:
            raise RuntimeError("not yet")
        return HandlerResult()


author: ContextVar[str] = ContextVar("author", default="nobody")


class SignsConfig(BaseModel):
    waits: bool


@node_type("testSigns", config=SignsConfig)
class Signs:
    """Says what it found in a context variable and what it reads after it has put itself there."""

    async def execute(self, config: SignsConfig, context: Any, helpers: Any) -> HandlerResult:
        found = author.get()
        author.set(helpers.idempotency_key)
        if config.waits:
            await asyncio.sleep(0)
        return HandlerResult({"found": found, "own": author.get() == helpers.idempotency_key})


class ReturnsConfig(BaseModel):
    kind: str


class Unreadable(Exception):
    """Cannot even be turned into text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@node_type("testMisbehaves", config=ReturnsConfig, timeout="40ms")
class Misbehaves:
    """Ends in ways that no handler should."""

    async def execute(self, config: ReturnsConfig, context: Any, helpers: Any) -> HandlerResult:
        if config.kind == "cancelled":
            part = asyncio.create_task(asyncio.Event().wait())
            part.cancel()
            await part
        if config.kind == "cancelled at once":
            raise asyncio.CancelledError("by itself")
        if config.kind == "exit":
            sys.exit(3)
        if config.kind == "unreadable":
            raise Unreadable
        if config.kind == "odd code":
            raise NonRetryable("odd", code=object())  # type: ignore[arg-type]
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if config.kind == "swallows":
                return HandlerResult("as if nothing had happened")
            raise RuntimeError("something else") from None
        return HandlerResult(None)


@node_type("testSlowToStop", config=GateConfig, timeout="30ms")
class SlowToStop:
    """Takes its time to clean up when it is stopped: until its gate opens."""

    async def execute(self, config: GateConfig, context: Any, helpers: Any) -> HandlerResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(helpers.node_id)
            await gates.setdefault(config.gate, asyncio.Event()).wait()
            raise
        return HandlerResult(None)


@node_type("testReturns", config=ReturnsConfig)
class Returns:
    """Returns what may not be stored."""

    async def execute(self, config: ReturnsConfig, context: Any, helpers: Any) -> HandlerResult:
        values: dict[str, Any] = {
            "nan": float("nan"),
            "nul": "a\x00b",
            "surrogate": "\ud800",
            "wide": 2**64,
            "large": "x" * 1_100_000,
            "object": object(),
        }
        if config.kind == "handle":
            return HandlerResult({}, next_handle="nowhere")
        if config.kind == "raises":
            raise RuntimeError("bad \x00 and \ud800 in a message")
        return HandlerResult({"value": values[config.kind]})


class ThreadedConfig(BaseModel):
    name: str


threads: dict[str, Callable[[Any], Any]] = {}
"""What `testThreaded` and `testBlocks` nodes do, by the name in their config."""


@node_type("testThreaded", config=ThreadedConfig, timeout="30s")
class Threaded:
    """A plain function: it runs in a thread."""

    def execute(self, config: ThreadedConfig, context: Any, helpers: Any) -> HandlerResult:
        calls[helpers.idempotency_key] += 1
        return HandlerResult(threads[config.name](helpers))


@node_type("testBlocks", config=ThreadedConfig, timeout="30s")
class Blocks:
    """What nobody should do: it blocks the event loop, at once or after a wait."""

    async def execute(self, config: ThreadedConfig, context: Any, helpers: Any) -> HandlerResult:
        if config.name.startswith("later"):
            await asyncio.sleep(0)
        return HandlerResult(threads[config.name](helpers))
