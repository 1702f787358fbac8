"""Models of requests and responses for retries, forks and bulk actions."""

# ruff: noqa: N815 -- the wire's names are camelCase

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, RootModel, WithJsonSchema

from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.repair.fork_plan import ExecutionReason
from anabranch.rest.models.base import RequestModel, ResponseModel
from anabranch.rest.models.run_models import InScope, RunStateModel
from anabranch.run_requests import WHOLE_NUMBER_MAX

DurationMs = Annotated[
    int,
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}], "examples": ["2h"]}),
]
"""A duration, in milliseconds."""


Effect = Literal["none", "first", "again"]


TimeText = Annotated[
    str, Field(max_length=64), WithJsonSchema({"type": "string", "examples": ["2030-01-31T08:00:00Z", "2030-01-31"]})
]
"""ISO 8601 with an offset, or a date."""


def _named(names: type[StrEnum]) -> BeforeValidator:
    """In bodies JSON types are not converted by themselves: a name in upper or lower case."""

    def member(value: object) -> object:
        if not isinstance(value, str):
            return value
        if value.upper() not in set(names):
            raise ValueError(f"it is one of {', '.join(names)}, not {value!r:.80}")
        return names(value.upper())

    return BeforeValidator(member)


StatusName = Annotated[Status, _named(Status)]
ReasonName = Annotated[SuspendReason, _named(SuspendReason)]


class Retry(RequestModel):
    """How a run is retried."""

    reason: str | None = Field(None, max_length=4_096, description="Kept in the log.")
    steps: Literal["cause", "failed"] = Field(
        "cause", description="For a coded run: which failed steps are executed again, the causes of its failure or all."
    )
    newKeys: bool = Field(False, description="Repeated nodes and steps get new idempotency keys.")
    detach: bool = Field(False, description="Continue although the parent no longer waits; it does not get the result.")
    deadline: DurationMs | None = Field(None, description="The new deadline, from now; by default as long as before.")
    dryRun: bool = Field(False, description="Show what would happen without doing it.")


class ScopedNode(RequestModel):
    """A node, in one scope or in all of them."""

    nodeID: str
    scope: str | None = None


class ForkAt(RequestModel):
    """Where a fork starts: after a row, or at a node or step that runs again."""

    seq: int | None = Field(None, ge=1)
    nodeID: str | None = None
    scope: str | None = Field(None, description="The scope of the node; without it, all of its activations.")


class Fork(RequestModel):
    """Which definition a fork follows, and what it reuses of the run."""

    at: ForkAt | None = Field(None, description="Without it, everything that has ended is reused.")
    version: int | None = Field(
        None, ge=1, le=WHOLE_NUMBER_MAX, description="A version of the workflow; by default that of the run."
    )
    graph: dict[str, Any] | None = Field(None, description="A definition that is not saved: the fork is a test run.")
    input: Any = Field(None, description="Instead of the run's own input.")
    renames: dict[str, str] = Field(default_factory=dict, description="Old ids of nodes by their new ones.")
    redo: list[ScopedNode] = Field(default_factory=list, description="These run again, too.")
    redoFailed: bool = Field(False, description="Failures that the graph handled are not reused.")
    signals: Literal["prefix", "none"] = Field(
        "prefix", description="Whether signals that no wait has consumed are copied."
    )
    ifPlan: str | None = Field(None, max_length=64, description="Start the fork only if its plan has this digest.")
    dryRun: bool = Field(False, description="Return the plan without starting anything.")


class Reused(InScope):
    """An activation whose outcome is reused."""

    seq: int = Field(description="The row of the outcome, in the log of the recorded run.")


class ForkRuns(InScope):
    """An activation that the fork executes first."""

    because: ExecutionReason
    effect: Effect = Field(description="Side effects: none, a first time, or repeated.")
    path: str | None = Field(None, description="Of INPUT_CHANGED: where, `/url` of the config or `ctx.NAME`.")
    before: Any = Field(None, description="What it was there; of a long value `{truncated, bytes}`.")
    after: Any = None


class Undecided(InScope):
    """An activation after those that run: their outcome decides whether it runs."""

    effect: Effect


class Dropped(InScope):
    """An activation of the recorded run that is not part of the fork."""

    because: Literal["NODE_REMOVED", "NOT_REACHED"]


