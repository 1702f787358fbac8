"""What the rules know of node types: names, handles, checks. Handlers bring them, the validator asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class NodeType:
    """What the validator, the editor and the task worker know of a node type (the SPEC of a handler)."""

    type: str
    title: str
    config_schema: Mapping[str, Any]
    """JSON Schema of `config`."""
    handles: Callable[[Mapping[str, Any]], Sequence[str]]
    """The handles a node with this config has, without `error`."""
    check: Callable[[Mapping[str, Any]], Iterable[tuple[str, str, str]]]
    """Problems of a config: (code, JSON pointer inside config, message). Templates and code compile here."""
    has_error_handle: bool = True
    default_timeout_ms: int | None = 30_000
    unbounded: Callable[[Mapping[str, Any]], bool] = lambda config: False
    """True if a node with this config may wait for ever (a wait without timeout)."""


class NodeTypes(Protocol):
    """The registry as the rules see it: types by name."""

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if nobody registered it."""

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""


def config_fields(node_type: NodeType) -> frozenset[str]:
    """The fields that the schema of a type's config names."""
    properties = node_type.config_schema.get("properties")
    return frozenset(properties) if isinstance(properties, Mapping) else frozenset()
