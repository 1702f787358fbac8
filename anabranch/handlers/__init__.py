"""Node types: one file each, with its SPEC and its execute(); `registry` knows them all."""

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.declare import node_type
from anabranch.handlers.registry import builtin_types, load_types
from anabranch.handlers.services import Services
from anabranch.handlers.spec import NodeTypeRegistry

__all__ = ["HandlerResult", "Helpers", "NodeTypeRegistry", "Services", "builtin_types", "load_types", "node_type"]
