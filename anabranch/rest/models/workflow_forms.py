"""The forms of definitions: what is saved, and how it is listed and read. See `models`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from anabranch.engine.rules.graph.document import TITLE_LENGTH_MAX
from anabranch.rest.models.base import Answer, Page, Query


class WorkflowPage(Page):
    """A page of workflows."""

    include: Literal["graph"] | None = Field(None, description="`graph`: with nodes, edges and options.")


class VersionPage(Page):
    """A page of versions."""

    include: Literal["runCounts"] | None = Field(
        None, description="`runCounts`: with the number of runs in each status; looks at every run of the workflow."
    )


class OfVersion(Query):
    """Which version is meant."""

    version: int | None = Field(None, ge=1, le=2**31 - 1, description="The newest if not given.")


class Forced(Query):
    """Whether open runs stand in the way."""

    force: bool = Field(False, description="Cancel the open runs first.")


class Saving(Query):
    """How a document changes the newest version."""

    replace: bool = Field(
        False, description="The document is the whole of the workflow: a top-level field that it leaves out is removed."
    )


class DrawnNode(BaseModel):
    """A node of a drawn workflow; docs/node-types.md has the configs."""

    id: str
    type: str
    name: str | None = None
    config: dict[str, Any] | None = None
    outputVariable: str | None = None
    joinMode: Literal["all", "any"] = "all"
    errorHandling: Literal["continue", "ignore", "fail_workflow"] = "continue"
    retry: dict[str, Any] | None = None
    timeout: str | int | None = None
    position: dict[str, Any] | None = None


class DrawnEdge(BaseModel):
    """A connection between two nodes."""

    upstreamNodeID: str
    downstreamNodeID: str
    id: str | None = None
    sourceHandle: str | None = None


class Graph(BaseModel):
    """Nodes and edges."""

    nodes: Annotated[list[DrawnNode], Field(min_length=1, max_length=2_000)]
    edges: Annotated[list[DrawnEdge], Field(max_length=10_000)] | None = None
    workflowOptions: dict[str, Any] | None = None


class DrawnWorkflow(Graph):
    """A drawn workflow as it is saved; fields of other tools begin with `x-`."""

    model_config = ConfigDict(extra="allow")

    title: str | None = Field(None, max_length=TITLE_LENGTH_MAX)
    name: str | None = Field(None, pattern="^[a-z0-9][a-z0-9_-]{0,63}$")


class ChangedWorkflow(DrawnWorkflow):
    """The fields of a drawn workflow that are to change; null removes one."""

    nodes: Annotated[list[DrawnNode], Field(min_length=1, max_length=2_000)] | None = None  # type: ignore[assignment]


class WorkflowDocument(Answer):
    """A drawn workflow as it was saved, with its name."""

    name: str
    nodes: list[dict[str, Any]]


class Problem(Answer):
    """One problem of a drawn workflow."""

    code: str
    message: str


class SavedWorkflow(Answer):
    """A workflow that was saved."""

    workflowID: str
    name: str
    version: int
    warnings: list[Problem]
    terminates: bool
    unbounded: list[str]
    activationsMax: int | None


class WorkflowSummary(Answer):
    """A workflow in a list."""

    workflowID: str
    name: str
    title: str | None
    kind: Literal["drawn", "coded"]
    version: int
    runCounts: dict[str, int]
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class Workflow(WorkflowSummary):
    """One workflow with its graph."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    workflowOptions: dict[str, Any] | None


class WorkflowVersionSummary(Answer):
    """One version of a workflow in a list."""

    workflowID: str
    name: str
    title: str | None
    kind: Literal["drawn", "coded"]
    version: int
    createdAt: AwareDatetime
    runCounts: dict[str, int] | None = Field(None, description="Only where it is asked for.")


class WorkflowList(Answer):
    """A page of workflows."""

    items: list[WorkflowSummary]
    nextCursor: str | None


class VersionList(Answer):
    """A page of versions, newest first."""

    items: list[WorkflowVersionSummary]
    nextCursor: str | None


class Verdict(Answer):
    """What the validator says of a graph."""

    valid: bool
    errors: list[Problem]
    warnings: list[Problem]
    terminates: bool
    unbounded: list[str]
    activationsMax: int | None
