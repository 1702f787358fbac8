"""`end`: the output of a run, or of an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class OutputParameter(NodeConfig):
    """One entry of the answer."""

    name: str = Field(description="Its name in the output.")
    value: Any = Field(description="Its value.")


class EndConfig(NodeConfig):
    """What to answer."""

    output_parameters: dict[str, Any] | list[OutputParameter] | None = Field(
        None,
        alias="outputParameters",
        title="Output parameters",
        description="The output of the run: names with values.",
        json_schema_extra=x_ui(widget="keyValue"),
    )
    name: str | None = Field(
        None,
        min_length=1,
        description="The key of these values in the run's output; without it, they are top-level fields of the output.",
        json_schema_extra=x_ui(advanced=True),
    )
    terminate: bool | None = Field(
        None,
        description="Complete the whole run at once: everything that is still open is skipped.",
        json_schema_extra=x_ui(advanced=True),
    )


def evaluate(config: EndConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The entries as one object; the later of two with the same name wins. The rules handle `name` and `terminate`."""
    collected = config.output_parameters or {}
    if isinstance(collected, list):
        collected = {parameter.name: parameter.value for parameter in collected}
    return collected, None


SPEC = HandlerSpec(
    type="end",
    title="End",
    config=EndConfig,
    evaluate=evaluate,
    handles=(),
    has_error_handle=False,
    fixed=frozenset({"name", "terminate"}),
    category="flow",
    icon="flag",
    description="Collects the output of the run.",
    side_effects="none",
    docs="#end",
)
