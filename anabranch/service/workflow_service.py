"""The façade: every verb that people and programs have, whichever door they come through.

Called by the command line (and by every later front door). Knows the engine and the store,
no HTTP. Every verb takes the tenant; another tenant's things read as absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import InstanceRow, Loaded, WorkflowVersion
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.graph import derive_name
from anabranch.engine.rules.instance import InstanceHead
from anabranch.engine.rules.node_types import NodeTypes
from anabranch.engine.rules.stimuli import CancelRequested, SignalSent
from anabranch.engine.rules.validate import Report, validate
from anabranch.engine.rules.values import Payload
from anabranch.errors import (
    InvalidInput,
    InvalidWorkflow,
    NameTaken,
    NotFound,
    RunIsTerminal,
    TooManyPending,
    TooManySignals,
    ValueNotStorable,
)
from anabranch.service.admission import check_key, checked_payload, input_payload, is_run_id, is_storable
from anabranch.service.births import root_head
from anabranch.service.pending_limit import PendingLimit
from anabranch.service.run_view import activations, log_entry, run_details, run_summary
from anabranch.service.shared_reads import SharedReads

# 5 tries to save under a name: each further one means that somebody else took or freed the
# name in the same moment, once more.
SAVE_TRIES_MAX = 5

_LOG_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A start's answer; `created` is False if the idempotency key met an earlier run."""

    instance_id: str
    status: Status
    created: bool


