"""The node types `flaky`, which fails as its script says, and `pick`, which takes a handle as the script says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.handler_contract import Handler, HandlerRegistry, HandlerResult, Helpers
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.errors import NonRetryable
from tests.oracle.script import Script, attempt_fails, planned_failure, planned_handle

FLAKY = NodeType(
    type="flaky",
    title="Flaky",
    config_schema={"type": "object", "additionalProperties": False},
    handles=lambda config: ("default",),
    check=lambda config: (),
)


PICK = NodeType(
    type="pick",
    title="Pick",
    config_schema={"type": "object", "properties": {"handles": {"type": "array"}}},
    handles=lambda config: tuple(config["handles"]),
    check=lambda config: (),
)


class WithFlaky:
    """A registry with two more types, whose handlers play one script."""

    def __init__(self, others: HandlerRegistry, script: Script) -> None:
        self._others = others
        self._flaky = _Flaky(script)

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if nobody registered it."""
        return _TYPES.get(type_name) or self._others.get(type_name)

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return sorted([*_TYPES, *self._others.names()])

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if nobody registered it."""
        if type_name == PICK.type:
            return _PICK
        return self._flaky if type_name == FLAKY.type else self._others.handler(type_name)


class _Pick:
    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        handle = planned_handle(config["handles"], helpers.node_id, helpers.scope)
        return HandlerResult({"ok": helpers.node_id}, next_handle=handle)


_TYPES = {node_type.type: node_type for node_type in (FLAKY, PICK)}
_PICK = _Pick()


class FlakyFailure(Exception):
    """What a flaky node raises when its script says so."""


class _Flaky:
    def __init__(self, script: Script) -> None:
        self._script = script

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        if not attempt_fails(self._script, helpers.node_id, helpers.scope, helpers.attempt):
            return HandlerResult({"ok": helpers.node_id})
        message = f"try {helpers.attempt} of {helpers.node_id} fails"
        if isinstance(planned_failure(self._script, helpers.node_id, helpers.scope), str):
            raise NonRetryable(message)
        raise FlakyFailure(message)
