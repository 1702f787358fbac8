"""`schedule`: begins a run at the times of a cron expression, or in an interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.duration import format_duration
from anabranch.engine.rules.entry_points import SCHEDULE_TYPE
from anabranch.handlers.config_fields import Duration, x_ui
from anabranch.handlers.spec import Problem
from anabranch.handlers.types.triggers.trigger_spec import TriggerConfig, trigger_spec
from anabranch.triggers.schedules.occurrences import (
    CRON_CHARACTERS_MAX,
    EVERY_MS_MIN,
    BadTiming,
    Cron,
    check_timezone,
    next_after,
)


class ScheduleConfig(TriggerConfig):
    """When it is due."""

    cron: str | None = Field(
        None,
        max_length=CRON_CHARACTERS_MAX,
        description="A cron expression of five fields, or six with seconds in front.",
        json_schema_extra=x_ui(placeholder="0 8 * * 1-5"),
    )
    every: Duration | None = Field(
        None,
        ge=EVERY_MS_MIN,
        description="Instead of a cron expression: an interval, counted from the publication.",
        json_schema_extra=x_ui(widget="duration", placeholder="15m"),
    )
    timezone: str = Field("UTC", description="The time zone that the cron expression is read in.")
    missed: Literal["skip", "one", "all"] = Field(
        "one",
        description="Missed occurrences, while no process was running: start none, one for all, or each.",
    )
    input: Any = Field(
        None,
        description='The payload; without it `{"scheduledAt": …}`, the time that the run was due.',
        json_schema_extra=x_ui(advanced=True),
    )


def _problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    cron, zone = config.get("cron"), config.get("timezone", "UTC")
    if (cron is None) == (config.get("every") is None):
        yield "BAD_TIMING", "/cron", "give `cron` or `every`, and only that"
    if not isinstance(zone, str) or not isinstance(cron, str | None):
        return
    try:
        check_timezone(zone)
        if cron is not None and next_after(Cron(cron, zone), 0) is None:
            yield "BAD_CRON", "/cron", f"{cron!r} never comes"
    except BadTiming as problem:
        code = "BAD_CRON" if problem.field == "cron" else "BAD_TIMEZONE"
        yield code, f"/{problem.field}", str(problem)


SPEC = trigger_spec(
    SCHEDULE_TYPE,
    ScheduleConfig,
    title="Schedule",
    icon="clock",
    description=f"Starts a run at the times of a cron expression, or in an interval of {format_duration(EVERY_MS_MIN)}"
    " or more.",
    inspect=_problems,
)