class WorkflowService:
    """Definitions, runs, signals and cancels of one database."""

    def __init__(self, *, engine: Engine, node_types: NodeTypes, retention_days_max: int, pending_max: int) -> None:
        self._engine = engine
        self._store = engine.store
        self._node_types = node_types
        self.retention_days_max = retention_days_max
        self._pending_limit = PendingLimit(store=engine.store, clock=engine.clock, runs_max=pending_max)
        self._versions = SharedReads(self._read_version)

    # -- definitions ----------------------------------------------------------------------
    def validate(self, document: Any) -> Report:
        """Every problem of a drawn workflow, and what is known of its bounds. Never raises."""
        return validate(document, self._node_types)

    async def create_workflow(self, document: Mapping[str, Any], *, tenant_id: str) -> tuple[WorkflowVersion, Report]:
        """Save a new workflow as version 1. Raises InvalidWorkflow, NameTaken (a derived name gets `-2` instead)."""
        report = await self._refuse_invalid(document)
        wanted = document.get("name")
        if wanted is not None:
            return await self._save(document, wanted, tenant_id=tenant_id), report

        async def save_under_a_free_name() -> WorkflowVersion:
            name = await self._free_name(derive_name(document.get("title") or ""), tenant_id)
            return await self._save(document, name, tenant_id=tenant_id)

        return await _despite_rivals(save_under_a_free_name), report

    async def update_workflow(
        self, workflow: str, document: Mapping[str, Any], *, tenant_id: str, expected_version: int | None = None
    ) -> tuple[WorkflowVersion, Report]:
        """Save the next version; equal to the newest, it is that version. Raises NotFound, VersionMismatch too."""
        report = await self._refuse_invalid(document)
        known = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        saved = await self._save(
            document,
            document.get("name") or known.name,
            tenant_id=tenant_id,
            workflow_id=known.workflow_id,
            expected_version=expected_version,
        )
        return saved, report

    async def save_workflow(self, document: Mapping[str, Any], *, tenant_id: str) -> tuple[WorkflowVersion, Report]:
        """Save a file under its name: new, the next version, or the newest again if nothing changed."""
        report = await self._refuse_invalid(document)
        name = document.get("name") or derive_name(document.get("title") or "")

        async def save_under_this_name() -> WorkflowVersion:
            known = await self._store.get_workflow(tenant_id=tenant_id, workflow=name)
            workflow_id = None if known is None else known.workflow_id
            return await self._save(document, name, tenant_id=tenant_id, workflow_id=workflow_id)

        return await _despite_rivals(save_under_this_name), report

    async def get_all_workflows(self, *, tenant_id: str) -> list[WorkflowVersion]:
        """The newest version of every workflow, by name."""
        return await self._store.list_workflows(tenant_id=tenant_id)

    async def get_workflow_by_id(self, workflow: str, *, tenant_id: str, version: int | None = None) -> WorkflowVersion:
        """One workflow by id or name. Raises NotFound."""
        found = await self._versions.get((tenant_id, workflow, version)) if is_storable(workflow) else None
        if found is None:
            of_version = "" if version is None else f" in version {version}"
            raise NotFound(f"there is no workflow {workflow!r}{of_version}")
        return found

    async def delete_workflow(self, workflow: str, *, tenant_id: str) -> None:
        """Remove a workflow and free its name. Raises NotFound, WorkflowHasRuns."""
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        await self._store.delete_workflow(tenant_id=tenant_id, workflow_id=found.workflow_id)

    # -- runs -----------------------------------------------------------------------------
    async def execute_workflow(
        self,
        workflow: str,
        input_: Any,
        *,
        tenant_id: str,
        version: int | None = None,
        idempotency_key: str | None = None,
        retention_days: int | None = None,
        available_at: int | None = None,
        deadline_at: int | None = None,
    ) -> StartedRun:
        """Start a run; it is durable when this returns. Times are milliseconds since the epoch.

        Raises NotFound, InvalidInput, InvalidRequest, TooManyPending, StoreUnavailable.
        """
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id, version=version)
        plan = await self._engine.plans.plan(found.workflow_id, found.version)
        payload = await input_payload(input_, plan)
        if idempotency_key is not None:
            check_key(idempotency_key, "an idempotency key")
        head = root_head(
            found,
            plan,
            now=self._engine.clock.now(),
            retention_days_max=self.retention_days_max,
            idempotency_key=idempotency_key,
            retention_days=retention_days,
            available_at=available_at,
            deadline_at=deadline_at,
        )
        hold = self._engine.has_room
        if not hold or head.available_at > head.created_at:
            repeated = await self._place_or_first_run(head)
            if repeated is not None:
                return repeated
        birth = await self._engine.orchestrator.give_birth(head, plan, payload, hold=hold)
        status = birth.status
        if not birth.created:
            existing = await self._store.get_instance(birth.instance_id, tenant_id=tenant_id)
            status = status if existing is None else existing.status
        return StartedRun(birth.instance_id, status, birth.created)

    async def _place_or_first_run(self, head: InstanceHead) -> StartedRun | None:
        """Take a place among the PENDING runs; where there is none, a repeated start still finds its first run."""
        try:
            await self._pending_limit.take_place()
        except TooManyPending:
            if head.idempotency_key is None:
                raise
            first = await self._store.find_start(
                tenant_id=head.tenant_id, workflow_name=head.workflow_name, idempotency_key=head.idempotency_key
            )
            if first is None:
                raise
            return StartedRun(first.head.instance_id, first.status, created=False)
        return None

    async def get_run(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """A run with its input, outcome and activations, as REST shows it. Raises NotFound."""
        loaded = await self._loaded(instance_id, tenant_id)
        return run_details(loaded.row, loaded.events)

    async def get_run_status(self, instance_id: str, *, tenant_id: str) -> InstanceRow:
        """The row alone. Raises NotFound."""
        row = await self._store.get_instance(instance_id, tenant_id=tenant_id) if is_run_id(instance_id) else None
        if row is None:
            raise _no_run(instance_id)
        return row

    async def list_runs(
        self,
        *,
        tenant_id: str,
        limit: int,
        workflow: str | None = None,
        statuses: Sequence[Status] = (),
        since: int | None = None,
        until: int | None = None,
        before: tuple[int, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Runs by (createdAt, instanceID) descending. Raises NotFound for an unknown workflow."""
        name = None
        if workflow is not None:
            name = (await self.get_workflow_by_id(workflow, tenant_id=tenant_id)).name
        rows = await self._store.list_instances(
            tenant_id=tenant_id,
            limit=limit,
            before=before,
            workflow_name=name,
            statuses=statuses,
            since=since,
            until=until,
        )
        return [run_summary(row) for row in rows]

    async def get_log(self, instance_id: str, *, tenant_id: str, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order. Raises NotFound."""
        return [
            log_entry(event) for event in await self.get_events(instance_id, tenant_id=tenant_id, after_seq=after_seq)
        ]

    async def get_events(self, instance_id: str, *, tenant_id: str, after_seq: int = 0) -> list[Event]:
        """The same as stored events. Raises NotFound."""
        await self.get_run_status(instance_id, tenant_id=tenant_id)
        events: list[Event] = []
        while True:
            page = await self._store.read_log(instance_id, after_seq=after_seq, limit=_LOG_PAGE)
            events += page
            if len(page) < _LOG_PAGE:
                return events
            after_seq = page[-1].seq

    async def get_steps(self, instance_id: str, *, tenant_id: str) -> list[dict[str, Any]]:
        """Every activation with timings, output and error. Raises NotFound."""
        loaded = await self._loaded(instance_id, tenant_id)
        return activations(loaded.events, loaded.row.status)

    async def cancel_run(self, instance_id: str, *, tenant_id: str, reason: str) -> Status:
        """Return once CANCELLED is committed. Raises NotFound, InvalidInput; RunIsTerminal if it ended otherwise."""
        checked_payload(reason, "the reason")
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if not row.status.is_terminal:
            answer = await self._engine.orchestrator.ask(instance_id, CancelRequested(reason))
            if not answer.held or not answer.status.is_terminal:
                await self._store.append_cancel(tenant_id=tenant_id, instance_id=instance_id, reason=reason)
            row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.status is not Status.CANCELLED:
            raise RunIsTerminal(f"run {instance_id} is {row.status.value} already")
        return row.status

    async def send_signal(
        self, instance_id: str, event: str, payload: Any, *, tenant_id: str, key: str | None = None
    ) -> bool:
        """Keep a signal until it is consumed; True if a fitting wait was open.

        Raises NotFound, RunIsTerminal, TooManySignals, InvalidInput.
        """
        check_key(event, "an event's name")
        if key is not None:
            check_key(key, "a signal's key")
        body = checked_payload(payload, "the signal's payload")
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.status.is_terminal:
            raise RunIsTerminal(f"run {instance_id} is {row.status.value} already")
        answer = await self._engine.orchestrator.ask(instance_id, SignalSent(event, body, key))
        if answer.refused == ValueNotStorable.code:
            raise InvalidInput("the database does not take the signal's payload")
        if answer.refused is not None:
            raise TooManySignals(f"run {instance_id} keeps as many unconsumed signals as it may")
        if answer.held:
            if answer.delivered is None:
                raise RunIsTerminal(f"run {instance_id} is {answer.status.value} already")
            return answer.delivered
        result = await self._store.append_signal(
            tenant_id=tenant_id, instance_id=instance_id, event=event, payload=body, key=key
        )
        if result.seq is None and not result.repeated:
            status = await self.get_run_status(instance_id, tenant_id=tenant_id)
            raise RunIsTerminal(f"run {instance_id} is {status.status.value} already")
        return await self._was_delivered(row, key=key, seq=result.seq)

    # -- within ---------------------------------------------------------------------------
    async def _read_version(self, key: tuple[str, str, int | None]) -> WorkflowVersion | None:
        tenant_id, workflow, version = key
        return await self._store.get_workflow(tenant_id=tenant_id, workflow=workflow, version=version)

    async def _refuse_invalid(self, document: Any) -> Report:
        # In a thread: the code of nodes is compiled by a process of its own, and a large graph takes its time.
        report = await asyncio.to_thread(self.validate, document)
        if report.errors:
            first = report.errors[0]
            others = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
            raise InvalidWorkflow(f"{first.message}{others}", details=[error.as_json() for error in report.errors])
        return report

    async def _save(
        self,
        document: Mapping[str, Any],
        name: str,
        *,
        tenant_id: str,
        workflow_id: str | None = None,
        expected_version: int | None = None,
    ) -> WorkflowVersion:
        return await self._store.save_workflow(
            tenant_id=tenant_id,
            name=name,
            title=document.get("title"),
            definition={**document, "name": name},
            workflow_id=workflow_id,
            expected_version=expected_version,
        )

    async def _free_name(self, derived: str, tenant_id: str) -> str:
        name, number = derived, 2
        while await self._store.get_workflow(tenant_id=tenant_id, workflow=name) is not None:
            name = f"{derived[: 63 - len(str(number))]}-{number}"
            number += 1
        return name

    async def _loaded(self, instance_id: str, tenant_id: str) -> Loaded:
        found = await self._store.load([instance_id]) if is_run_id(instance_id) else {}
        loaded = found.get(instance_id)
        if loaded is None or loaded.row.head.tenant_id != tenant_id:
            raise _no_run(instance_id)
        return loaded

    async def _was_delivered(self, row: InstanceRow, *, key: str | None, seq: int | None) -> bool:
        """Was a fitting wait open when a signal that we did not decide ourselves arrived?

        Only a fold knows: a wait that is still open may have been promised an earlier signal.
        """
        events = await self.get_events(row.head.instance_id, tenant_id=row.head.tenant_id)
        arrived = next(
            event
            for event in events
            if event.type is EventType.SIGNAL_RECEIVED
            and (event.seq == seq if seq is not None else event.payload.value.get("key") == key)
        )
        plan = await self._engine.plans.plan_of(row.head)
        before = fold(plan, row.head, events[: arrived.seq - 1])
        signal = arrived.payload.value
        return before.oldest_wait(signal["event"], Payload.trusted(signal["payload"])) is not None


def _no_run(instance_id: str) -> NotFound:
    return NotFound(f"there is no run {instance_id}", hint="`anabranch runs list` shows the runs.")


async def _despite_rivals(save: Callable[[], Awaitable[WorkflowVersion]]) -> WorkflowVersion:
    """Save, and look again if the name was taken, or the workflow removed, between the look and the save."""
    for _ in range(SAVE_TRIES_MAX - 1):
        try:
            return await save()
        except (NameTaken, NotFound):
            continue
    return await save()
