"""For tests of node types, workflows and programs.

`run_handler` runs one handler alone as the engine would, `run_workflow` a drawn workflow in memory; `MemoryStore` is a
store without a database.

The config is handled as in a run: templates are resolved in the given context, the type's model checks the result,
`execute` is awaited with its timeout, and its output is checked. `MemoryStore` behaves like the other stores, for as
long as its `MemoryDatabase` lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.schema.json_schema import ValueSchema
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.engine.rules.values import Payload
from anabranch.handlers.registry import load_types
from anabranch.handlers.spec import NodeTypeRegistry
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore
from anabranch.testing.workflow_runs import (
    RUN_ID,
    STARTED_AT_MS,
    TENANT,
    Answer,
    Request,
    Signal,
    WorkflowRun,
    run_workflow,
)

__all__ = [
    "Answer",
    "MemoryDatabase",
    "MemoryStore",
    "ReportedProblem",
    "Request",
    "Signal",
    "WorkflowRun",
    "check_config",
    "run_handler",
    "run_workflow",
]


@dataclass(frozen=True, slots=True)
class ReportedProblem:
    """A problem of a config at save."""

    code: str
    pointer: str
    message: str


async def run_handler(
    type_name: str,
    config: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    *,
    attempt: int = 1,
    scope: str = "",
    cancelled: asyncio.Event | None = None,
    types: NodeTypeRegistry | None = None,
) -> HandlerResult:
    """Run one attempt of a node and return its result, with the output as it would be stored.

    `context` is `ctx`: `{"input": …}` and the variables of earlier nodes. In templates `now` is the beginning of 2026,
    `ctx.run.id` RUN_ID, and `ctx.workflow.name` "test". `cancelled` is the event
    that `helpers.cancelled` will be. Raises what the handler raises, TemplateError for a config
    that does not resolve, NonRetryable for one that does not fit, ValueNotStorable or
    ValueTooLarge for an output that is not a value, TimeoutError past the type's timeout, and
    LookupError for a type that is not declared: import its module first.
    """
    known = types or load_types()
    node_type, handler = known.get(type_name), known.handler(type_name)
    if node_type is None or handler is None:
        raise LookupError(f"no node type {type_name!r} is declared; there are {', '.join(known.names())}")
    facts = Facts(STARTED_AT_MS, RUN_ID, "test")
    seen = ContextSnapshot((), ({} if context is None else context,), facts)
    helpers = Helpers(
        instance_id=RUN_ID,
        tenant_id=TENANT,
        node_id="node",
        workflow_id=None,
        scope=scope,
        attempt=attempt,
        now_ms=STARTED_AT_MS,
        context=seen,
        cancelled=cancelled or asyncio.Event(),
    )
    timeout_ms = node_type.default_timeout_ms
    async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
        returned = await handler.execute({} if config is None else config, seen, helpers)
    if not isinstance(returned, HandlerResult):
        raise TypeError(f"{type_name} returned a {type(returned).__name__}, not a HandlerResult")
    return HandlerResult(Payload.of(returned.output).value, returned.next_handle, returned.queue_delay)


def check_config(
    type_name: str, config: Mapping[str, Any], *, types: NodeTypeRegistry | None = None
) -> list[ReportedProblem]:
    """The problems that would refuse a save of this config; empty if it is valid. Raises LookupError for an unknown
    type."""
    known = types or load_types()
    node_type = known.get(type_name)
    if node_type is None:
        raise LookupError(f"no node type {type_name!r} is declared; there are {', '.join(known.names())}")
    misfits = ValueSchema(node_type.config_schema).problems(config)
    if misfits:
        return [ReportedProblem("CONFIG_INVALID", pointer, message) for pointer, message in misfits]
    return [ReportedProblem(*problem[:3]) for problem in node_type.check(config)]
