"""Retry: continue an ended run, with the runs below it that ended together with it.

A mixin of `WorkflowService`. `rules.repair.retry_plan` makes the plan from logs; the store writes it only if nothing
has changed since, otherwise a new plan is made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.log_pages import log_pages
from anabranch.engine.ports import FamilyReopening, InstanceRow, Reopening
from anabranch.engine.rules.event_payloads import Redo, RunCancelledPayload, RunReopened, reopenings_in
from anabranch.engine.rules.events import ActivationKey, Event, Status
from anabranch.engine.rules.history import ActivationFilter
from anabranch.engine.rules.instants import to_iso_or_none
from anabranch.engine.rules.shared.left_out import together
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.values import check_key, checked_payload
from anabranch.engine.store.sql.families import cancel_reason
from anabranch.errors import (
    InvalidRequest,
    ParentNotWaiting,
    RetryRefused,
    RetryWouldRepeat,
    RunIsCompleted,
    RunIsOpen,
    RunTooLarge,
    StoreUnavailable,
)
from anabranch.run_requests import RETRY, RetryOptions
from anabranch.service.runs.run_verbs import RunVerbs
from anabranch.service.runs.run_view import activations_in

# Needed only to retry a run:
if TYPE_CHECKING:
    from anabranch.engine.rules.repair import retry_plan
else:
    retry_plan = deferred("anabranch.engine.rules.repair.retry_plan")

# 1,000 runs in one transaction, as many as are locked together without others noticing.
FAMILY_MAX = 1_000

# 200,000 rows: folding them takes a thread some three seconds.
ROWS_MAX = 200_000

# 10 plans: each becomes invalid only if the same runs are retried, cancelled or removed at the same moment.
PLANS_MAX = 10


@dataclass(slots=True)
class _Count:
    """How many runs a retry continues, with those that are not planned yet."""

    runs: int = 0


@dataclass(slots=True)
class _Family:
    """The plan so far: a run, and those below it."""

    top: str
    """The run that is retried."""
    options: RetryOptions
    by: str
    now: int
    count: _Count = field(default_factory=_Count)
    """One for the whole retry: its parts share it."""
    reopenings: list[Reopening] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def part(self) -> _Family:
        """An empty plan of the same retry, for one of the runs below with those below it."""
        return replace(self, reopenings=[], attached=[], warnings=[])

    def count_run(self) -> None:
        """One more run continues. Raises _TooManyRuns."""
        self.count.runs += 1
        if self.count.runs > FAMILY_MAX:
            raise _TooManyRuns(f"more than {FAMILY_MAX:,} runs would continue with run {self.top}")

    def take(self, part: _Family) -> None:
        """Add what was planned in a part."""
        self.reopenings += part.reopenings
        self.attached += part.attached
        self.warnings += part.warnings


@dataclass(frozen=True, slots=True)
class _Child:
    """An ended child that its parent awaits again."""

    row: InstanceRow
    must_continue: bool
    """False: if it cannot, its parent gets its end."""
    stays: str
    """The warning for that case."""


class _TooManyRuns(RetryRefused):
    """More than `FAMILY_MAX` runs would continue."""


class RetryVerbs(RunVerbs):
    """Commands that continue ended runs."""

    async def retry_run(
        self, instance_id: str, options: RetryOptions = RETRY, *, tenant_id: str, by: str
    ) -> dict[str, Any]:
        """Continue a FAILED or CANCELLED run where it ended; a SUSPENDED one is resumed.

        Returns what is executed again: `{instanceID, status, generation, redo, children, deadlineAt, warnings,
        dryRun}`. Raises NotFound, InvalidInput, InvalidRequest, RunIsCompleted, RunIsOpen, RetryWouldRepeat,
        ParentNotWaiting, RetryRefused, RunTooLarge, StoreUnavailable.
        """
        checked_payload(options.reason, "the reason")
        if options.idempotency_key is not None:
            check_key(options.idempotency_key, "an idempotency key")
        _check_deadline(options.deadline_ms)
        for _ in range(PLANS_MAX):
            row = await self.get_run_status(instance_id, tenant_id=tenant_id)
            known = await self._known_retry(row, options.idempotency_key)
            if known is not None:
                return known
            if row.status is Status.SUSPENDED:
                return await self._resumed(row, options, by=by)
            if row.status is Status.COMPLETED:
                raise RunIsCompleted(f"run {instance_id} is COMPLETED")
            if not row.status.is_terminal:
                raise RunIsOpen(
                    f"run {instance_id} is {row.status.value}", hint="Only runs that have ended are retried."
                )
            family = _Family(instance_id, options, by, self._engine.clock.now())
            reopening = await self._planned(row, family)
            if options.dry_run:
                return _answer(row.status, family, dry_run=True)
            rows = await self._store.reopen(reopening)
            if rows is not None:
                return _answer(rows[0].status, family, dry_run=False)
        raise StoreUnavailable(f"run {instance_id} changes too often to be retried", hint="Try again in a moment.")

    # -- within ---------------------------------------------------------------------------
    async def _planned(self, row: InstanceRow, family: _Family) -> FamilyReopening:
        head = row.head
        awaited_by = await self._awaited_by(head, detach=family.options.detach)
        await self._plan_tree(row, family, parent_waits=awaited_by is not None)
        return FamilyReopening(
            tenant_id=head.tenant_id, runs=family.reopenings, awaited_by=awaited_by, attached=family.attached
        )

    async def _plan_tree(self, row: InstanceRow, family: _Family, *, parent_waits: bool) -> None:
        """Plan the reopenings of a run and of those below it, from the top down."""
        family.count_run()
        todo = [(row, parent_waits)]
        for each, is_awaited in todo:  # grows while it is walked
            for child in await self._plan_one(each, family, parent_waits=is_awaited):
                if child.must_continue:
                    family.count_run()
                    todo.append((child.row, True))
                    continue
                part, runs_before = family.part(), family.count.runs
                try:
                    await self._plan_tree(child.row, part, parent_waits=True)
                except _TooManyRuns:
                    raise
                except (RetryRefused, RetryWouldRepeat, RunTooLarge):
                    family.count.runs = runs_before
                    family.warnings.append(child.stays)
                    continue
                family.take(part)

    async def _plan_one(self, row: InstanceRow, family: _Family, *, parent_waits: bool) -> list[_Child]:
        """Plan the reopening of one run; returns the ended children to reopen with it."""
        head = row.head
        if row.last_seq > ROWS_MAX:
            raise RunTooLarge(f"run {head.instance_id} has {row.last_seq:,} rows; the limit is {ROWS_MAX:,}")
        await self._check_workflow(head)
        events = [event async for page in self._log_of(row) for event in page]
        plan = await self._engine.plans.plan_of(head)
        retry = await self.checks.run(
            head.tenant_id, retry_plan.plan_retry, plan, head, events, all_failed_steps=family.options.all_failed_steps
        )
        children = [
            child
            for awaited in retry.children
            if (child := await self._plan_child(awaited, retry, row, family)) is not None
        ]
        is_top = head.instance_id == family.top
        options = family.options
        length = options.deadline_ms if is_top and options.deadline_ms is not None else _deadline_ms(head, events)
        if is_top and length == 0:
            raise RetryWouldRepeat(
                f"the deadline of run {head.instance_id} was over before it began, and would be again",
                hint="Give the retry a `deadline`, such as 2h.",
            )
        begins_at = max(family.now, head.available_at) if row.started_at is None else family.now
        family.reopenings.append(
            Reopening(
                instance_id=head.instance_id,
                last_seq=row.last_seq,
                reopened=RunReopened(
                    head.generation + 1,
                    retry.left_out,
                    tuple(retry.redo),
                    max(0, family.now - (row.completed_at or family.now)),
                    None if length is None else begins_at + length,
                    family.by,
                    options.idempotency_key if is_top else None,
                    options.reason if is_top else None,
                    options.new_keys,
                ),
                left_out=together(head.left_out, retry.left_out),
                parent_waits=parent_waits,
            )
        )
        size = row.log_bytes + len(family.reopenings[-1].reopened.payload.raw)
        if self._engine.options.log_limit.is_passed(log_bytes=size, rows=row.last_seq + 1):
            raise RetryWouldRepeat(f"the log of run {head.instance_id} is full: {self._engine.options.log_limit}")
        family.warnings += [_again(head, key) for key in retry.continued]
        return children

    async def _plan_child(
        self, awaited: retry_plan.AwaitedChild, retry: retry_plan.RetryPlan, parent: InstanceRow, family: _Family
    ) -> _Child | None:
        """The child run of an open activation, if it has to continue as well."""
        child = await self._store.get_instance(awaited.child_id)
        head = parent.head
        if child is None or child.head.parent_id != head.instance_id:
            # Retention has removed it, or a person; or it is the child of the run that this one is a fork of.
            if awaited.is_awaited:
                retry.redo.append(Redo(*awaited.key, awaited.attempt, replaces_child=True))
            return None
        if not child.status.is_terminal:
            if awaited.is_awaited and not child.head.parent_waits:
                family.attached.append(awaited.child_id)
            return None
        if child.status is Status.COMPLETED:
            if awaited.is_cause and awaited.is_awaited and not awaited.had_ended_badly:
                raise RetryWouldRepeat(f"the output of run {awaited.child_id} cannot be taken by {awaited.key[0]!r}")
            return None
        stays = _stays(child, head, awaited.key)
        if awaited.is_cause:
            return _Child(child, must_continue=True, stays=stays)
        last = await self._store.read_log(awaited.child_id, after_seq=child.last_seq - 1, limit=1)
        reason = RunCancelledPayload(cancel_reason(head.instance_id)).payload.value
        was_taken_along = child.status is Status.CANCELLED and bool(last) and last[0].payload.value == reason
        if was_taken_along:
            return _Child(child, must_continue=True, stays=stays)
        if awaited.is_awaited and awaited.would_end_run and child.status is Status.FAILED:
            # It failed just before the parent did, which has not taken notice.
            return _Child(child, must_continue=False, stays=stays)
        family.warnings.append(stays)
        return None

    async def _awaited_by(self, head: InstanceHead, *, detach: bool) -> tuple[str, str, str] | None:
        """The parent and its activation that awaits this run; None if there is none. Raises ParentNotWaiting."""
        if head.parent_id is None or not head.parent_waits:
            return None
        parent = await self._store.get_instance(head.parent_id)
        if parent is None:
            return None
        node_id, scope = head.parent_node_id or "", head.parent_scope or ""
        if not parent.status.is_terminal and not await self._has_ended(parent, node_id, scope):
            return parent.head.instance_id, node_id, scope
        if detach:
            return None
        while parent.status.is_terminal and parent.head.parent_id is not None and parent.head.parent_waits:
            above = await self._store.get_instance(parent.head.parent_id)
            if above is None or not above.status.is_terminal:
                break
            parent = above
        message = f"run {head.parent_id} does not wait for run {head.instance_id} any more"
        if parent.status not in (Status.FAILED, Status.CANCELLED):
            raise ParentNotWaiting(message, hint="Retry it with `detach`: it continues, and no run gets its result.")
        raise ParentNotWaiting(f"{message}; retry run {parent.head.instance_id}")

    async def _has_ended(self, row: InstanceRow, node_id: str, scope: str) -> bool:
        found = await self._store.read_activations(
            row.head.instance_id, after_seq=0, limit=1, only=ActivationFilter(node_id=node_id, scope=scope)
        )
        return found is None or any(each.has_ended for each in activations_in(found[1], found[0]))

    async def _check_workflow(self, head: InstanceHead) -> None:
        """Raise RetryRefused if its workflow is deleted: housekeeping would cancel it."""
        if head.workflow_id is None:
            return
        if await self._store.list_versions(tenant_id=head.tenant_id, workflow_id=head.workflow_id, limit=1):
            return
        raise RetryRefused(
            f"the workflow {head.workflow_name!r} of run {head.instance_id} is deleted",
            hint="Save the workflow again, and start a run of it with the input of this one.",
        )

    async def _known_retry(self, row: InstanceRow, key: str | None) -> dict[str, Any] | None:
        """The answer to an earlier retry of the run with this key."""
        if key is None or not row.head.generation:
            return None
        async for page in self._log_of(row):
            for _, reopened in reopenings_in(page):
                if reopened.key == key:
                    return _document(row.head.instance_id, row.status, reopened, dry_run=False)
        return None

    async def _resumed(self, row: InstanceRow, options: RetryOptions, *, by: str) -> dict[str, Any]:
        head, status = row.head, row.status
        if not options.dry_run:
            status = await self.resume_run(head.instance_id, tenant_id=head.tenant_id, by=by)
        reopened = RunReopened(head.generation, (), (), 0, head.deadline_at, by)
        return _document(head.instance_id, status, reopened, dry_run=options.dry_run)

    def _log_of(self, row: InstanceRow) -> AsyncIterator[Sequence[Event]]:
        return log_pages(self._store, row.head.instance_id, up_to=row.last_seq)


def _check_deadline(length_ms: int | None) -> None:
    if length_ms is not None and length_ms <= 0:
        message = "the deadline of a retry must be longer than 0"
        raise InvalidRequest(
            message,
            hint="Write a duration such as 2h; without one the run has as long as it had at first.",
            details=[{"code": "BAD_DEADLINE", "pointer": "/deadline", "message": message}],
        )


def _deadline_ms(head: InstanceHead, events: Sequence[Event]) -> int | None:
    """The length of the run's deadline, from its creation or last reopening."""
    if head.deadline_at is None:
        return None
    reopened = [at for at, _ in reopenings_in(events)]
    return max(0, head.deadline_at - (reopened[-1] if reopened else max(head.created_at, head.available_at)))


