"""Models of runs: start, list, read, widgets."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, RootModel, WithJsonSchema

from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.graph.document import NODE_ID_LENGTH_MAX
from anabranch.engine.rules.history import ActivationStatus
from anabranch.rest.models.base import (
    LIMIT_DEFAULT,
    ROWS_LIMIT_MAX,
    DayOrInstant,
    Instant,
    Key,
    ListModel,
    OpenResponseModel,
    Page,
    Query,
    RequestModel,
    ResponseModel,
    Waiting,
)
from anabranch.rest.models.draft_models import PinModel
from anabranch.rest.models.workflow_models import GraphModel
from anabranch.run_requests import WHOLE_NUMBER_MAX

# 256 characters: a dozen loops inside each other. Two scopes and a node id fit into the 8 KB of a request's first line,
# percent-encoded, too: that makes twelve bytes of a character.
SCOPE_CHARACTERS_MAX = 256


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


AnyCaseStatus = Annotated[
    Status,
    BeforeValidator(_upper),
    WithJsonSchema({"type": "string", "enum": [*Status, *(status.lower() for status in Status)]}),
]
"""A status, in capitals or not."""


AnyCaseReason = Annotated[
    SuspendReason,
    BeforeValidator(_upper),
    WithJsonSchema({"type": "string", "enum": [*SuspendReason, *(reason.lower() for reason in SuspendReason)]}),
]
"""Why a run is suspended, in capitals or not."""


class RunPage(Page):
    """A page of runs."""

    status: list[AnyCaseStatus] = Field(default_factory=list, description="Only these; may be repeated.")
    reason: list[AnyCaseReason] = Field(
        default_factory=list, description="Only runs that are SUSPENDED for one of these; may be repeated."
    )
    since: DayOrInstant | None = Field(None, description="Created then or later; a date begins in UTC.")
    until: DayOrInstant | None = Field(None, description="Created before then; a date begins in UTC.")
    version: int | None = Field(None, ge=1, le=WHOLE_NUMBER_MAX, description="Only runs of this version.")
    rerunOf: str | None = Field(None, description="Only runs that repeat this one.")
    error: str | None = Field(
        None,
        alias="error~",
        min_length=1,
        max_length=255,
        description="Only runs that failed with this code, or with this text in the message.",
    )
    test: bool = Field(False, description="The test runs instead of the others.")


class ChildrenQuery(Query):
    """Whether this also applies to the runs below."""

    children: bool = Field(True, description="`false`: child runs that it awaits are not changed.")


class RunQuery(Waiting):
    """How one run is shown."""

    inline: bool = Field(True, description="`false` shows of an input or output over 64 kB its size.")


class Deletion(Query):
    """What to delete."""

    purge: bool = Field(
        False, description="Remove an ended run and its log, now. Needs the role `editor`; an open run is 409."
    )


class SeqPage(Page):
    """A page of rows in the order of `seq`."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=ROWS_LIMIT_MAX, description="How many items at most.")
    after: int = Field(0, ge=0, le=2**53, description="Only rows with a larger `seq`; with a cursor it is not needed.")


_INLINE = "`true` shows values over 64 kB, too; else `{truncated, bytes, values: [{path, sha256, bytes}]}`."


class LogQuery(SeqPage):
    """A page of a log."""

    payload: bool = Field(True, description="`false` leaves the payloads out.")
    inline: bool = Field(False, description=_INLINE)


NodeStatus = Annotated[ActivationStatus, BeforeValidator(_lower)]

_Scope = Annotated[str, Field(max_length=SCOPE_CHARACTERS_MAX)]
_NodeId = Annotated[str, Field(min_length=1, max_length=NODE_ID_LENGTH_MAX)]


class StepQuery(SeqPage):
    """A page of activations."""

    nodeID: _NodeId | None = Field(None, description="Only those of this node, or step.")
    scope: _Scope | None = Field(None, description="Only those in this scope; empty: outside of loops.")
    within: _Scope | None = Field(
        None, min_length=1, description="Only those in this scope or below: `each[3]`, or `each` for all iterations."
    )
    status: list[NodeStatus] = Field(default_factory=list, description="Only these; may be repeated.")
    outputs: bool = Field(True, description="`false` leaves the outputs out.")
    inline: bool = Field(False, description=_INLINE)


class IterationQuery(Page):
    """A page of the iterations of one loop."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=ROWS_LIMIT_MAX, description="How many items at most.")
    nodeID: _NodeId = Field(description="The loop.")
    scope: _Scope = Field("", description="The iteration that the loop is in; empty: none.")
    status: list[NodeStatus] = Field(default_factory=list, description="Only these; may be repeated.")


class WidgetQuery(Waiting):
    """The widget to shape a run's output for."""

    type: Literal["table", "chart", "metric", "text", "json"]
    config: str | None = Field(None, description="A JSON object: path, columns, x, series, format.")


