"""The steps of a bulk run: choose the runs that meet a filter, and act on a page of them.

Called by the steps of the system workflow `bulk_workflow`. An action is repeated with the same key, so that a
page which was interrupted does nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeVar

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.instants import from_iso_or_date, to_iso_or_none
from anabranch.engine.rules.run_filter import InputFilter, RunFilter
from anabranch.engine.rules.values import check_key
from anabranch.errors import AnabranchError, InvalidRequest, NonRetryable, NotFound, StoreUnavailable
from anabranch.run_requests import (
    COMMAND_LINE,
    WHOLE_NUMBER_MAX,
    RetryOptions,
    StartOptions,
    check_fields,
    check_version,
)
from anabranch.service.workflow_service import WorkflowService

BULK_NAME = "anabranch-bulk"
"""The name of the system workflow."""

# 100,000 runs: their ids and results stay below what the steps of one run may hold.
RUNS_MAX = 100_000

# 100 runs a page: two seconds of work, after which a cancel takes effect.
PAGE_RUNS = 100

# 50 a second: a thousand failed runs are retried in 20 s, and what they call is not overrun.
ACTIONS_PER_S = 50

# 10,000 ids a step: 400 kB of the 1 MB that a step may return.
CHOSEN_AT_ONCE = 10_000

NameT = TypeVar("NameT", bound=StrEnum)

DONE = "DONE"
"""The outcome of an action that was taken; others are the codes of refusals."""


class BulkAction(StrEnum):
    """An action, as it is applied to each run."""

    RETRY = "retry"
    CANCEL = "cancel"
    RERUN = "rerun"
    RESUME = "resume"
    SIGNAL = "signal"


_OPEN = tuple(status for status in Status if not status.is_terminal)

USUALLY = {
    BulkAction.RETRY: (Status.FAILED,),
    BulkAction.CANCEL: _OPEN,
    BulkAction.RERUN: (Status.FAILED, Status.CANCELLED),
    BulkAction.RESUME: (Status.SUSPENDED,),
    BulkAction.SIGNAL: _OPEN,
}
"""The default statuses of an action, if the filter names none."""


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """An action on all runs that meet a filter."""

    action: BulkAction
    filter: RunFilter
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a retry `reason`, `newKeys`; of a cancel `reason`; of a re-run `version`; of a signal `event`, `payload`."""
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """As the input of its run, and as `from_json` takes it."""
        wanted = self.filter
        conditions = {
            "workflow": wanted.workflow,
            "status": [status.value for status in wanted.statuses],
            "reason": [reason.value for reason in wanted.reasons],
            "since": to_iso_or_none(wanted.since),
            "until": to_iso_or_none(wanted.until),
            "version": wanted.version,
            "rerunOf": wanted.rerun_of,
            "error": wanted.error,
            "input": {".".join(path): value for path, value in wanted.input_filters},
        }
        return {
            "action": self.action.value,
            "filter": {name: value for name, value in conditions.items() if value},
            "options": dict(self.options),
            "dryRun": self.dry_run,
        }

    @classmethod
    def from_json(cls, value: Any) -> BulkRequest:
        """The request that a document is, with the fields of `POST /v1/runs/bulk`. Raises InvalidRequest."""
        asked = check_fields(value, _FIELDS)
        wanted = check_fields(asked.get("filter"), _CONDITIONS, "/filter")
        check_version(wanted.get("version"), "/filter/version")
        return cls(
            _one_of(BulkAction, asked.get("action"), "/action"),
            RunFilter(
                workflow=wanted.get("workflow"),
                statuses=[_one_of(Status, each, "/filter/status") for each in wanted.get("status") or ()],
                reasons=[_one_of(SuspendReason, each, "/filter/reason") for each in wanted.get("reason") or ()],
                since=_moment(wanted, "since"),
                until=_moment(wanted, "until"),
                version=wanted.get("version"),
                rerun_of=wanted.get("rerunOf"),
                error=wanted.get("error"),
                input_filters=_input_filters(wanted.get("input") or {}),
            ),
            dict(asked.get("options") or {}),
            bool(asked.get("dryRun")),
        )


_FIELDS = {"action": str, "filter": dict, "options": dict, "dryRun": bool}

_CONDITIONS = {
    "workflow": str,
    "status": list,
    "reason": list,
    "since": str,
    "until": str,
    "version": int,
    "rerunOf": str,
    "error": str,
    "input": dict,
}