def _stays(child: InstanceRow, parent: InstanceHead, key: ActivationKey) -> str:
    ended = f"run {child.head.instance_id} stays {child.status.value}"
    return f"{ended}: {_shown(key)} of run {parent.instance_id} gets its end"


def _again(head: InstanceHead, key: ActivationKey) -> str:
    return f"{_shown(key)} of run {head.instance_id} was being executed when the run ended: it is executed again"


def _shown(key: ActivationKey) -> str:
    return f"{key[1]}/{key[0]}" if key[1] else key[0]


def _answer(status: Status, family: _Family, *, dry_run: bool) -> dict[str, Any]:
    top, *below = family.reopenings
    answer = _document(top.instance_id, status, top.reopened, dry_run=dry_run)
    answer["children"] = [
        {"instanceID": each.instance_id, "generation": each.reopened.generation, "redo": _redo(each.reopened)}
        for each in below
    ]
    answer["warnings"] = family.warnings
    return answer


def _document(instance_id: str, status: Status, reopened: RunReopened, *, dry_run: bool) -> dict[str, Any]:
    return {
        "instanceID": instance_id,
        "status": status.value,
        "generation": reopened.generation,
        "redo": _redo(reopened),
        "children": [],
        "deadlineAt": to_iso_or_none(reopened.deadline_at),
        "warnings": [],
        "dryRun": dry_run,
    }


def _redo(reopened: RunReopened) -> list[dict[str, Any]]:
    """The activations to repeat, each with the number of its next attempt."""
    return [{"nodeID": each.node_id, "scope": each.scope, "attempt": each.attempt + 1} for each in reopened.redo]