class StartRun(RequestModel):
    """The body of a start."""

    input: Any = Field(default_factory=dict, description="Any JSON value of at most 1 MB.")
    version: int | None = Field(None, ge=1, le=WHOLE_NUMBER_MAX)
    idempotencyKey: Key | None = None
    retentionDays: int | None = Field(None, ge=1, le=WHOLE_NUMBER_MAX)
    availableAt: Instant | None = None
    deadlineAt: Instant | None = None


class Rerun(RequestModel):
    """The body of a rerun."""

    input: Any = Field(None, description="Instead of the run's own input.")
    version: int | None = Field(None, ge=1, le=WHOLE_NUMBER_MAX, description="Instead of the run's own version.")


class TestRunOrigin(RequestModel):
    """A run and one of its nodes that a test run continues from."""

    __test__ = False

    instanceID: str
    nodeID: str = Field(description="The outputs of the nodes before this one in that run are pinned.")
    scope: str | None = Field(
        None, description="The iteration whose outputs are taken; null: that of the node's first activation."
    )


class StartTestRun(GraphModel):
    """An unsaved graph, the input of its test run, and how this differs from a run of the graph."""

    input: Any = Field(
        default_factory=dict,
        description="Any JSON value of at most 1 MB; with `from` that of the other run, if it is not given.",
    )
    pins: dict[str, PinModel] | None = Field(
        None, description="Outputs by node id; these nodes are not executed, in no iteration."
    )
    until: str | None = Field(None, description="The id of a node: only it and what leads to it are run.")
    from_: TestRunOrigin | None = Field(
        None, alias="from", description="Pins what was before a node in another run; with `until` the same: it alone."
    )
    trigger: str | None = Field(
        None,
        description="The id of the trigger that it begins at, with `input` as its payload; without it the start, or the"
        " only entry point that there is; with `from` where the other run began.",
    )
    listen: bool | None = Field(
        None,
        description="Of a run that begins at a `webhook`: wait for a request in place of `input`, ten minutes at"
        " most, at the address that the node's `waitsFor` has as `url`.",
    )


class NoOptions(RequestModel):
    """Nothing: options of this call are in its path and query."""


class CancelRun(RequestModel):
    """Why a run is cancelled."""

    reason: str = Field("cancelled over REST", max_length=4_096)


class InScope(ResponseModel):
    """A node or step in one scope."""

    nodeID: str
    scope: str


class RunStateModel(ResponseModel):
    """A run and its status."""

    instanceID: str
    status: Status


class StartedRunModel(RunStateModel):
    """A run that was started; output and error only where its end was waited for, and null while it is open."""

    newest: RunStateModel | None = Field(None, description="Of a repeated key: the newest re-run of that first run.")

    output: Any = None
    error: Any = None


class StartedTestRun(ResponseModel):
    """A test run that was started; the further fields only where its end was waited for."""

    instanceID: str
    status: Status | None = None
    output: Any = None
    error: Any = None


class PausedBy(ResponseModel):
    """The pause that stops a run."""

    kind: Literal["workflow", "tenant"]
    by: str
    since: AwareDatetime


class RunSummary(ResponseModel):
    """A run in a list."""

    instanceID: str
    workflowID: str | None
    name: str
    version: int
    kind: Literal["drawn", "coded"]
    test: bool
    status: Status
    suspendedFor: SuspendReason | None = Field(None, description="Why it is SUSPENDED.")
    pausedBy: PausedBy | None = Field(None, description="Set while its workflow or its tenant is paused.")
    parentID: str | None
    rerunOf: str | None = Field(description="The run that this one repeats.")
    forkedFrom: str | None = Field(None, description="The run whose outcomes it began with.")
    startedBy: dict[str, Any] | None = Field(
        description="`{kind}` and who: a run, a schedule and its occurrence, a topic and its message, a key, or the"
        " command line; with the `idempotencyKey`, if one was given."
    )
    generation: int = Field(description="How often it was reopened by a retry.")
    worker: str | None = Field(None, description="The worker that owns it; null: none.")
    retentionDays: int
    createdAt: AwareDatetime
    availableAt: AwareDatetime
    deadlineAt: AwareDatetime | None
    startedAt: AwareDatetime | None
    completedAt: AwareDatetime | None


class RunFailure(ResponseModel):
    """Why a run failed."""

    code: str
    message: str
    nodeID: str


