"""Requests and answers about the repair of runs."""

# ruff: noqa: N815 -- the wire's names are camelCase

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, WithJsonSchema

from anabranch.engine.rules.duration import parse_duration
from anabranch.rest.models.base import Answer, Request
from anabranch.rest.models.run_forms import RunState


def _duration_ms(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("a duration is text with a unit, such as `30m` or `2h`")
    return parse_duration(value)


DurationMs = Annotated[int, BeforeValidator(_duration_ms), WithJsonSchema({"type": "string", "examples": ["2h"]})]
"""Milliseconds, written as a duration with its unit."""


class Retry(Request):
    """How a run is retried."""

    reason: str | None = Field(None, description="Kept in the log.")
    steps: Literal["cause", "failed"] = Field(
        "cause", description="Of a coded run: which failed steps are tried again, those it failed with or all."
    )
    newKeys: bool = Field(False, description="What is tried again gets another idempotency key.")
    detach: bool = Field(False, description="Go on although the parent does not wait any more; it is told nothing.")
    deadline: DurationMs | None = Field(None, description="The new deadline, from now; else as long as it was.")
    dryRun: bool = Field(False, description="Say what would happen, and do nothing.")


class Redone(Answer):
    """An activation that is tried again; of a workflow function the `nodeID` is empty."""

    nodeID: str
    scope: str
    attempt: int = Field(description="The next attempt.")


class RetriedChild(Answer):
    """A run below that goes on, too."""

    instanceID: str
    generation: int
    redo: list[Redone]


class Retried(RunState):
    """What goes on after a retry, or would."""

    generation: int = Field(description="How often the run was reopened, with this time.")
    redo: list[Redone]
    children: list[RetriedChild]
    deadlineAt: AwareDatetime | None
    warnings: list[str] = Field(description="What is executed again besides: its handler was told to stop.")
    dryRun: bool
