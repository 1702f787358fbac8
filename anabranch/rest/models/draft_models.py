"""Models of drafts and their pins."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field, RootModel

from anabranch.rest.models.base import ListModel, Page, Query, RequestModel, ResponseModel
from anabranch.rest.models.workflow_models import SavedWorkflow
from anabranch.run_requests import WHOLE_NUMBER_MAX


class DraftPage(Page):
    """A page of drafts."""

    workflow: str | None = Field(None, min_length=1, description="The draft of this workflow alone, by id or name.")


class PublishOptions(Query):
    """How a draft becomes a version."""

    activate: bool = Field(True, description="`false`: starts keep using the current active version.")


class SaveDraft(RequestModel):
    """The document of a draft as it is now; it may be an invalid workflow."""

    document: dict[str, Any] = Field(description="At most 4 MB; comes back as it was sent, byte for byte.")
    baseVersion: int | None = Field(
        None,
        ge=1,
        le=WHOLE_NUMBER_MAX,
        description="The version that the document was made from; on a change, null keeps what it was.",
    )


class NewDraft(SaveDraft):
    """A new draft: of a workflow, or of one that does not exist yet."""

    workflow: str | None = Field(None, min_length=1, description="Id or name; null: a new workflow.")


class PinModel(RequestModel):
    """The output of a node in test runs, without executing it."""

    output: Any = Field(description="Any JSON value of at most 1 MB.")
    handle: str | None = Field(None, description="The handle that it leaves by; null: its ordinary one.")


class PinsModel(RootModel[dict[str, PinModel]]):
    """Pins by node id."""


class DraftSummary(ResponseModel):
    """A draft without its document."""

    draftID: str
    workflow: str | None = Field(description="The workflow's id; null until the draft is published for the first time.")
    baseVersion: int | None = Field(description="The version that it was made from, or was published as last.")
    revision: int = Field(description="1, 2, 3…; the draft's ETag.")
    title: str | None = Field(description="The document's.")
    createdAt: AwareDatetime
    updatedAt: AwareDatetime
    updatedBy: str = Field(description="The id of a key.")


class DraftModel(DraftSummary):
    """A draft with its document, as it was sent."""

    document: dict[str, Any]


class DraftList(ListModel[DraftSummary]):
    """A page of drafts."""


class TestHookModel(ResponseModel):
    """The test address of a webhook of a draft."""

    __test__ = False

    nodeID: str
    url: str = Field(
        description="Stays the same for this draft and node. Anyone who has it can send the awaited request."
    )
    instanceID: str | None = Field(description="The newest test run that has waited for a request there.")


class PublishedDraft(SavedWorkflow):
    """The version that a draft was saved as, and the draft, whose base it is now."""

    draft: DraftSummary
