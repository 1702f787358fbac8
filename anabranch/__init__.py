"""anabranch: a workflow engine for work that must not get lost.

`import anabranch` is cheap: a public name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.engine.handling import HandlerResult, Helpers
    from anabranch.errors import NonRetryable
    from anabranch.handlers.declare import node_type

__all__ = ["HandlerResult", "Helpers", "NonRetryable", "node_type"]

_HOMES = {
    "HandlerResult": "anabranch.engine.handling",
    "Helpers": "anabranch.engine.handling",
    "NonRetryable": "anabranch.errors",
    "node_type": "anabranch.handlers.declare",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anabranch' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