class ListedRun(RunSummary):
    """A run in a list, with its error if it failed."""

    error: RunFailure | None


class WaitsFor(ResponseModel):
    """What an activation waits for; of the further fields those that belong to the kind."""

    kind: Literal["timer", "signal", "child"]
    dueAt: AwareDatetime | None = Field(
        None, description="When the wait ends; null for a signal that is awaited without a limit."
    )
    event: str | None = Field(None, description="The signal.")
    match: Any = Field(None, description="What its payload must contain.")
    events: dict[str, Any] | None = Field(None, description="Any of these signals, each with its match.")
    childID: str | None = Field(None, description="The run.")
    url: str | None = Field(
        None, description="The one-time address that answers a `waitForWebhook`; for the role operator and above."
    )


class RunGraph(ResponseModel):
    """The graph that a run follows: as it was drawn, or as a coded run has traced it."""

    instanceID: str
    kind: Literal["drawn", "coded"]
    test: bool
    workflowID: str | None
    name: str
    version: int
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    title: str | None
    workflowOptions: dict[str, Any] | None
    notes: Any
    viewport: Any
    pins: dict[str, Any] = Field(description="Of a test run: the outputs that it took instead of executing nodes.")
    until: str | None = Field(description="Of a test run: the node that it ended with.")


class ProgressModel(ResponseModel):
    """The last progress that an attempt reported."""

    done: float
    total: float | None
    text: str
    at: AwareDatetime


class NodeState(InScope):
    """An activation of a node."""

    status: Literal["running", "waiting", "retrying", "success", "error", "skipped", "cancelled"]
    attempt: int
    startedAt: AwareDatetime | None
    endedAt: AwareDatetime | None
    pinned: bool | None = Field(None, description="True: it took the output that a test run pinned it to.")
    error: Any
    at: AwareDatetime = Field(description="When its latest event was written.")
    handles: list[str] | None = Field(description="Its live exits; null while it has not ended.")
    waitsFor: WaitsFor | None = Field(description="What it waits for, while it is waiting or retrying.")
    progress: ProgressModel | None = Field(None, description="The last progress that its attempt reported.")
    iterations: int | None = Field(
        None, description="Of a loop over a list: how many iterations there are in all, if known."
    )
    beganAt: str | None = Field(
        None, description="When its handler started, if it was queued or has executed for a second or more."
    )


class StepModel(NodeState):
    """An activation with its output, unless outputs were left out."""

    output: Any = None
    seq: int


class FirstError(ResponseModel):
    """The first failure of a node."""

    scope: str
    seq: int


class NodeTotals(ResponseModel):
    """Totals of a node's activations."""

    nodeID: str
    counts: dict[str, int] = Field(description="How many activations are in each status.")
    firstError: FirstError | None
    busyMs: int = Field(description="How long its attempts executed, together; what executes now is not counted yet.")


class LoopTotals(InScope):
    """Totals of a loop."""

    iterations: int
    failed: int


class Totals(RunStateModel):
    """The first screen of a run, however large it is."""

    seq: int = Field(description="As of this event.")
    nodes: list[NodeTotals]
    loops: list[LoopTotals] = Field(description="The first 1,000; loops in iterations are one for each.")
    loopsOmitted: bool


class Iteration(ResponseModel):
    """One iteration of a loop."""

    index: int
    scope: str
    status: NodeStatus
    startedAt: AwareDatetime | None
    endedAt: AwareDatetime | None
    activations: int
    error: Any


class IterationPage(ListModel[Iteration]):
    """A page of iterations, by index."""


class TracedNode(ResponseModel):
    """A step in the graph of a coded run, the start of its function, or a point where branches meet."""

    id: str
    nodeID: str
    scope: str
    type: str


class TracedEdge(ResponseModel):
    """An edge of that graph."""

    upstreamNodeID: str
    downstreamNodeID: str


class TracedGraph(ResponseModel):
    """The graph that a coded run has traced so far; its first 1,000 steps."""

    nodes: list[TracedNode]
    edges: list[TracedEdge]


class SuspendedModel(ResponseModel):
    """Why a run is suspended."""

    reason: SuspendReason
    message: str
    hint: str = Field(description="How to resume it.")
    since: AwareDatetime


class Run(RunSummary):
    """One run."""

    input: Any
    output: Any
    error: Any
    note: Any
    suspended: SuspendedModel | None = Field(None, description="Why it is SUSPENDED, and since when.")
    nodes: list[NodeState]
    graph: TracedGraph | None = Field(None, description="Of coded runs only.")


