"""The forms of schedules, subscriptions and messages. See `models`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from anabranch.rest.models.base import Answer, DayOrInstant, Form, Name, Request


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


class Trigger(Request):
    """No options: what a run is started with is the schedule's."""


class Backfill(Request):
    """A range of time whose occurrences are to have runs."""

    since: DayOrInstant = Field(alias="from", description="From then on; a date begins in UTC.")
    until: DayOrInstant = Field(alias="to", description="Up to then, and not at it; at the latest now.")


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


class BackfilledRun(Answer):
    """The run of an occurrence."""

    occurrenceAt: AwareDatetime
    instanceID: str
    created: bool = Field(description="False: the occurrence had this run already.")


class BackfilledRuns(Answer):
    """The occurrences of the range, in their order, with their runs."""

    items: list[BackfilledRun]


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
