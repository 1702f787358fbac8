"""The forms of what is said about the process and its node types. See `models`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from anabranch.rest.models.base import Answer
from anabranch.service.access import Role


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


class Me(Answer):
    """Whose key this request came with."""

    keyID: str
    tenant: str
    role: Role


class AuditEntry(Answer):
    """A row of the audit trail."""

    position: int = Field(description="1, 2, 3… in the whole database; a tenant sees its own rows.")
    at: AwareDatetime
    tenant: str
    actor: str = Field(description="The id of a key, or `cli`; empty for nobody we know.")
    action: str
    target: str
    details: dict[str, Any]
    hash: str


class AuditPage(Answer):
    """A page of the audit trail, newest first."""

    items: list[AuditEntry]
    nextCursor: str | None
