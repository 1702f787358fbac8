"""The forms of definitions: what is saved, and how it is listed and read. See `models`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from anabranch.rest.models import Answer, Page, Query


class WorkflowPage(Page):
    """A page of workflows."""

    include: Literal["graph"] | None = Field(None, description="`graph`: with nodes, edges and options.")


class OfVersion(Query):
    """Which version is meant."""

    version: int | None = Field(None, ge=1, le=2**31 - 1, description="The newest if not given.")


class Forced(Query):
    """Whether open runs stand in the way."""

    force: bool = Field(False, description="Cancel the open runs first.")


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
    """A drawn workflow as it is saved."""

    title: str | None = None
    name: str | None = Field(None, pattern="^[a-z0-9][a-z0-9_-]{0,63}$")


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
