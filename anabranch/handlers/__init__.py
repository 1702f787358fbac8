"""Node types: one file each, with its SPEC and its execute(); `registry` knows them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deferred import exported_from

if TYPE_CHECKING:
    from anabranch.engine.handler_contract import HandlerResult, Helpers
    from anabranch.handlers.declare import node_type
    from anabranch.handlers.registry import builtin_types, load_types
    from anabranch.handlers.services import Services
    from anabranch.handlers.spec import NodeTypeRegistry
else:
    __getattr__ = exported_from(
        __name__,
        {
            "HandlerResult": "anabranch.engine.handler_contract",
            "Helpers": "anabranch.engine.handler_contract",
            "NodeTypeRegistry": "anabranch.handlers.spec",
            "Services": "anabranch.handlers.services",
            "builtin_types": "anabranch.handlers.registry",
            "load_types": "anabranch.handlers.registry",
            "node_type": "anabranch.handlers.declare",
        },
    )

__all__ = ["HandlerResult", "Helpers", "NodeTypeRegistry", "Services", "builtin_types", "load_types", "node_type"]