class ForkSignals(ResponseModel):
    """Signals that no wait had consumed by then."""

    copied: int
    left: int


class ForkPlanModel(ResponseModel):
    """What a fork would reuse and run."""

    plan: str = Field(description="A digest; give it as `ifPlan`.")
    at: int
    version: int
    reuse: list[Reused]
    run: list[ForkRuns]
    undecided: list[Undecided]
    drop: list[Dropped]
    signals: ForkSignals
    secrets: list[str] = Field(description="Named by what is reused; their values may have changed since.")
    rows: int
    bytes: int
    warnings: list[str]
    agreement: Literal["same", "different", "unknown"] | None = Field(
        None, description="Of coded runs: does the function make the calls of the reused rows?"
    )
    redo: list[InScope] | None = Field(
        None,
        description="If it does not: the steps that have to run again, too, so that it does. Add them to the `redo` of"
        " the request.",
    )


class Forked(RunStateModel):
    """A fork that was started."""

    plan: str | None = Field(description="The digest of its plan; null: the key was used before, and this is its run.")


class ForkAnswer(RootModel[ForkPlanModel | Forked]):
    """The plan of a fork, or the run that was started with this key before."""


class BulkFilter(RequestModel):
    """Which runs to act on: those that meet every condition. At least one condition is required."""

    workflow: str | None = Field(None, description="Name or id.")
    status: list[StatusName] = Field(
        default_factory=list,
        description="In one of these; by default those that the action is for: a retry FAILED, a cancel or signal the"
        " open ones, a resume SUSPENDED, a re-run FAILED and CANCELLED.",
    )
    reason: list[ReasonName] = Field(default_factory=list, description="SUSPENDED for one of these.")
    since: TimeText | None = Field(None, description="Created at this time or later; a date starts at midnight UTC.")
    until: TimeText | None = Field(None, description="Created before this time; a date starts at midnight UTC.")
    version: int | None = Field(None, ge=1, le=WHOLE_NUMBER_MAX)
    rerunOf: str | None = None
    error: str | None = Field(
        None, min_length=1, max_length=255, description="Failed with this code, or with this text in the message."
    )
    input: dict[str, str | int | float | bool | None] = Field(
        default_factory=dict,
        description="Values in the input by their paths, `order.id`: a text is read as JSON or as text, a number,"
        " boolean or null finds only itself.",
    )


class Bulk(RequestModel):
    """An action on many runs."""

    action: Literal["retry", "cancel", "rerun", "resume", "signal"]
    filter: BulkFilter
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Of a retry `reason`, `steps`, `newKeys`; of a cancel `reason`; of a re-run `version`; of a signal"
        " `event` and `payload`.",
    )
    dryRun: bool = Field(False, description="Check the runs without changing them.")


class StartedBulk(ResponseModel):
    """A bulk run that was started."""

    bulkID: str
    status: Status


class BulkRefusal(ResponseModel):
    """A run that was refused."""

    instanceID: str
    code: str


class BulkProgress(ResponseModel):
    """How far a bulk run is. It is a run itself: cancelling it stops it after its page of 100 runs."""

    bulkID: str
    action: str
    status: Status
    dryRun: bool
    total: int | None = Field(description="How many runs were selected; null until then.")
    done: int
    underWay: int = Field(
        description="How many runs the page has that is not counted yet. If the bulk run was cancelled or has failed, "
        "as many may have been acted on."
    )
    succeeded: int
    counts: dict[str, int] = Field(description="Runs by outcome: `DONE`, or the code of the refusal.")
    refused: list[BulkRefusal] = Field(description="The first 20 of each code.")
    error: Any = None


class RedoneModel(InScope):
    """An activation that is executed again; for a workflow function the `nodeID` is empty."""

    attempt: int = Field(description="The next attempt.")


class RetriedChild(ResponseModel):
    """A child run that continues, too."""

    instanceID: str
    generation: int
    redo: list[RedoneModel]


class Retried(RunStateModel):
    """What continues after a retry, or would."""

    generation: int = Field(description="How often the run was reopened, with this time.")
    redo: list[RedoneModel]
    children: list[RetriedChild]
    deadlineAt: AwareDatetime | None
    warnings: list[str] = Field(
        description="Handlers that were asked to stop and are executed again, and children that stay as they ended."
    )
    dryRun: bool
