"""Priorities of nodes: which jobs executors begin first.

Pure. `document` and the coded steps check what is written, the transport orders jobs by it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Priority: TypeAlias = Literal["normal", "high"]

NORMAL: Final = "normal"
"""The priority of nodes and steps that name none."""

HIGH: Final = "high"

PRIORITIES = (NORMAL, HIGH)
