"""The current span of an attempt while its code runs: what that code calls becomes a child span.

Made by the composition root where spans are exported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from anabranch.engine.handler_contract import Handler, HandlerRegistry, HandlerReturn, Helpers
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.telemetry import AroundAttempt
from anabranch.telemetry.spans import SpanSink, attempt_span_id, trace_id_of


class CurrentAttempts:
    """Makes spans of attempts current (`engine.telemetry.AroundAttempt`)."""

    def __init__(self, sink: SpanSink) -> None:
        self._sink = sink
        self._head_of: Callable[[str], InstanceHead | None] | None = None

    def connect(self, head_of: Callable[[str], InstanceHead | None]) -> None:
        """Look up owned runs here: the engine is created after its handlers."""
        self._head_of = head_of

    def __call__(self, run_id: str, name: str, scope: str, attempt: int) -> AbstractContextManager[None]:
        """A context in which the span of this attempt is current; does nothing for a run that is no longer owned."""
        head = None if self._head_of is None else self._head_of(run_id)
        if head is None:
            return nullcontext()
        return self._sink.current(trace_id_of(head), attempt_span_id(run_id, name, scope, attempt))


class TracedHandlers:
    """Node types whose handlers run inside their attempt's span."""

    def __init__(self, nodes: HandlerRegistry, around: AroundAttempt) -> None:
        self._nodes = nodes
        self._around = around

    def get(self, type_name: str) -> NodeType | None:
        """The node type, or None if it is not registered."""
        return self._nodes.get(type_name)

    def names(self) -> Sequence[str]:
        """Every registered node type."""
        return self._nodes.names()

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if it is not registered."""
        handler = self._nodes.handler(type_name)
        return None if handler is None else _Traced(handler, self._around)


class _Traced:
    """A handler that runs inside its attempt's span."""

    def __init__(self, handler: Handler, around: AroundAttempt) -> None:
        self._handler = handler
        self._around = around

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        """Run one attempt."""
        with self._around(helpers.instance_id, helpers.node_id, helpers.scope, helpers.attempt):
            return await self._handler.execute(config, context, helpers)
