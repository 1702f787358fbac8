"""Models of workflow definitions: save, list, read, validate."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from anabranch.engine.rules.graph.document import PASSES_MAX, TITLE_LENGTH_MAX
from anabranch.engine.rules.graph.pools import POOL_NAME_PATTERN
from anabranch.rest.models.base import ListModel, OpenResponseModel, Page, Query, RequestModel, ResponseModel
from anabranch.run_requests import WHOLE_NUMBER_MAX


class WorkflowPage(Page):
    """A page of workflows."""

    include: Literal["graph"] | None = Field(None, description="`graph`: with nodes, edges and options.")
    counts: Literal["all", "24h"] = Field(
        "all", description="`24h`: of ended runs `runCounts` has only those that ended in the last 24 hours."
    )


class VersionPage(Page):
    """A page of versions."""

    include: Literal["runCounts"] | None = Field(
        None, description="`runCounts`: with the number of runs in each status; looks at every run of the workflow."
    )


class VersionQuery(Query):
    """The version to read."""

    version: int | None = Field(None, ge=1, le=2**31 - 1, description="The newest if not given.")


class DeletionQuery(Query):
    """Whether to delete although runs are open."""

    force: bool = Field(False, description="Cancel the open runs first.")


class SaveQuery(Query):
    """How a document changes the newest version."""

    replace: bool = Field(
        False, description="The document replaces the workflow: top-level fields that it leaves out are removed."
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
    heartbeatTimeout: str | int | None = None
    pool: str | None = Field(None, pattern=f"^{POOL_NAME_PATTERN}$", description="The workers that execute it.")
    priority: Literal["normal", "high"] | None = Field(
        None, description="`high`: executors begin it before jobs without a priority."
    )
    maxPasses: int | None = Field(
        None, ge=1, le=PASSES_MAX, description="Of a node that an edge leads back to: how often the loop runs at most."
    )
    position: dict[str, Any] | None = None
    disabled: bool | None = Field(None, description="Complete at once, unexecuted, with null. Not of `start`.")


class DrawnEdge(BaseModel):
    """A connection between two nodes."""

    upstreamNodeID: str
    downstreamNodeID: str
    id: str | None = None
    sourceHandle: str | None = None


class GraphModel(BaseModel):
    """Nodes and edges."""

    nodes: Annotated[list[DrawnNode], Field(min_length=1, max_length=2_000)]
    edges: Annotated[list[DrawnEdge], Field(max_length=10_000)] | None = None
    workflowOptions: dict[str, Any] | None = None


class DrawnWorkflow(GraphModel):
    """A drawn workflow as it is saved; fields of other tools begin with `x-`."""

    model_config = ConfigDict(extra="allow")

    title: str | None = Field(None, max_length=TITLE_LENGTH_MAX)
    name: str | None = Field(None, pattern="^[a-z0-9][a-z0-9_-]{0,63}$")
    activate: bool | None = Field(
        None, description="False: starts keep using the version that was active before. Not stored."
    )


class ChangedWorkflow(DrawnWorkflow):
    """The fields of a drawn workflow that are to change; null removes one."""

    nodes: Annotated[list[DrawnNode], Field(min_length=1, max_length=2_000)] | None = None  # type: ignore[assignment]


class WorkflowDocument(OpenResponseModel):
    """A drawn workflow as it was saved, with its name."""

    name: str
    nodes: list[dict[str, Any]]


class TextRange(ResponseModel):
    """A place in a text of several lines, from 1."""

    line: int
    column: int


class PatchOperation(ResponseModel):
    """One operation of a JSON patch (RFC 6902)."""

    op: Literal["add", "remove", "replace", "move"]
    path: str
    from_: str | None = Field(None, alias="from")
    value: Any = None


class Fix(ResponseModel):
    """A change of the document that fixes a problem."""

    title: str
    patch: list[PatchOperation]


class ProblemModel(ResponseModel):
    """One problem of a drawn workflow; what is not known is left out."""

    code: str = Field(description="Stable; docs/errors.md lists them.")
    level: Literal["info"] | None = Field(None, description="`info`: a warning about what is often meant so.")
    message: str
    nodeID: str | None = None
    edgeID: str | None = None
    pointer: str | None = Field(None, description="JSON pointer into the document.")
    hint: str | None = None
    range: TextRange | None = Field(None, description="For code: the position in the text at `pointer`.")
    fixes: list[Fix] | None = Field(None, description="Only if requested with `with`.")


class Paused(ResponseModel):
    """Who paused it, and when."""

    by: str = Field(description="The id of a key, or `cli`.")
    since: AwareDatetime


class TenantPause(ResponseModel):
    """Whether all runs of the tenant are paused."""

    paused: Paused | None = Field(description="Null: it does not.")


class WorkflowPause(TenantPause):
    """Whether the runs of a workflow are paused."""

    workflowID: str
    name: str


class ActivationModel(RequestModel):
    """Which version starts take."""

    version: int = Field(ge=1, le=WHOLE_NUMBER_MAX)


class ActiveVersion(ResponseModel):
    """The version of a workflow that starts take."""

    workflowID: str
    name: str
    activeVersion: int


class SavedWorkflow(ResponseModel):
    """A workflow that was saved."""

    workflowID: str
    name: str
    version: int
    activeVersion: int = Field(description="The version that starts take unless they name one.")
    warnings: list[ProblemModel]
    terminates: bool
    unbounded: list[str]
    activationsMax: int | None


class WorkflowSummary(OpenResponseModel):
    """A workflow in a list; with `include=graph` also its graph, and the fields of other tools."""

    workflowID: str
    name: str
    title: str | None
    kind: Literal["drawn", "coded"]
    version: int
    activeVersion: int = Field(description="The version that starts take unless they name one.")
    paused: Paused | None = Field(description="Set while its runs are paused.")
    runCounts: dict[str, int]
    createdAt: AwareDatetime
    updatedAt: AwareDatetime
    nodes: list[dict[str, Any]] | None = None
    edges: list[dict[str, Any]] | None = None
    workflowOptions: dict[str, Any] | None = None


class WorkflowModel(WorkflowSummary):
    """One workflow with its graph."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class WorkflowVersionSummary(ResponseModel):
    """One version of a workflow in a list."""

    workflowID: str
    name: str
    title: str | None
    kind: Literal["drawn", "coded"]
    version: int
    active: bool = Field(description="Whether it is the active version, which starts use by default.")
    createdAt: AwareDatetime
    runCounts: dict[str, int] | None = Field(None, description="Only if requested.")


