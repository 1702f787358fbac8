"""The node types that exist here: built-in ones, installed ones, and those declared by imported modules.

Called by the composition root, which hands the registry to the validator and the task worker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from anabranch.engine.handling import Handler
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.handlers.builtin import builtin_specs
from anabranch.handlers.declare import DECLARED
from anabranch.handlers.services import NO_SERVICES, Services
from anabranch.handlers.spec import HandlerSpec, SpecHandler

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "anabranch.handlers"

_Entry = tuple[HandlerSpec, NodeType, SpecHandler]


class Registry:
    """Node types and their handlers, by name. Types declared later are found as soon as they are."""

    def __init__(self, specs: Mapping[str, HandlerSpec], *, declared: Mapping[str, HandlerSpec] | None = None) -> None:
        self._specs = specs
        self._declared: Mapping[str, HandlerSpec] = {} if declared is None else declared
        self._entries: dict[str, _Entry] = {}

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if nobody registered it."""
        entry = self._entry(type_name)
        return None if entry is None else entry[1]

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if nobody registered it."""
        entry = self._entry(type_name)
        return None if entry is None else entry[2]

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return sorted({*self._specs, *self._declared})

    def _entry(self, type_name: str) -> _Entry | None:
        spec = self._specs.get(type_name) or self._declared.get(type_name)
        if spec is None:
            return None
        entry = self._entries.get(type_name)
        if entry is None or entry[0] is not spec:
            entry = self._entries[type_name] = (spec, spec.node_type(), SpecHandler(spec))
        return entry


def builtin_types(services: Services = NO_SERVICES) -> Registry:
    """The types that anabranch brings, and no others."""
    return Registry(builtin_specs(services))


def load_types(services: Services = NO_SERVICES) -> Registry:
    """The built-in types, those of installed packages, and those that imported modules declare, now or later.

    Without `services` the types that need some refuse to run, with a clear error.

    A package whose handlers cannot be imported is logged and left out: the others go on, and
    its nodes fail with a clear error.
    """
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        import_handlers(entry_point)
    return Registry(builtin_specs(services), declared=DECLARED)


def import_handlers(entry_point: EntryPoint) -> None:
    """Import an installed package's handlers, which declare themselves; log it if that is not possible."""
    try:
        entry_point.load()
    except Exception:
        logger.exception("node types of entry point %s (%s) are left out", entry_point.name, entry_point.value)
