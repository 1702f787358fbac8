"""Restore check: list what the engine would do with the open runs of a restored database.

Called by `anabranch restore-check`, before any process is started on that database. It cannot know what happened after
that state. It tells for each open run what the log still owes: that begins as soon as a worker runs, although it may
have happened already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import idempotency_key
from anabranch.engine.log_pages import pages_of
from anabranch.engine.ownership.history_watch import LOST_ROWS_HINT
from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import InstanceRow, Loaded
from anabranch.engine.rules.callbacks import is_callback_event
from anabranch.engine.rules.coded.names import FUNCTION_KEY
from anabranch.engine.rules.commands import AwaitChild, Dispatch, Wake
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.evolve import AnyState, evolve, new_state, outstanding
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.history import History
from anabranch.engine.rules.instants import to_iso, to_iso_or_none
from anabranch.engine.rules.shared.log_limit import UNLIMITED_LOG
from anabranch.engine.store.sql.data_checks import DueSchedule
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import AnabranchError, StoreUnavailable

# 100 runs at once: their logs are folded one after the other, so memory is bounded.
RUNS_AT_ONCE = 100

# 1,000 runs and schedules are listed: more than a person reads; all of them are counted, and all are set aside.
LISTED_MAX = 1_000

# 3 places in the reason of a suspension: the whole list is in the report.
_NAMED_MAX = 3

_FIRST_ID = "00000000-0000-0000-0000-000000000000"

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenRun:
    """An open run, and what would happen to it."""

    row: InstanceRow
    attempts: Sequence[_Json] = ()
    """Attempts that were under way: they are executed again, with the same numbers and idempotency keys."""
    timers: Sequence[_Json] = ()
    """What is due at a time, perhaps already."""
    waits: Sequence[_Json] = ()
    """The signals, callbacks and children that it waits for."""
    last_event_at: int | None = None
    unreadable: str | None = None
    """Why its log could not be folded."""

    @property
    def is_set_aside(self) -> bool:
        """Whether a worker leaves it alone."""
        return self.row.status is Status.SUSPENDED

    @property
    def repeats(self) -> bool:
        """Whether something happens as soon as a worker runs that may have happened before."""
        if self.is_set_aside:
            return False
        begins = self.row.status is Status.PENDING
        return begins or self.unreadable is not None or bool(self.attempts) or any(each["due"] for each in self.timers)

    @property
    def reason(self) -> str:
        """Why it should stand still, in a sentence."""
        named = [f"attempt {each['attempt']} of {each['name']}" for each in self.attempts]
        named += [f"the timer of {each['name']}" for each in self.timers if each["due"]]
        more = "" if len(named) <= _NAMED_MAX else f" and {len(named) - _NAMED_MAX} more"
        named_runs = f"{', '.join(named[:_NAMED_MAX])}{more}" if named else "what follows"
        return f"set aside after a restore: {named_runs} may have happened already"

    def as_json(self) -> _Json:
        """As it is printed."""
        head = self.row.head
        reason = self.row.suspended_for
        return {
            "instanceID": head.instance_id,
            "tenant": head.tenant_id,
            "workflow": head.workflow_name,
            "version": head.workflow_version,
            "status": self.row.status.value,
            "suspended": None if reason is None else reason.value,
            "idempotencyKey": head.idempotency_key,
            "lastEventAt": to_iso_or_none(self.last_event_at),
            "repeats": self.repeats,
            "attempts": [*self.attempts],
            "timers": [*self.timers],
            "waitsFor": [*self.waits],
            "unreadable": self.unreadable,
        }


@dataclass(slots=True)
class RestoreReport:
    """The open runs of a restored database."""

    now: int
    as_of: int | None = None
    """The time of the newest row that was read (ms): about the point in time that was restored."""
    runs: list[OpenRun] = field(default_factory=list)
    open: int = 0
    repeating: int = 0
    set_aside: int = 0
    schedules: Sequence[DueSchedule] = ()
    messages: int = 0

    def add(self, run: OpenRun) -> None:
        """Count a run, and list it if there is room."""
        self.open += 1
        self.repeating += run.repeats
        self.set_aside += run.is_set_aside
        self.saw(run.last_event_at)
        if len(self.runs) < LISTED_MAX:
            self.runs.append(run)

    def saw(self, at: int | None) -> None:
        """Something was written then."""
        if at is not None:
            self.as_of = at if self.as_of is None else max(self.as_of, at)

    def as_json(self) -> _Json:
        """As it is printed."""
        return {
            "now": to_iso(self.now),
            "asOf": to_iso_or_none(self.as_of),
            "open": self.open,
            "repeating": self.repeating,
            "suspended": self.set_aside,
            "runs": [run.as_json() for run in self.runs],
            "runsOmitted": self.open - len(self.runs),
            "schedules": [
                {
                    "scheduleID": each.trigger_id,
                    "tenant": each.tenant_id,
                    "name": each.name,
                    "workflow": each.workflow,
                    "dueAt": to_iso(each.next_at),
                }
                for each in self.schedules
            ],
            "messages": self.messages,
        }


class RestoreCheck:
    """Reads one database; only `suspend` writes."""

    def __init__(self, store: SqlStore, node_types: NodeTypes) -> None:
        self._store = store
        self._plans = PlanCache(store, node_types)

    async def check(self) -> RestoreReport:
        """Return what would happen. Raises StoreUnavailable."""
        report = RestoreReport(now=await self._store.now())
        report.saw(await self._store.last_report())
        async for row in self._rows():
            report.add(await self._look_at(row, now=report.now))
        report.schedules = await self._store.due_schedules_before(report.now, limit=LISTED_MAX)
        report.messages = await self._store.messages_to_deliver()
        return report

    async def suspend(self) -> RestoreReport:
        """Suspend every open run that is not suspended yet, and return the report of the state after that."""
        now = await self._store.now()
        async for row in self._rows():
            if row.status is not Status.SUSPENDED:
                run = await self._look_at(row, now=now)
                head = row.head
                suspension = RunSuspended(SuspendReason.HISTORY_LOST, run.reason, LOST_ROWS_HINT)
                await self._store.append_suspension(
                    head.instance_id, suspension, tenant_id=head.tenant_id, log_limit=UNLIMITED_LOG
                )
        return await self.check()

    async def _rows(self) -> AsyncIterator[InstanceRow]:
        after: str | None = _FIRST_ID
        while after is not None:
            rows = await self._store.open_runs_after(after, limit=RUNS_AT_ONCE)
            for row in rows:
                yield row
            after = rows[-1].head.instance_id if len(rows) == RUNS_AT_ONCE else None

    async def _look_at(self, row: InstanceRow, *, now: int) -> OpenRun:
        instance_id = row.head.instance_id
        try:
            loaded = (await self._store.load([instance_id])).get(instance_id)
            if loaded is None:
                return OpenRun(row)
            return await self._fold(loaded, now=now)
        except StoreUnavailable:
            raise
        except AnabranchError as refusal:
            return OpenRun(row, unreadable=refusal.message)
        except Exception as unreadable:  # noqa: BLE001 -- whatever a stored value makes a parser raise
            return OpenRun(row, unreadable=f"{type(unreadable).__name__}: {unreadable}")

    async def _fold(self, loaded: Loaded, *, now: int) -> OpenRun:
        head = loaded.row.head
        state = new_state(await self._plans.plan_of(head), head)
        history = History(left_out=head.left_out)
        last_event_at: int | None = None
        async for page in pages_of(self._store, loaded):
            for event in page:
                evolve(state, event)
                history.take(event)
                last_event_at = event.created_at
        owed = sorted(outstanding(state), key=repr)
        return OpenRun(
            loaded.row,
            attempts=[
                _attempt(state, each, history)
                for each in owed
                if isinstance(each, Dispatch) and (each.node_id, each.scope) not in state.unevaluated
            ],
            timers=[_timer(state, each, now) for each in owed if isinstance(each, Wake) and state.suspension is None],
            waits=[*_signals(state), *(_child(each) for each in owed if isinstance(each, AwaitChild))],
            last_event_at=last_event_at,
        )


def _activation_fields(node_id: str, scope: str) -> _Json:
    name = "the workflow function" if (node_id, scope) == FUNCTION_KEY else f"'{node_id}'"
    return {"nodeID": node_id, "scope": scope, "name": f"{name} in {scope}" if scope else name}


def _attempt(state: AnyState, owed: Dispatch, history: History) -> _Json:
    key = (owed.node_id, owed.scope)
    activation, shown = state.running[key], history.open.get(key)
    since = None if shown is None else shown.attempt_began_at
    is_drawn = isinstance(state, InstanceState)
    return {
        **_activation_fields(*key),
        "type": activation.node.type if is_drawn else None,
        "attempt": owed.attempt,
        "since": to_iso_or_none(since),
        "idempotencyKey": idempotency_key(state.head.instance_id, *key, activation.redone) if is_drawn else None,
    }


def _timer(state: AnyState, owed: Wake, now: int) -> _Json:
    fields = _activation_fields(owed.node_id, owed.scope)
    if state.activation(owed.node_id, owed.scope) is None:
        fields["name"] = "the deadline" if owed.due_at == state.head.deadline_at else "the start"
    return {**fields, "dueAt": to_iso(owed.due_at), "due": owed.due_at <= now}


def _signals(state: AnyState) -> list[_Json]:
    return [
        {"kind": "callback" if is_callback_event(event) else "signal", **_activation_fields(*key), "event": event}
        for event, waits in state.signals.waits.items()
        for key in waits
    ]


def _child(owed: AwaitChild) -> _Json:
    return {"kind": "child", **_activation_fields(owed.node_id, owed.scope), "childID": owed.child_id}
