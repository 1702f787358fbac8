"""Models of health, node types and the caller's key."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from anabranch.keys.access import Role
from anabranch.rest.models.base import OpenResponseModel, ResponseModel


class Handle(ResponseModel):
    """A handle of a node type."""

    id: str
    title: str
    kind: Literal["body", "error"] | None = Field(
        None, description="Absent: an ordinary exit. `body` leads into the body that the node is the frame of."
    )


class DynamicHandlesModel(ResponseModel):
    """Handles that a node's config lists."""

    items: str = Field(description="JSON pointer of the list, inside the config.")
    id: str = Field(description="The field of an item that is the handle's id.")
    before: str = Field(description="The handle that they stand before.")


class NodeTypeSummary(ResponseModel):
    """A node type, with all that an editor needs to draw it and its form."""

    name: str
    title: str
    category: str = Field(description="The group of the palette that it belongs to.")
    icon: str | None = Field(description="The name of an icon; null: show initials.")
    description: str
    docs: str | None = Field(description="The section of docs/nodes.md.")
    handles: list[Handle] = Field(description="Those of an empty config.")
    dynamicHandles: DynamicHandlesModel | None
    handlesComputed: bool = Field(description="The handles depend on the config; POST /v1/validate returns them.")
    configSchema: dict[str, Any] = Field(description="JSON Schema; `x-ui` has hints for forms.")
    sideEffects: Literal["none", "external", "unknown"]
    defaultTimeout: str | None
    container: str | None = Field(description="The handle that leads into the body which the node is the frame of.")
    mappable: bool = Field(description="May a node of the type have `forEach`?")


class TemplateFilter(ResponseModel):
    """A filter for templates: `{{ value | filter }}`."""

    name: str
    parameters: list[str] = Field(description="Its parameters after the value, in order.")


class NodeTypeList(ResponseModel):
    """All node types, the fields that every node has, and the filters of templates."""

    items: list[NodeTypeSummary]
    nextCursor: None
    nodeFields: dict[str, Any] = Field(description="JSON Schema of a node's own fields.")
    templateFilters: list[TemplateFilter]


class Liveness(ResponseModel):
    """This process answers."""

    status: Literal["ok"]


class ReadyPart(OpenResponseModel):
    """The state of a component of the process."""

    ok: bool
    reason: str | None = None


class Ready(ResponseModel):
    """Whether this process accepts work, and the state of each component."""

    status: Literal["ok", "unavailable"]
    intake: ReadyPart
    store: ReadyPart
    commits: ReadyPart
    sandbox: ReadyPart


class CurrentKey(ResponseModel):
    """The key of this request."""

    keyID: str
    tenant: str
    role: Role
