"""The handler contract: what the handler of a node receives and returns.

Handlers, built-in or declared with `@node_type`, import only this module of the engine. The task worker calls them
through it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.console.lines import ActivationLog, Sink, log_of, report_progress
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.shared.run_state import Redone
from anabranch.engine.rules.stimuli import AwaitsChild, AwaitsSignal, Failed, FunctionBlocked, FunctionSuspended
from anabranch.engine.rules.templates.template import compile_template
from anabranch.engine.threads import HandlerThreads


@dataclass(slots=True)
class HandlerResult:
    """What a handler returns. Not `frozen`, for speed; changing it once it is returned has no effect.

    `output` is a JSON value of at most 1 MB. `next_handle` names the exit to follow (None: the default one; never
    `error`, which only the engine picks). `queue_delay` in milliseconds keeps the node WAITING with its output stored
    until then, durably, for 10 ms or for 10 months.
    """

    output: Any = None
    next_handle: str | None = None
    queue_delay: float | None = None


def idempotency_key(instance_id: str, node_id: str, scope: str, redone: Redone | None = None) -> str:
    """The key that an activation sends with its effects, the same in every attempt."""
    parts = [instance_id, node_id, scope]
    if redone is not None and redone.key_generation:
        parts.append(str(redone.key_generation))
    name = "\x00".join(parts)
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()


class Helpers:
    """What a handler knows about its attempt: ids, logger, progress, cancellation, templates."""

    __slots__ = (
        "_cancelled",
        "_log",
        "_now_ms",
        "attempt",
        "console",
        "context",
        "dispatch",
        "instance_id",
        "is_cancelled",
        "is_first_call",
        "lines_logged",
        "mask",
        "node_id",
        "redone",
        "scope",
        "tenant_id",
        "threads",
        "waits_for",
        "workflow_id",
    )

    is_step = False
    """Each step has its own origin."""

    def __init__(
        self,
        *,
        instance_id: str,
        tenant_id: str,
        node_id: str,
        workflow_id: str | None,
        scope: str,
        attempt: int,
        context: Mapping[str, Any],
        now_ms: int,
        threads: HandlerThreads | None = None,
        console: Sink | None = None,
        cancelled: asyncio.Event | None = None,
        redone: Redone | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.tenant_id = tenant_id
        self.node_id = node_id
        self.workflow_id = workflow_id
        self.scope = scope
        self.attempt = attempt
        self.dispatch = Dispatch(node_id, scope, attempt)
        self.context = context
        self.threads = threads or HandlerThreads()
        self.console = console
        self.lines_logged = 0
        self.is_first_call = False
        self.mask: Callable[[str], str] = str
        """A text with the secrets of this attempt made unreadable; outputs, errors and `log` pass it anyway."""
        self.redone = redone
        """Set if the activation is retried because the run was reopened."""
        self.waits_for = ""
        """Why an attempt that is to run in a thread has not started; part of the error if it times out before it
        does."""
        self.is_cancelled = False
        self._now_ms = now_ms
        self._log: ActivationLog | None = None
        self._cancelled = cancelled

    # Created on first use: most handlers use none of them.

    @property
    def now_ms(self) -> int:
        """Milliseconds since the epoch by the store's clock, when the attempt began."""
        return self._now_ms

    @property
    def began_at_ms(self) -> int | None:
        """The same time, as part of console lines and progress."""
        return self.now_ms

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines are kept with this attempt, without its secrets."""
        log = self._log
        if log is None:
            log = self._log = log_of(self)
        return log

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report the progress of this attempt to watchers, and restart its heartbeat timeout. Thread-safe. Raises
        ValueError unless the numbers are 0 or more.
        """
        report_progress(self, done, total, text)

    def beat(self) -> None:
        """Restart the heartbeat timeout."""

    @property
    def is_function(self) -> bool:
        """Whether it is a workflow function."""
        return self.node_id == FUNCTION_NODE_ID

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the result is no longer needed: the run was cancelled, failed, or taken over."""
        if self._cancelled is None:
            self._cancelled = asyncio.Event()
            if self.is_cancelled:
                self._cancelled.set()
        return self._cancelled

    def about(self, node_id: str, scope: str, redone: Redone | None = None) -> Helpers:
        """The helpers for another activation of the run, which this one starts."""
        return Helpers(
            instance_id=self.instance_id,
            tenant_id=self.tenant_id,
            node_id=node_id,
            workflow_id=self.workflow_id,
            scope=scope,
            attempt=self.attempt,
            context=self.context,
            threads=self.threads,
            now_ms=self.now_ms,
            console=self.console,
            cancelled=self.cancelled,
            redone=redone,
        )

    def cancel(self) -> None:
        """Set `cancelled`."""
        self.is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()

    @property
    def idempotency_key(self) -> str:
        """One per activation, the same in every attempt and after every crash; safe to send in a header. It changes
        only by a retry of the run with `newKeys`.
        """
        return idempotency_key(self.instance_id, self.node_id, self.scope, self.redone)

    async def in_thread(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Call a blocking function in a thread and return its result or raise its exception. A thread cannot be
        stopped; after the attempt has ended, the result is discarded.
        """
        what = f"attempt {self.attempt} of node {self.node_id!r}"
        return await self.threads.run(
            self.idempotency_key, function, *args, what=what, waits=self._note_wait, log=lambda: self.log
        )

    def _note_wait(self, reason: str) -> None:
        self.waits_for = reason

    def resolve_template(self, text: str) -> Any:
        """The value of a template in this activation's context. Raises TemplateError, TemplatePathMissing."""
        return compile_template(text).resolve(self.context)


HandlerReturn: TypeAlias = HandlerResult | AwaitsSignal | AwaitsChild | FunctionSuspended | FunctionBlocked | Failed
"""What handlers return; the last three are for workflow functions only."""


class Handler(Protocol):
    """Executes the nodes of one type."""

    def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> Awaitable[HandlerReturn]:
        """Run one attempt. Raise to fail it; NonRetryable to fail it for good."""


class HandlerRegistry(NodeTypes, Protocol):
    """Node types with their handlers."""

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if it is not registered."""


def ends_us(failure: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether the caller itself is being ended, as opposed to an awaited call that raised.

    `task` is the task that the caller began in: a coroutine that is closed (its loop is gone, or it was dropped) does
    not run in its task, which distinguishes a close from a GeneratorExit that user code raised.
    """
    if isinstance(failure, GeneratorExit):
        return _present_task() is not task
    if isinstance(failure, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    return isinstance(failure, KeyboardInterrupt)


def _present_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no running loop
        return None
