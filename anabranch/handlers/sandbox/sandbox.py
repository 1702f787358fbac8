"""The sandbox: runs code of tenants in sealed processes, each used once.

Called by the code node types. It starts nothing until the first job or check; then there is one fork server per
language in use, with children that wait. Whatever the code does, the outcome is a value or a `NodeFailure`, in time,
and the next job gets a new child.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import platform
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from anabranch.deferred import deferred
from anabranch.errors import NodeFailure
from anabranch.handlers.sandbox.checker import Checker
from anabranch.handlers.sandbox.code_jobs import CodeJob, CodeProblem, LogLine, unavailable
from anabranch.handlers.sandbox.concurrency_limiter import ConcurrencyLimiter
from anabranch.handlers.sandbox.inside import sealed_wire as wire
from anabranch.handlers.types.http_port import HttpSender

# Needed only to run code:
if TYPE_CHECKING:
    from anabranch.handlers.sandbox import conversation as conversing
    from anabranch.handlers.sandbox import pool as pooling
    from anabranch.handlers.sandbox import sealed_process
else:
    conversing = deferred("anabranch.handlers.sandbox.conversation")
    pooling = deferred("anabranch.handlers.sandbox.pool")
    sealed_process = deferred("anabranch.handlers.sandbox.sealed_process")

logger = logging.getLogger(__name__)

# 192 MiB beside the heap of the language: what the interpreter and its libraries have mapped.
ADDRESS_BYTES_BESIDE_HEAP = 192 << 20

# Four at once at least: code that waits for a fetch uses no processor.
SLOTS_MIN = 4

_CORES = os.cpu_count() or 1

# 200 characters of a source line: a longer line, of minified code, does not help.
SOURCE_CHARACTERS_MAX = 200

# The codes that a child may report; anything else comes from a compromised child.
_FAILURES = frozenset({"CODE_ERROR", "CODE_MEMORY", "VALUE_NOT_STORABLE", "VALUE_TOO_LARGE", "SANDBOX_UNAVAILABLE"})
_FINAL = frozenset({"VALUE_NOT_STORABLE", "VALUE_TOO_LARGE"})


class Sandbox:
    """Runs code in sealed processes. One per process, started lazily, stopped with the app."""

    def __init__(
        self,
        *,
        fetcher: HttpSender | None = None,
        unsafe: bool = False,
        slots: int = max(SLOTS_MIN, 2 * _CORES),
        warm: int = max(2, _CORES),
    ) -> None:
        """`unsafe` runs code even where seccomp cannot be had; `slots` bounds executions at once."""
        self._fetcher = fetcher
        self._unsafe = unsafe
        self._warm = warm
        self._concurrency_limiter = ConcurrencyLimiter(slots=slots, slots_per_tenant=max(1, slots // 2))
        self._pools: dict[str, pooling.Pool] = {}
        self._checker = Checker(requires_seccomp=not unsafe)
        self._layers: Mapping[str, str] | None = None
        self._on_ready: list[Callable[[], None]] = []

    async def run(self, job: CodeJob, log: LogLine) -> Any:
        """Run the code and return its result: JSON of at most 1 MB and 64 levels.

        Raises NodeFailure with CODE_ERROR, CODE_TIMEOUT, CODE_MEMORY, SANDBOX_DIED, VALUE_NOT_STORABLE,
        VALUE_TOO_LARGE, CONTEXT_TOO_LARGE or SANDBOX_UNAVAILABLE. The timeout counts from when the job has a child,
        without the wait for others.
        """
        if platform.system() != "Linux" and not self._unsafe:
            raise unavailable(f"{platform.system()} has no seccomp")
        async with self._concurrency_limiter.slot(job.tenant_id):
            context = _encoded_context(job)
            answer = await self._answer(job, context, log)
        if "result" in answer:
            return answer["result"]
        raise _failure_of(answer["error"], job)

    def check(self, language: str, code: str) -> list[CodeProblem]:
        """The place where the code does not compile. Blocks for some milliseconds; the code is not run."""
        return self._checker.check(language, code)

    async def probe(self) -> Mapping[str, str]:
        """The layers that this machine has: layer → `yes…` or `no (why)`. Starts a fork server if none has run yet."""
        if self._layers is None:
            pool = self._pool("python")
            with suppress(sealed_process.ForkServerLost):
                await pool.bury(await pool.take())
        return self._layers or {"seccomp": "no (the fork server does not start)"}

    def gate(self, language: str) -> CodeGate:
        """The gate for jobs of this language (`ports.Gate`)."""
        return CodeGate(self._concurrency_limiter, partial(self._pool, language), self._on_ready)

    def health(self) -> dict[str, Any]:
        """Its health: `state` is idle (never used), ready, degraded (a fork server is lost) or unavailable."""
        return {
            "state": self._state(),
            "unsafe": self._unsafe,
            "layers": self._layers and dict(self._layers),
            "running": self._concurrency_limiter.inside,
            "waiting": self._concurrency_limiter.waiting,
            "forkServers": {
                language: {"pid": pool.server_pid, "starts": pool.starts} for language, pool in self._pools.items()
            },
        }

    async def stop(self) -> None:
        """End every process of the sandbox; returns when they are gone. May be called twice, or before any use."""
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.stop()
        await asyncio.to_thread(self._checker.stop)

    # -- within ----------------------------------------------------------------------------

    def _ready(self) -> None:
        for opened in self._on_ready:
            opened()

    def _state(self) -> str:
        if self._layers is None:
            return "idle"
        if not self._may_run():
            return "unavailable"
        return "degraded" if any(pool.is_lost for pool in self._pools.values()) else "ready"

    def _may_run(self) -> bool:
        return self._unsafe or (self._layers is not None and self._layers.get("seccomp") == "yes")

    def _pool(self, language: str) -> pooling.Pool:
        pool = self._pools.get(language)
        if pool is None:
            pool = self._pools[language] = pooling.Pool(
                language,
                warm=self._warm,
                requires_seccomp=not self._unsafe,
                on_start=self._started,
                on_ready=self._ready,
            )
        return pool

    def _started(self, server: sealed_process.ForkServer) -> None:
        if self._layers is None:
            line = ", ".join(f"{layer} {state}" for layer, state in server.layers.items())
            logger.info("sandbox: %s", line)
            if self._unsafe:
                logger.warning("sandbox: the unsafe option is on; code nodes run with whatever of this there is")
        self._layers = server.layers

    async def _answer(self, job: CodeJob, context: bytes, log: LogLine) -> Mapping[str, Any]:
        pool = self._pool(job.language)
        try:
            child = await pool.take()
        except sealed_process.ForkServerLost as lost:
            raise _died(f"the fork server for {job.language} is lost: {lost}") from None
        try:
            answer = await self._converse(child, job, context, log)
        except BaseException:
            await pool.bury(child)  # the child has ended, and its end is not awaited
            raise
        if answer is None:
            raise _of_death(await pool.bury(child), job)
        pool.dismiss(child)
        return answer

    async def _converse(
        self, child: pooling.Child, job: CodeJob, context: bytes, log: LogLine
    ) -> Mapping[str, Any] | None:
        """The child's answer, or None if it ended without one."""
        if not self._may_run():
            raise unavailable(f"seccomp: {(self._layers or {}).get('seccomp', 'unknown')}")
        timeout_s = job.timeout_ms / 1000
        fetcher = self._fetcher if job.allow_fetch else None
        conversation = conversing.Conversation(child.process.connection, log, fetcher, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await conversation.hold(_limits(job), _encoded_job(job), context)
        except TimeoutError:
            raise _failure("CODE_TIMEOUT", "CodeTimeout", f"the code ran longer than {job.timeout_ms} ms") from None
        except conversing.ValueUnfit as unfit:
            message = f"the code returned {unfit}"
            raise _failure("VALUE_NOT_STORABLE", "ValueNotStorable", message) from None
        except conversing.ProtocolViolated as broke:
            raise _died(f"its process sent {broke}") from None
        except conversing.ChildProcessEnded:
            return None


class CodeGate:
    """Keeps jobs of one language in the queue while they would have to wait for the sandbox."""

    def __init__(
        self, limiter: ConcurrencyLimiter, pool: Callable[[], pooling.Pool], on_ready: list[Callable[[], None]]
    ) -> None:
        """What is in `on_ready` is called when a fork server was started."""
        self._limiter = limiter
        self._pool = pool
        self._on_ready = on_ready

    def is_open(self) -> bool:
        """Whether there is a free slot and a fork server; starts one if there is none."""
        return self._limiter.has_capacity and self._pool().is_ready()

    def admits(self, tenant_id: str) -> bool:
        """Whether a job of this tenant may begin now."""
        return self._limiter.admits(tenant_id)

    def subscribe(self, opened: Callable[[], None]) -> None:
        """Call this whenever a job that had to wait may perhaps begin."""
        self._limiter.subscribe(opened)
        self._on_ready.append(opened)


def _limits(job: CodeJob) -> bytes:
    # One second more than the job has: the clock on the wall is to strike first, with the better error.
    return wire.LIMITS.pack(job.memory_bytes + ADDRESS_BYTES_BESIDE_HEAP, _cpu_seconds(job))


def _cpu_seconds(job: CodeJob) -> int:
    return math.ceil(job.timeout_ms / 1000) + 1


def _encoded_job(job: CodeJob) -> bytes:
    return orjson.dumps({"code": job.code, "memoryBytes": job.memory_bytes, "allowFetch": job.allow_fetch})


def _encoded_context(job: CodeJob) -> bytes:
    try:
        context = orjson.dumps(dict(job.context))
    except orjson.JSONEncodeError as refusal:  # among others, more levels than any value has
        message = f"ctx is not JSON that code can read: {refusal}"
        raise NodeFailure("VALUE_NOT_STORABLE", message, type_name="ValueNotStorable", retryable=False) from None
    if len(context) > wire.CONTEXT_BYTES_MAX:
        message = f"ctx has {len(context)} bytes of JSON; code that does not only read names of it takes"
        message += f" {wire.CONTEXT_BYTES_MAX}: write ctx.name, so that it is given these alone"
        raise NodeFailure("CONTEXT_TOO_LARGE", message, type_name="ContextTooLarge", retryable=False)
    return context


def _failure_of(error: Mapping[str, Any], job: CodeJob) -> NodeFailure:
    """The failure that the child reports, if it is a possible one."""
    code, frames = error["code"], error["frames"]
    if code not in _FAILURES:
        return _died("its process gave a reason that there is not")
    if code == "SANDBOX_UNAVAILABLE":
        return unavailable(error["message"])
    message = f"{_line_and_column(*frames[-1][:2])}: {error['message']}" if frames else error["message"]
    lines = job.code.split("\n")
    trace = "".join(_frame_text(lines, *frame) for frame in frames)
    return _failure(code, error["type"], message, traceback=trace)


def _frame_text(lines: list[str], line: int, column: int, name: str) -> str:
    """A call in the code as Python shows one."""
    where = f", in {name}" if name else ""
    text = f'  File "<code>", {_line_and_column(line, column)}{where}\n'
    source = lines[line - 1].strip()[:SOURCE_CHARACTERS_MAX] if line <= len(lines) else ""
    return f"{text}    {source}\n" if source else text


def _line_and_column(line: int, column: int) -> str:
    return f"line {line}, column {column}" if column else f"line {line}"


def _of_death(death: pooling.ChildExit | None, job: CodeJob) -> NodeFailure:
    what = "the process that ran the code ended"
    if death is None:
        return _died(f"{what}, and its fork server with it")
    if death.status == wire.EXIT_OUT_OF_MEMORY:
        return _failure("CODE_MEMORY", "OutOfMemory", "the code needed more memory than its memoryLimitMB")
    if death.status < 0 and death.cpu_ms >= _cpu_seconds(job) * 1000:
        return _failure("CODE_TIMEOUT", "CodeTimeout", f"the code used more than {_cpu_seconds(job)} s of processor")
    how = f"by {signal.Signals(-death.status).name}" if death.status < 0 else f"with status {death.status}"
    return _died(f"{what} {how}")


def _died(message: str) -> NodeFailure:
    return _failure("SANDBOX_DIED", "SandboxDied", message)


def _failure(code: str, type_name: str, message: str, *, traceback: str = "") -> NodeFailure:
    return NodeFailure(code, message, type_name=type_name, retryable=code not in _FINAL, traceback=traceback)
