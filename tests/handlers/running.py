"""Run one handler of the real registry on a config, as the task worker would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.handler_contract import HandlerReturn, Helpers
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.schema.json_schema import ValueSchema
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.handlers import NodeTypeRegistry, builtin_types

NOW_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""

TYPES = builtin_types()


async def run(
    type_name: str,
    config: Mapping[str, Any],
    context: Mapping[str, Any] | None = None,
    *,
    types: NodeTypeRegistry = TYPES,
) -> HandlerReturn:
    """What the handler returns, or raises."""
    handler = types.handler(type_name)
    assert handler is not None, f"nobody registered {type_name}"
    seen = ContextSnapshot((), (context or {},), Facts(NOW_MS, "run-1", "test"))
    helpers = Helpers(
        instance_id="run-1",
        tenant_id="default",
        node_id="node",
        workflow_id=None,
        scope="",
        attempt=1,
        now_ms=NOW_MS,
        context=seen,
    )
    return await handler.execute(config, seen, helpers)


def problems(type_name: str, config: Mapping[str, Any], *, types: NodeTypeRegistry = TYPES) -> list[tuple[str, str]]:
    """(code, pointer) of what is wrong with a config at save: by its schema, or if it fits that, by its check."""
    node_type = types.get(type_name)
    assert node_type is not None, f"nobody registered {type_name}"
    misfits = ValueSchema(node_type.config_schema).problems(config)
    if misfits:
        return [("SCHEMA", pointer) for pointer, _ in misfits]
    return [problem[:2] for problem in node_type.check(config)]
