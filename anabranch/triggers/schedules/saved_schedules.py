"""Schedules as stored, and the port to the store.

Everything belongs to a tenant; another tenant's reads as absent. Times are milliseconds since the epoch, of the
store's clock. To add a field, start here and continue through the other files of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.rules.instants import to_iso


@dataclass(frozen=True, slots=True)
class Schedule:
    """A rule by which runs of one workflow are started; each point in time that it names is an occurrence."""

    schedule_id: str
    tenant_id: str
    name: str
    workflow: str
    """Name or id, as it was written: looked up again at each occurrence."""
    version: int | None
    """None: the active one of the time."""
    kind: str
    """`cron` or `interval`."""
    cron: str | None
    timezone: str
    every_ms: int | None
    anchor_at: int
    """What the occurrences of an interval are counted from."""
    input_: Any
    """What its runs are started with, unless `gives_time`."""
    missed: str
    """`skip`, `one` or `all`."""
    enabled: bool
    next_at: int | None
    """The next open occurrence; None while disabled, or if there is none."""
    last_at: int | None = None
    """The occurrence that was started last."""
    last_instance_id: str | None = None
    last_error: dict[str, Any] | None = None
    """Why the latest occurrence has not started, `{"code", "message", "occurrenceAt"}`; None once one has."""
    created_at: int = 0
    updated_at: int = 0
    workflow_id: str | None = None
    node_id: str | None = None
    """The node of that workflow that has armed it; None: somebody saved it."""
    gives_time: bool = False
    """Its runs are started with the time of the occurrence."""

    @property
    def starts(self) -> str:
        """The workflow whose runs it starts, as a start takes it."""
        return self.workflow_id or self.workflow

    def payload_at(self, occurrence: int) -> Any:
        """The input of the run of an occurrence."""
        return {"scheduledAt": to_iso(occurrence)} if self.gives_time else self.input_


class SavedSchedules(Protocol):
    """Keeps schedules. `key` is an id or a name. What an `actor` does is on record in the same transaction."""

    async def save_schedule(self, schedule: Schedule, *, count_max: int, actor: str | None = None) -> Schedule:
        """Insert, or replace the one with this id; the store sets both times.

        Raises NameTaken, LimitReached where a tenant would get more than `count_max`.
        """

    async def find_schedule(self, key: str, *, tenant_id: str) -> Schedule | None:
        """One schedule, or None."""

    async def list_schedules(self, *, tenant_id: str) -> Sequence[Schedule]:
        """All of a tenant's, by name."""

    async def delete_schedule(self, schedule_id: str, *, tenant_id: str, actor: str | None = None) -> bool:
        """Remove it; False if there was none."""

    async def record_use(
        self, schedule: Schedule, action: str, details: Mapping[str, Any], *, actor: str | None
    ) -> None:
        """Record in the audit trail that an actor starts runs of it; starts at due times are not recorded."""

    async def due_schedules(self, *, now: int, limit: int, after: tuple[int, str] | None) -> Sequence[Schedule]:
        """Enabled ones of all tenants with `next_at` ≤ now, by (next_at, schedule_id), those behind `after`."""

    async def advance(self, was: Schedule, becomes: Schedule) -> bool:
        """Write `next_at` and the `last_…` fields if `next_at` is still that of `was`.

        False if another process was first, or if the schedule was saved with another timing, armed by another
        version or removed.
        """
