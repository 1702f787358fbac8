"""Node types as the rules see them: names, handles, checks. Handlers provide them, the validator uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph.plan import Evaluator

DATA_QUERY_TYPE = "dataQuery"

BUILTIN_TYPES = frozenset(
    {
        "condition",
        "cursor",
        "dataQuery",
        "delay",
        "end",
        "httpRequest",
        "javascript",
        "loop",
        "python",
        "set",
        "start",
        "waitForEvent",
        "workflow",
    }
)
"""The types that every worker has."""

SideEffects: TypeAlias = Literal["none", "external", "unknown"]
HandleKind: TypeAlias = Literal["normal", "body", "error"]


ConfigProblem: TypeAlias = tuple[str, str, str] | tuple[str, str, str, tuple[int, int]]
"""(code, JSON pointer inside the config, message); and in a text of several lines perhaps (line, column), from 1."""


@dataclass(frozen=True, slots=True)
class DynamicHandles:
    """Handles that a config lists: one for each item at `items`, with the id that the item has under `id`."""

    items: str
    """JSON pointer inside the config."""
    id: str
    before: str
    """The fixed handle that they stand before."""

    def ids(self, config: Mapping[str, Any]) -> list[str]:
        """The handles of a node with this config, in order; only the fixed one where the list is absent."""
        items: Any = config
        for name in self.items.split("/")[1:]:
            items = items.get(name, ())
        return [*(item[self.id] for item in items), self.before]


@dataclass(frozen=True, slots=True)
class HandleDescription:
    """A handle as an editor shows it."""

    id: str
    title: str
    kind: HandleKind = "normal"


@dataclass(frozen=True, slots=True)
class NodeTypeDescription:
    """The description of a node type for editors, beside its config. The rules do not use it."""

    category: str = "custom"
    icon: str | None = None
    """A name of the editor's set of icons; None: it shows initials."""
    description: str = ""
    docs: str | None = None
    """The section of docs/nodes.md."""
    side_effects: SideEffects = "unknown"
    handles: tuple[HandleDescription, ...] = ()
    """Those of an empty config, `error` included."""
    dynamic_handles: DynamicHandles | None = None
    handles_computed: bool = False
    """A function of the config gives the handles: the validator tells them."""
    container: str | None = None
    """The handle that leads into the body which the node is the frame of."""
    output_schema: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: {}
    """JSON Schema of what a node with this config puts out, as far as that is known."""


@dataclass(frozen=True, slots=True)
class NodeType:
    """A node type for the validator, the editor and the task worker (the SPEC of a handler)."""

    type: str
    title: str
    config_schema: Mapping[str, Any]
    """JSON Schema of `config`."""
    handles: Callable[[Mapping[str, Any]], Sequence[str]]
    """The handles a node with this config has, without `error`."""
    check: Callable[[Mapping[str, Any]], Iterable[ConfigProblem]]
    """Problems of a config. Templates and code compile here."""
    has_error_handle: bool = True
    default_timeout_ms: int | None = 30_000
    pool: str | None = None
    """The pool of nodes of this type that name none."""
    unbounded: Callable[[Mapping[str, Any]], bool] = lambda config: False
    """True if a node with this config may wait for ever (a wait without timeout)."""
    description: NodeTypeDescription = NodeTypeDescription()
    evaluator: Callable[[Mapping[str, Any]], Evaluator | None] = lambda config: None
    """The evaluator of a pure type for a node with this config. None: its handler has to be executed."""


class NodeTypes(Protocol):
    """The registry as the rules see it: types by name."""

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if it is not registered."""

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""


def config_fields(node_type: NodeType) -> frozenset[str]:
    """The fields that the schema of a type's config names."""
    properties = node_type.config_schema.get("properties")
    return frozenset(properties) if isinstance(properties, Mapping) else frozenset()
