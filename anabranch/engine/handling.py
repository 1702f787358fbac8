"""The handler contract: what a node's handler is given, and what it returns.

Handlers (built-in ones, and users' own through `@node_type`) know this page and nothing else of
the engine; the task worker calls them through it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.stimuli import AwaitsChild, AwaitsSignal, Failed, FunctionBlocked, FunctionSuspended
from anabranch.engine.rules.templates.template import compile_template
from anabranch.engine.threads import HandlerThreads


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """What a handler returns.

    `output` is a JSON value of at most 1 MB. `next_handle` names the exit to follow (None: the
    default one; never `error`, which only the engine picks). `queue_delay` in milliseconds keeps
    the node WAITING with its output stored until then, durably, for 10 ms and for 10 months alike.
    """

    output: Any = None
    next_handle: str | None = None
    queue_delay: float | None = None


@dataclass(slots=True)
class Helpers:
    """What a handler knows about the attempt it runs, and what it may ask for."""

    instance_id: str
    tenant_id: str
    node_id: str
    workflow_id: str | None
    scope: str
    attempt: int
    now_ms: int
    """Milliseconds since the epoch by the store's clock, when the attempt began."""
    context: Mapping[str, Any]
    log: logging.LoggerAdapter[logging.Logger]
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody awaits the result any more: the run was cancelled, failed, or taken over."""
    mask: Callable[[str], str] = str
    """A text with the secrets of this attempt made unreadable; outputs, errors and `log` pass it anyway."""
    threads: HandlerThreads = field(default_factory=HandlerThreads)
    waits_for: str = ""
    """Why an attempt that is to run in a thread has not begun; told if its time is up before it does."""

    @property
    def idempotency_key(self) -> str:
        """One per activation, the same in every attempt and after every crash: safe to send in a header."""
        name = "\x00".join((self.instance_id, self.node_id, self.scope))
        return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()

    async def in_thread(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """What a function that blocks returns, called in a thread. Raises what it raises.

        A thread cannot be stopped: once this attempt is over, its result is discarded.
        """
        what = f"attempt {self.attempt} of node {self.node_id!r}"
        return await self.threads.run(
            self.idempotency_key, function, *args, what=what, waits=self._note_wait, log=self.log
        )

    def _note_wait(self, reason: str) -> None:
        self.waits_for = reason

    def resolve_template(self, text: str) -> Any:
        """The value of a template in this activation's context. Raises TemplateError, TemplatePathMissing."""
        return compile_template(text).resolve(self.context)


HandlerReturn: TypeAlias = HandlerResult | AwaitsSignal | AwaitsChild | FunctionSuspended | FunctionBlocked | Failed
"""What handlers return; the last three only the body of a coded workflow."""


class Handler(Protocol):
    """Executes the nodes of one type."""

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        """Run one attempt. Raise to fail it; NonRetryable to fail it for good."""


class HandlerRegistry(NodeTypes, Protocol):
    """Node types with their handlers."""

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if nobody registered it."""
