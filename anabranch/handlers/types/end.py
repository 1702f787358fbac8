"""`end`: collects what a run, or an iteration, answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class OutputParameter(NodeConfig):
    """One entry of the answer."""

    name: str
    value: Any


class EndConfig(NodeConfig):
    """What to answer."""

    output_parameters: dict[str, Any] | list[OutputParameter] | None = Field(
        None, alias="outputParameters", title="Output parameters"
    )
    name: str | None = Field(None, min_length=1)
    """The key that the answer stands under in the run's output; without it, the entries stand there themselves."""
    terminate: bool | None = None
    """Complete the whole run here and now."""


async def execute(config: EndConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """The entries as one object; of two with the same name, the later. The rules see to `name` and `terminate`."""
    collected = config.output_parameters or {}
    if isinstance(collected, list):
        collected = {parameter.name: parameter.value for parameter in collected}
    return HandlerResult(collected)


SPEC = HandlerSpec(
    type="end",
    title="End",
    config=EndConfig,
    execute=execute,
    handles=(),
    has_error_handle=False,
    fixed=frozenset({"name", "terminate"}),
)