class WorkflowList(ListModel[WorkflowSummary]):
    """A page of workflows."""


class VersionList(ListModel[WorkflowVersionSummary]):
    """A page of versions, newest first."""


Aspect: TypeAlias = Literal["handles", "variables", "references", "structure"]


class Aspects(RequestModel):
    """What to return beside the problems."""

    with_: list[Aspect] | None = Field(None, alias="with")


class ValidateDraft(Aspects):
    """The document of a draft to check, by its revision."""

    draftID: str = Field(min_length=1)
    revision: int = Field(ge=1, le=WHOLE_NUMBER_MAX)


class Validate(BaseModel):
    """A drawn workflow to check, valid or not; or `draftID` and `revision` of a draft."""

    model_config = ConfigDict(extra="allow")

    nodes: Any = None
    edges: Any = None
    workflowOptions: Any = None
    draftID: str | None = Field(None, description="Instead of a document: the id of a draft.")
    revision: int | None = Field(None, description="Of that draft; another one is 412.")
    with_: list[Aspect] | None = Field(
        None, alias="with", description="What to return beside the problems; an empty list: only fixes."
    )


class Variable(ResponseModel):
    """A name that a node can read in its context."""

    certain: Literal["always", "maybe"] = Field(
        description="`always`: every path to the node passes a node that writes it."
    )
    writers: list[str] = Field(description="Nodes that may have written it; empty for variables of the engine.")
    schema_: dict[str, Any] = Field(alias="schema", description="JSON Schema of its value, as far as that is known.")


class ContextReferenceModel(ResponseModel):
    """A reference to a name of the context in a template."""

    pointer: str = Field(description="JSON pointer inside the node.")
    start: int = Field(description="Where the name starts in that text, in UTF-16 units as in JavaScript.")
    end: int
    path: list[str] = Field(description="The name and what is read of it, as far as it is written out.")


class NodeAnalysis(ResponseModel):
    """The requested analysis of a node."""

    handles: list[str] | None = None
    variables: dict[str, Variable] | None = None
    iteration: dict[str, Variable] | None = Field(None, description="Of a loop: what its `while` and `yield` can read.")
    references: list[ContextReferenceModel] | None = None


class RegionModel(ResponseModel):
    """A natural loop."""

    header: str
    members: list[str]
    again: list[str]
    exits: list[str]


class GraphStructure(ResponseModel):
    """The structure of the graph; edges are named by JSON pointer."""

    homes: dict[str, str] = Field(description="Node → the loop whose body it is directly in; none at the root.")
    regions: list[RegionModel]
    returning: list[str]
    unreachable: list[str]
    neverLive: list[str]


class VerdictModel(ResponseModel):
    """The result of a validation; the last two fields only if requested in `with`."""

    valid: bool
    errors: list[ProblemModel]
    warnings: list[ProblemModel]
    terminates: bool
    unbounded: list[str]
    activationsMax: int | None
    nodes: dict[str, NodeAnalysis] | None = None
    structure: GraphStructure | None = None
