"""`set`: makes an object of values and templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class SetConfig(NodeConfig):
    """The object to make."""

    values: dict[str, Any]


async def execute(config: SetConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """The object, its templates resolved."""
    return HandlerResult(config.values)


SPEC = HandlerSpec(type="set", title="Set values", config=SetConfig, execute=execute)