class LogEntry(ResponseModel):
    """An event of a run's log."""

    seq: int
    nodeID: str
    scope: str
    eventType: str
    nodeStatus: str | None
    nextHandle: str | None
    outputVariable: str | None
    nodeAttempt: int
    payload: Any = None
    errorMessage: str | None
    createdAt: AwareDatetime
    arguments: str | None = Field(
        None, description="Of the first row of a coded step: a hash of what it was called with, and its beginning."
    )


class RunHistory(ResponseModel):
    """A run with its definition: with its log, all that a replay needs."""

    run: RunSummary
    definition: dict[str, Any] = Field(description="The version that the run is pinned to; of coded runs its options.")


LogLevel = Literal["debug", "info", "warning", "error", "critical"]


class ConsoleQuery(Page):
    """A page of console lines of a run, or all of them as a stream."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=ROWS_LIMIT_MAX, description="How many items at most.")
    after: int = Field(
        0, ge=0, le=2**53, description="Only lines with a larger `number`; with a cursor it is not needed."
    )
    nodeID: str | None = Field(
        None, max_length=NODE_ID_LENGTH_MAX, description="Only those of this node or step; empty: of the function."
    )
    scope: _Scope | None = Field(None, description="Only those in this scope; empty: outside of loops.")
    level: Annotated[LogLevel, BeforeValidator(_lower)] | None = Field(None, description="Only this level or above.")
    follow: bool = Field(
        False,
        description="`true` answers with a line of JSON for each line, as they come, until the run has ended"
        " (`application/x-ndjson`).",
    )


class ConsoleLine(ResponseModel):
    """A console line of a run."""

    number: int = Field(description="Ascends with the lines of a run.")
    at: AwareDatetime
    level: LogLevel
    nodeID: str = Field(description="The node or step; empty: the workflow function.")
    scope: str
    attempt: int
    text: str


class ConsolePage(ListModel[ConsoleLine]):
    """A page of console lines of a run."""


class RunList(ListModel[ListedRun]):
    """A page of runs, newest first."""


class ValueQuery(RequestModel):
    """Whose value it is."""

    tenantID: str | None = Field(None, description="For the key of an executor of all tenants; else that of the key.")
    instanceID: str | None = Field(
        None, max_length=64, description="For the key of an executor: the run of its job, which refers to the value."
    )


class LargeValueModel(RootModel[Any]):
    """Any JSON."""


class LogPage(ListModel[LogEntry]):
    """A page of a log."""


class StepPage(ListModel[StepModel]):
    """A page of activations."""


class AsOf(RequestModel):
    """Which part of a run's state to return."""

    scope: str | None = Field(None, description="Only the activations and edges of this scope, and what it sees.")
    path: str | None = Field(None, min_length=1, description="The value of the context there, whole: `orders.0.total`.")


class ActivationInScope(RequestModel):
    """Which activation of a node is meant."""

    scope: str = Field("", description='The path of loop iterations, `each[3]`; "" at the root.')


class NodeAsOf(InScope):
    """An activation as of a row."""

    status: str
    attempt: int
    seq: int = Field(description="Its latest row.")
    handles: list[str] = Field(description="Its live exits, once it has ended.")


class EdgeAsOf(ResponseModel):
    """An edge as of a row."""

    edgeID: str = Field(description="The edge's id, or its JSON pointer in the definition.")
    scope: str
    verdict: Literal["open", "live", "dead"]


class RunAsOfModel(ResponseModel):
    """A run as of a row of its log."""

    instanceID: str
    seq: int
    lastSeq: int
    createdAt: AwareDatetime = Field(description="When that row was written.")
    status: Status
    nodes: list[NodeAsOf]
    nodesOmitted: int
    edges: list[EdgeAsOf]
    waits: list[dict[str, Any]]
    signalsKept: list[dict[str, Any]]
    ctx: Any = Field(
        description="The context that a node of the scope would see; values over 64 kB as `{truncated, bytes}`."
    )


class Why(ResponseModel):
    """Why a run is where it is."""

    instanceID: str
    status: str
    sentence: str = Field(description="The explanation as a sentence.")
    since: AwareDatetime | None
    waitsFor: list[dict[str, Any]]
    decidedBy: list[dict[str, Any]]
    omitted: bool = Field(description="True if there are more reasons than are listed.")


class WhyNode(Why):
    """Why a node has run, was skipped, or has not run yet."""

    nodeID: str
    scope: str
    edges: list[dict[str, Any]]


class Delivered(ResponseModel):
    """The result of a signal."""

    delivered: bool


class Widget(OpenResponseModel):
    """A run's output, shaped."""

    instanceID: str
    status: Status