def _one_of(names: type[NameT], given: Any, pointer: str) -> NameT:
    """The member of this name, in upper or lower case. Raises InvalidRequest, which lists them."""
    for each in names:
        if isinstance(given, str) and each.value.lower() == given.lower():
            return each
    raise InvalidRequest(f"{pointer}: it is one of {', '.join(names)}, not {given!r:.80}")


def _moment(wanted: Mapping[str, Any], name: str) -> int | None:
    """The time of this condition, in milliseconds. Raises InvalidRequest."""
    try:
        return None if name not in wanted else from_iso_or_date(wanted[name])
    except ValueError as wrong:
        hint = "Write ISO 8601 with an offset, such as 2030-01-31T08:00:00Z, or a date."
        raise InvalidRequest(f"/filter/{name}: {wrong}", hint=hint) from None


def _input_filters(given: Mapping[str, Any]) -> list[InputFilter]:
    """The conditions on the input. Raises InvalidRequest."""
    for path, value in given.items():
        if not isinstance(value, str | int | float | None):
            raise InvalidRequest(
                f"/filter/input/{path}: it is a text, a number, true, false or null, not {value!r:.80}",
                hint="Write an object or a list as text in JSON.",
            )
    return [(tuple(path.split(".")), value) for path, value in given.items()]


