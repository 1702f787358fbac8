"""The forms of requests and answers, as pydantic models: requests are checked by them, answers described.

Names are the wire's (camelCase), as the documents are: an attribute is the field it stands for. The
forms of answers are open: a client must expect fields that it does not know.
"""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.instants import from_iso
from anabranch.service.access import Role

LIMIT_DEFAULT = 50
LIMIT_MAX = 100


def _instant(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("a time is text in ISO 8601 with an offset")
    try:
        return from_iso(value)
    except (ValueError, OverflowError):
        raise ValueError("a time is ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00") from None


def _query_instant(value: Any) -> int:
    # In a query `+` is a space: whoever forgot to write %2B means the offset all the same.
    return _instant(value.replace(" ", "+") if isinstance(value, str) else value)


_DATE_TIME = {"type": "string", "format": "date-time"}
Instant = Annotated[int, BeforeValidator(_instant), WithJsonSchema(_DATE_TIME)]
QueryInstant = Annotated[int, BeforeValidator(_query_instant), WithJsonSchema(_DATE_TIME)]
"""Milliseconds since the epoch, written as ISO 8601 with an offset."""

Key = Annotated[str, Field(min_length=1, max_length=255)]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Counts = dict[str, int]


class Request(BaseModel):
    """Base of what is sent to us: JSON kinds are not converted, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """Base of query parameters, which are text."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """Base of what we send."""

    model_config = ConfigDict(extra="allow")


# -- queries ------------------------------------------------------------------------------
class Page(Query):
    """Where a page begins, and how long it is."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="How many items at most.")
    cursor: str | None = Field(None, min_length=1, description="nextCursor of the page before.")


class SeqPage(Page):
    """A page of what ascends by `seq`."""

    after: int = Field(0, ge=0, le=2**53, description="Only what has a larger `seq`; a cursor says it by itself.")


class WorkflowPage(Page):
    """A page of workflows."""

    include: Literal["graph"] | None = Field(None, description="`graph`: with nodes, edges and options.")


class OfVersion(Query):
    """Which version is meant."""

    version: int | None = Field(None, ge=1, le=2**31 - 1, description="The newest if not given.")


class Forced(Query):
    """Whether open runs stand in the way."""

    force: bool = Field(False, description="Cancel the open runs first.")


class RunPage(Page):
    """A page of runs."""

    status: list[Status] = Field(default_factory=list, description="Only these; may be repeated.")
    since: QueryInstant | None = Field(None, description="Created then or later.")
    until: QueryInstant | None = Field(None, description="Created before then.")
    test: bool = Field(False, description="The test runs instead of the others.")


class WidgetQuery(Query):
    """How a run's output is to be shaped."""

    type: Literal["table", "chart", "metric", "text", "json"]
    config: str | None = Field(None, description="A JSON object: path, columns, x, series, format.")


# -- workflows ----------------------------------------------------------------------------
class Form(BaseModel):
    """Base of documents that the service checks by itself: it refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid")


class AnyDocument(BaseModel):
    """Any JSON object: whatever is wrong with it is the answer."""


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
    runCounts: Counts
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


# -- runs ---------------------------------------------------------------------------------
class StartRun(Request):
    """What a run is started with."""

    input: Any = Field(default_factory=dict, description="Any JSON value of at most 1 MB.")
    version: int | None = Field(None, ge=1, le=2**31 - 1)
    idempotencyKey: Key | None = None
    retentionDays: int | None = Field(None, ge=1, le=3_650)
    availableAt: Instant | None = None
    deadlineAt: Instant | None = None


class StartTestRun(Graph):
    """An unsaved graph and the input of its test run."""

    input: Any = Field(default_factory=dict, description="Any JSON value of at most 1 MB.")


class CancelRun(Request):
    """Why a run is cancelled."""

    reason: str = Field("cancelled over REST", max_length=4_096)


class StartedRun(Answer):
    """A run that was started."""

    instanceID: str
    status: Status


class StartedTestRun(Answer):
    """A test run that was started."""

    instanceID: str


class RunSummary(Answer):
    """A run in a list."""

    instanceID: str
    workflowID: str | None
    name: str
    version: int
    kind: Literal["drawn", "coded"]
    test: bool
    status: Status
    parentID: str | None
    retentionDays: int
    createdAt: AwareDatetime
    availableAt: AwareDatetime
    deadlineAt: AwareDatetime | None
    startedAt: AwareDatetime | None
    completedAt: AwareDatetime | None


class NodeState(Answer):
    """An activation of a node."""

    nodeID: str
    scope: str
    status: Literal["running", "waiting", "retrying", "success", "error", "skipped", "cancelled"]
    attempt: int
    startedAt: AwareDatetime | None
    endedAt: AwareDatetime | None
    error: Any


class Step(NodeState):
    """An activation with its output."""

    output: Any
    seq: int


class TracedNode(Answer):
    """A step in the graph of a coded run, or where the body began, or where branches met."""

    id: str
    nodeID: str
    scope: str
    type: str


class TracedEdge(Answer):
    """What followed from what."""

    upstreamNodeID: str
    downstreamNodeID: str


class TracedGraph(Answer):
    """The graph that a coded run has traced so far; its first 1,000 steps."""

    nodes: list[TracedNode]
    edges: list[TracedEdge]


class Run(RunSummary):
    """One run."""

    input: Any
    output: Any
    error: Any
    note: Any
    nodes: list[NodeState]
    graph: TracedGraph | None = Field(None, description="Of coded runs only.")


class LogEntry(Answer):
    """An event of a run's log."""

    seq: int
    nodeID: str
    scope: str
    eventType: str
    nodeStatus: str | None
    nextHandle: str | None
    outputVariable: str | None
    nodeAttempt: int
    payload: Any
    errorMessage: str | None
    createdAt: AwareDatetime


class RunList(Answer):
    """A page of runs, newest first."""

    items: list[RunSummary]
    nextCursor: str | None


class LogPage(Answer):
    """A page of a log."""

    items: list[LogEntry]
    nextCursor: str | None


class StepPage(Answer):
    """A page of activations."""

    items: list[Step]
    nextCursor: str | None


class Delivered(Answer):
    """What became of a signal."""

    delivered: bool


class Widget(Answer):
    """A run's output, shaped."""

    instanceID: str
    status: Status


# -- data sources, queries, secrets, keys ----------------------------------------------------
class SourceForm(Form):
    """A data source as it is saved."""

    name: Name
    url: str = Field(min_length=1, description="sqlite:///path, postgresql://… or mysql://…")


class QueryForm(Form):
    """A saved query as it is saved; docs/data-queries.md explains the fields."""

    name: Name
    dataSourceID: str = Field(min_length=1, description="Id or name.")
    sql: str = Field(min_length=1)
    params: dict[str, Any] | None = None
    writes: bool = False
    timeout: str | int | None = None


class SecretForm(Request):
    """A secret as it is set."""

    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    value: str = Field(min_length=1, max_length=65_536)


class KeyForm(Request):
    """A key as it is made; it belongs to the tenant of who makes it."""

    role: Annotated[Role, Field(strict=False)]


class SourceSummary(Answer):
    """A data source; its URL never comes back."""

    dataSourceID: str
    name: str
    kind: str
    address: str
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class QuerySummary(Answer):
    """A saved query."""

    dataQueryID: str
    name: str
    dataSourceID: str
    sql: str
    params: dict[str, Any]
    writes: bool
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SecretSummary(Answer):
    """What may be known of a secret."""

    name: str
    version: int
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class KeySummary(Answer):
    """What may be known of a key."""

    keyID: str
    tenant: str
    role: Role
    createdAt: AwareDatetime


class MadeKey(Answer):
    """A key that was made. It is shown this once."""

    key: str
    keyID: str
    tenant: str
    role: Role


class SourceList(Answer):
    """All data sources of the tenant."""

    items: list[SourceSummary]
    nextCursor: str | None


class QueryList(Answer):
    """All saved queries of the tenant."""

    items: list[QuerySummary]
    nextCursor: str | None


class SecretList(Answer):
    """All secrets of the tenant."""

    items: list[SecretSummary]
    nextCursor: str | None


class KeyList(Answer):
    """All keys of the tenant."""

    items: list[KeySummary]
    nextCursor: str | None


# -- what starts runs by itself ---------------------------------------------------------------
class ScheduleForm(Form):
    """A schedule as it is saved: `cron` or `every`."""

    name: Name
    workflow: str = Field(min_length=1, description="Id or name.")
    kind: Literal["cron", "interval"] | None = Field(None, description="Follows from `cron` or `every`.")
    cron: str | None = Field(None, description="Five fields: minute, hour, day, month, weekday.")
    timezone: str | None = Field(None, description="IANA name, for `cron`; UTC if not given.")
    every: str | int | None = Field(None, description="A duration of at least 1 s.")
    version: int | None = None
    input: Any = None
    missed: Literal["skip", "one", "all"] | None = None
    enabled: bool | None = None


class SubscriptionForm(Form):
    """What messages on a topic start."""

    type: Literal["workflow"]
    name: str = Field(min_length=1, description="Id or name of the workflow.")


class ScheduleSummary(Answer):
    """A schedule."""

    scheduleID: str
    name: str
    workflow: str
    kind: Literal["cron", "interval"]
    enabled: bool
    nextAt: AwareDatetime | None
    lastAt: AwareDatetime | None
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SubscriptionSummary(Answer):
    """A subscription."""

    subscriptionID: str
    pattern: str
    type: Literal["workflow"]
    name: str
    createdAt: AwareDatetime


class PublishedMessage(Answer):
    """What a message has started."""

    messageID: str
    runs: list[str]


class ScheduleList(Answer):
    """All schedules of the tenant."""

    items: list[ScheduleSummary]
    nextCursor: str | None


class SubscriptionList(Answer):
    """Subscriptions of the tenant."""

    items: list[SubscriptionSummary]
    nextCursor: str | None


# -- the process ----------------------------------------------------------------------------
class Alive(Answer):
    """This process answers."""

    status: Literal["ok"]


class Ready(Answer):
    """May work be sent here, and how each part is."""

    status: Literal["ok", "unavailable"]
