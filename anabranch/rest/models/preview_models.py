"""Models of template previews."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from anabranch.rest.models.base import RequestModel, ResponseModel
from anabranch.rest.models.draft_models import PinModel
from anabranch.service.preview import ITEMS_MAX


class PreviewItem(RequestModel):
    """A template with an id for its result."""

    id: str = Field(max_length=255)
    template: str


class PreviewNode(RequestModel):
    """A node of a run."""

    instanceID: str
    nodeID: str = Field(
        description="The context is the one that the node saw; for a node that was not reached, the current one."
    )
    scope: str | None = Field(None, description="The iteration; null: that of the node's first activation.")


class PreviewRequest(RequestModel):
    """Templates, and the context that they are evaluated in: `ctx`, or `at` a node of a run, or none."""

    items: list[PreviewItem] = Field(max_length=ITEMS_MAX)
    ctx: dict[str, Any] | None = None
    at: PreviewNode | None = None
    pins: dict[str, PinModel] | None = Field(
        None, description="Outputs by node id; they take precedence over the context."
    )

    @model_validator(mode="after")
    def _one_context(self) -> PreviewRequest:
        if self.ctx is not None and self.at is not None:
            raise ValueError("give either ctx or at")
        return self


class PreviewError(ResponseModel):
    """Why a template has no value."""

    code: str
    message: str
    start: int = Field(
        description="Where the invalid expression starts in the template, in UTF-16 units as in JavaScript."
    )
    end: int


class PreviewedItem(ResponseModel):
    """The result of a template: `value` and `bytes`, or `error`."""

    id: str
    value: Any = Field(None, description='Over 64 kB: `{"truncated": true, "bytes": n}`.')
    bytes: int | None = None
    error: PreviewError | None = None


class PreviewAnswer(ResponseModel):
    """The items, in the order in which they were sent."""

    items: list[PreviewedItem]