def _is_version(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= WHOLE_NUMBER_MAX


_OPTIONS: dict[BulkAction, dict[str, Callable[[Any], bool]]] = {
    BulkAction.RETRY: {
        "reason": lambda given: isinstance(given, str),
        "steps": lambda given: given in ("cause", "failed"),
        "newKeys": lambda given: isinstance(given, bool),
    },
    BulkAction.CANCEL: {"reason": lambda given: isinstance(given, str)},
    BulkAction.RERUN: {"version": _is_version},
    BulkAction.RESUME: {},
    BulkAction.SIGNAL: {"event": lambda given: isinstance(given, str), "payload": lambda given: True},
}
"""The options that an action has, and which values."""


def check_bulk(request: BulkRequest) -> None:
    """Refuse a request that would meet every run, and options that its action does not have. Raises InvalidRequest."""
    wanted, known = request.filter, _OPTIONS[request.action]
    conditions = (wanted.workflow, wanted.statuses, wanted.reasons, wanted.since, wanted.until, wanted.version)
    if not any((*conditions, wanted.rerun_of, wanted.error, wanted.input_filters)):
        raise InvalidRequest("the filter has no condition", hint="Name at least a workflow, or a status.")
    for name, given in request.options.items():
        if name not in known:
            has = f"has the options {', '.join(known)}" if known else "has no options"
            raise InvalidRequest(f"unknown option {name!r}: {request.action.value} {has}")
        if given is not None and not known[name](given):
            raise InvalidRequest(f"the option {name!r} of {request.action.value} cannot be {given!r}"[:200])
    if request.action is BulkAction.SIGNAL:
        if request.options.get("event") is None:
            raise InvalidRequest("a signal needs the option 'event'", hint='{"event": "paid", "payload": 1}')
        check_key(request.options["event"], "an event's name")


class BulkActions:
    """The steps of a bulk run, for the tenant of that run."""

    def __init__(self) -> None:
        self._service: WorkflowService | None = None
        self._store: Store | None = None

    def connect(self, service: WorkflowService, store: Store) -> None:
        """Act through this service from now on."""
        self._service, self._store = service, store

    async def choose(self, bulk_id: str, asked: Any, before: Sequence[Any] | None) -> dict[str, Any]:
        """The next ids of runs that meet the filter, newest first: `{ids, before}`; `before` null: no more."""
        try:
            request = BulkRequest.from_json(asked)
            check_bulk(request)  # the workflow may have been started like any other
        except InvalidRequest as refusal:
            raise NonRetryable(refusal.message, code=refusal.code) from None
        row = await self._row(bulk_id)
        cursor = None if before is None else (int(before[0]), str(before[1]))
        rows = await self._list(request, row, limit=CHOSEN_AT_ONCE, before=cursor)
        last = rows[-1].head if len(rows) == CHOSEN_AT_ONCE else None
        return {
            "ids": [each.head.instance_id for each in rows if each.head.workflow_name != BULK_NAME],
            "before": None if last is None else [last.created_at, last.instance_id],
        }

    async def act(self, bulk_id: str, asked: Any, ids: Sequence[str]) -> dict[str, Any]:
        """Perform the action on these runs; returns `{counts, refused}`. A cancel of the bulk run takes effect after
        the page."""
        acting = asyncio.ensure_future(self._act(bulk_id, asked, ids))
        acting.add_done_callback(_note_failure)
        return await asyncio.shield(acting)

    async def _act(self, bulk_id: str, asked: Any, ids: Sequence[str]) -> dict[str, Any]:
        request, row = BulkRequest.from_json(asked), await self._row(bulk_id)
        head = row.head
        perform = self._performer(request, bulk_id, tenant_id=head.tenant_id, by=head.started_by or COMMAND_LINE)
        loop = asyncio.get_running_loop()
        began, counts, refused = loop.time(), dict[str, int](), list[list[str]]()
        for number, run_id in enumerate(ids):
            await asyncio.sleep(max(0.0, began + number / ACTIONS_PER_S - loop.time()))
            outcome = DONE
            try:
                await perform(run_id)
            except StoreUnavailable:
                raise
            except AnabranchError as refusal:
                outcome = refusal.code
                refused.append([run_id, outcome])
            counts[outcome] = counts.get(outcome, 0) + 1
        return {"counts": counts, "refused": refused}

    def _performer(
        self, request: BulkRequest, bulk_id: str, *, tenant_id: str, by: str
    ) -> Callable[[str], Awaitable[object]]:
        service, options = self._connected, request.options
        if request.action is BulkAction.RETRY:
            return lambda run_id: service.retry_run(
                run_id,
                RetryOptions(
                    reason=options.get("reason"),
                    new_keys=bool(options.get("newKeys", False)),
                    all_failed_steps=options.get("steps") == "failed",
                    idempotency_key=f"{bulk_id}:{run_id}",
                    dry_run=request.dry_run,
                ),
                tenant_id=tenant_id,
                by=by,
            )
        if request.dry_run:
            return lambda run_id: service.get_run_status(run_id, tenant_id=tenant_id)
        if request.action is BulkAction.CANCEL:
            reason = str(options.get("reason") or "cancelled together with others")
            return lambda run_id: service.cancel_run(run_id, tenant_id=tenant_id, reason=reason)
        if request.action is BulkAction.RESUME:
            return lambda run_id: service.resume_run(run_id, tenant_id=tenant_id, by=by)
        if request.action is BulkAction.SIGNAL:
            return lambda run_id: service.send_signal(
                run_id,
                str(options.get("event", "")),
                options.get("payload"),
                tenant_id=tenant_id,
                key=f"{bulk_id}:{run_id}",
            )
        return lambda run_id: service.rerun(
            run_id,
            StartOptions(version=options.get("version"), idempotency_key=f"{bulk_id}:{run_id}", started_by=by),
            tenant_id=tenant_id,
        )

    async def count(self, request: BulkRequest, *, tenant_id: str) -> int:
        """How many runs meet the filter now; counting stops past the limit."""
        total, before = 0, None
        while total <= RUNS_MAX:
            rows = await self._listed(request, tenant_id=tenant_id, limit=CHOSEN_AT_ONCE, before=before)
            total += len(rows)
            if len(rows) < CHOSEN_AT_ONCE:
                break
            before = (rows[-1].head.created_at, rows[-1].head.instance_id)
        return total

    async def _list(
        self, request: BulkRequest, row: InstanceRow, *, limit: int, before: tuple[int, str] | None
    ) -> list[InstanceRow]:
        """Only runs that were there when the bulk run was created."""
        before = before or (row.head.created_at, row.head.instance_id)
        return await self._listed(request, tenant_id=row.head.tenant_id, limit=limit, before=before)

    async def _listed(
        self, request: BulkRequest, *, tenant_id: str, limit: int, before: tuple[int, str] | None
    ) -> list[InstanceRow]:
        assert self._store is not None, "connect comes before any run"
        return await self._store.list_instances(request.filter, tenant_id=tenant_id, limit=limit, before=before)

    async def _row(self, bulk_id: str) -> InstanceRow:
        assert self._store is not None, "connect comes before any run"
        row = await self._store.get_instance(bulk_id)
        if row is None:
            raise NonRetryable(f"run {bulk_id} was removed", code=NotFound.code)
        return row

    @property
    def _connected(self) -> WorkflowService:
        assert self._service is not None, "connect comes before any run"
        return self._service


def _note_failure(acting: asyncio.Task[Any]) -> None:
    """Take the failure of a page that nobody awaits because the process stops: another process repeats the
    page."""
    if not acting.cancelled():
        acting.exception()
