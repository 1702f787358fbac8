"""Schedules as people write them: a document read with its defaults, or everything that is wrong with it.

Pure. Called by `schedule_service`. A new field of schedules is added here, and in `docs/triggers.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.duration import format_duration, parse_duration
from anabranch.engine.rules.instants import to_iso, to_iso_or_none
from anabranch.engine.rules.values import checked_payload
from anabranch.errors import InvalidInput
from anabranch.run_requests import StartedRun
from anabranch.service.documents import Problem, check_fields, check_name
from anabranch.triggers.schedules.occurrences import (
    EVERY_MS_MIN,
    BadTiming,
    Cron,
    MissedPolicy,
    check_timezone,
    next_after,
)
from anabranch.triggers.schedules.saved_schedules import Schedule

DEFAULT_TIMEZONE = "UTC"

_GIVEN = frozenset({"name", "workflow", "version", "kind", "cron", "timezone", "every", "input", "missed", "enabled"})
# A client that reads a schedule, changes it and saves it again may leave these in.
_READ_ONLY = frozenset(
    {"scheduleID", "nextAt", "lastAt", "lastInstanceID", "lastError", "createdAt", "updatedAt", "nodeID"}
)

_KINDS = ("cron", "interval")


@dataclass(frozen=True, slots=True)
class ParsedSchedule:
    """A parsed document; absent fields have their defaults."""

    name: str
    workflow: str
    version: int | None
    cron: str | None
    timezone: str
    every_ms: int | None
    input_: Any
    missed: str
    enabled: bool

    def as_schedule(self, schedule_id: str, tenant_id: str, *, anchor_at: int) -> Schedule:
        """A schedule with nothing due yet."""
        return Schedule(
            schedule_id=schedule_id,
            tenant_id=tenant_id,
            name=self.name,
            workflow=self.workflow,
            version=self.version,
            kind="interval" if self.cron is None else "cron",
            cron=self.cron,
            timezone=self.timezone,
            every_ms=self.every_ms,
            anchor_at=anchor_at,
            input_=self.input_,
            missed=self.missed,
            enabled=self.enabled,
            next_at=None,
        )


def read_schedule(document: Any) -> tuple[ParsedSchedule, list[Problem]]:
    """Parse the document and collect its problems. Raises InvalidRequest if it is not an object."""
    check_fields(document, known=_GIVEN | _READ_ONLY, texts=("name", "workflow"))
    reader = _ScheduleReader(document)
    wish = ParsedSchedule(
        name=check_name(document["name"]),
        workflow=document["workflow"],
        version=reader.version(),
        cron=reader.text("cron"),
        timezone=reader.text("timezone") or DEFAULT_TIMEZONE,
        every_ms=reader.every_ms(),
        input_=reader.input(),
        missed=reader.choice("missed", tuple(MissedPolicy)) or MissedPolicy.ONE.value,
        enabled=reader.enabled(),
    )
    reader.check_timing(wish)
    return wish, reader.problems


def backfill_as_json(started: Sequence[tuple[int, StartedRun]]) -> dict[str, Any]:
    """Occurrences with the runs that they have, as REST and `--json` show them."""
    return {
        "items": [
            {"occurrenceAt": to_iso(occurrence), "instanceID": run.instance_id, "created": run.created}
            for occurrence, run in started
        ]
    }


def schedule_as_json(schedule: Schedule) -> dict[str, Any]:
    """A schedule as REST and `--json` show it."""
    return {
        "scheduleID": schedule.schedule_id,
        "name": schedule.name,
        "workflow": schedule.workflow,
        "version": schedule.version,
        "kind": schedule.kind,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "every": None if schedule.every_ms is None else format_duration(schedule.every_ms),
        "input": schedule.input_,
        "missed": schedule.missed,
        "enabled": schedule.enabled,
        "nextAt": to_iso_or_none(schedule.next_at),
        "lastAt": to_iso_or_none(schedule.last_at),
        "lastInstanceID": schedule.last_instance_id,
        "lastError": schedule.last_error,
        "createdAt": to_iso(schedule.created_at),
        "updatedAt": to_iso(schedule.updated_at),
        "nodeID": schedule.node_id,
    }


class _ScheduleReader:
    """Reads the fields of one document and collects problems; null means that a field is left out."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def text(self, field: str) -> str | None:
        value = self._document.get(field)
        if value is None or isinstance(value, str):
            return value
        self._report("WRONG_TYPE", field, f"{field} is text")
        return None

    def choice(self, field: str, among: tuple[str, ...]) -> str | None:
        value = self.text(field)
        if value is None or value in among:
            return value
        self._report("WRONG_VALUE", field, f"{field} is one of {', '.join(among)}, not {value!r}")
        return None

    def version(self) -> int | None:
        value = self._document.get("version")
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31):
            return value
        self._report("WRONG_TYPE", "version", "version is a number from 1 up, or null for the active one")
        return None

    def enabled(self) -> bool:
        value = self._document.get("enabled")
        if value is None or isinstance(value, bool):
            return value is not False
        self._report("WRONG_TYPE", "enabled", "enabled is true or false")
        return True

    def every_ms(self) -> int | None:
        """The interval, at least `EVERY_MS_MIN`; None if there is none. Reports one that is invalid or too short."""
        value = self._document.get("every")
        if value is None:
            return None
        try:
            every_ms = parse_duration(value)
        except ValueError as misfit:
            self._report("BAD_INTERVAL", "every", str(misfit))
            return None
        if every_ms < EVERY_MS_MIN:
            self._report("BAD_INTERVAL", "every", f"every is at least {format_duration(EVERY_MS_MIN)}")
        return max(every_ms, EVERY_MS_MIN)

    def input(self) -> Any:
        value = self._document.get("input")
        try:
            return checked_payload(value, "the input").value
        except InvalidInput as refusal:
            self._report(refusal.code, "input", refusal.message)
            return None

    def check_timing(self, wish: ParsedSchedule) -> None:
        """Either a cron expression or an interval, as `kind` says where it is given, that will be due one day."""
        kind = self.choice("kind", _KINDS)
        has = {"cron": self._document.get("cron") is not None, "interval": self._document.get("every") is not None}
        wanted = ("cron",) if kind == "cron" else ("interval",) if kind == "interval" else _KINDS
        if [each for each in _KINDS if has[each]] not in [[each] for each in wanted]:
            fields = " or ".join({"cron": "`cron`", "interval": "`every`"}[each] for each in wanted)
            self._report("BAD_TIMING", "every" if kind == "interval" else "cron", f"give {fields}, and only that")
            return
        try:
            check_timezone(wish.timezone)
            if wish.cron is not None and next_after(Cron(wish.cron, wish.timezone), 0) is None:
                self._report("BAD_CRON", "cron", f"{wish.cron!r} never comes")
        except BadTiming as problem:
            self._report("BAD_CRON" if problem.field == "cron" else "BAD_TIMEZONE", problem.field, str(problem))

    def _report(self, code: str, field: str, sentence: str) -> None:
        self.problems.append((code, f"/{field}", sentence))
