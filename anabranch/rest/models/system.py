"""The forms of what is said about the process and its node types. See `models`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from anabranch.rest.models.base import Answer


class NodeTypeSummary(Answer):
    """A node type."""

    name: str
    title: str
    configSchema: dict[str, Any]
    handles: list[str]


class NodeTypeList(Answer):
    """All node types."""

    items: list[NodeTypeSummary]
    nextCursor: None


class Alive(Answer):
    """This process answers."""

    status: Literal["ok"]


class Ready(Answer):
    """May work be sent here, and how each part is."""

    status: Literal["ok", "unavailable"]
