"""The node types that exist here: built-in ones, installed ones, and those declared by imported modules.

Called by the composition root, which hands the registry to the validator and the task worker.
"""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint, entry_points

from anabranch.handlers.builtin import BuiltinSpecs
from anabranch.handlers.declare import DECLARED
from anabranch.handlers.services import NO_SERVICES, Services
from anabranch.handlers.spec import NodeTypeRegistry

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "anabranch.handlers"


def builtin_types(services: Services = NO_SERVICES) -> NodeTypeRegistry:
    """The types that anabranch brings, and no others."""
    return NodeTypeRegistry(BuiltinSpecs(services))


def load_types(services: Services = NO_SERVICES) -> NodeTypeRegistry:
    """The built-in types, those of installed packages, and those that imported modules declare, now or later.

    Without `services`, types that need some refuse to run with a clear error.

    A package whose handlers cannot be imported is logged and left out, and its nodes fail with a clear error.
    """
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        import_handlers(entry_point)
    return NodeTypeRegistry(BuiltinSpecs(services), declared=DECLARED)


def import_handlers(entry_point: EntryPoint) -> None:
    """Import an installed package's handlers, which declare themselves; log it if that is not possible."""
    try:
        entry_point.load()
    except Exception:
        logger.exception("node types of entry point %s (%s) are left out", entry_point.name, entry_point.value)
