"""Trigger specs: the payload schema and the output that all triggers have.

Used by the modules of this folder. A trigger puts out the payload that it began the run with. Its config is read when
its version is published, so there are no templates in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.entry_points import INPUT_SCHEMA
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig, Problem

CATEGORY = "trigger"


class TriggerConfig(NodeConfig):
    """What every trigger may say about its payload."""

    inputSchema: dict[str, Any] | None = Field(  # noqa: N815 -- the wire's names are camelCase
        None,
        description="JSON Schema of the payload; no run is started with a payload that does not match.",
        json_schema_extra=x_ui(advanced=True),
    )


def evaluate(config: TriggerConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The payload."""
    return context.get("input"), None


def trigger_spec(
    type_name: str,
    config: type[TriggerConfig],
    *,
    title: str,
    icon: str,
    description: str,
    inspect: Callable[[Mapping[str, Any]], Iterable[Problem]] = lambda config: (),
    unresolved: frozenset[str] = frozenset(),
    payload_schema: Mapping[str, Any] | None = None,
) -> HandlerSpec:
    """The SPEC of a trigger. `payload_schema` is that of its payload, as far as it is known without the config."""
    schema = payload_schema or {}
    return HandlerSpec(
        type=type_name,
        title=title,
        config=config,
        evaluate=evaluate,
        has_error_handle=False,
        unresolved=unresolved,
        fixed=frozenset(config.model_fields) - {INPUT_SCHEMA} - unresolved,
        literal=frozenset({INPUT_SCHEMA}),
        inspect=inspect,
        category=CATEGORY,
        icon=icon,
        description=description,
        side_effects="none",
        docs=f"#{type_name.lower()}",
        output_schema=lambda written: written.get(INPUT_SCHEMA) or schema,
    )
