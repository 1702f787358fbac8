"""Commands on runs: start, signal, cancel, pause, resume.

A mixin of `WorkflowService`, above `read_verbs`. Each command returns once its effect is durable. Runs that the
engine of this process owns go through that engine, all others through the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from anabranch.engine.lifecycle import Engine
from anabranch.engine.plans import ActiveVersions
from anabranch.engine.ports import InstanceRow, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.payloads import RunResumed, RunSuspended, read_input, read_trigger
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.rules.shared.decisions import PAUSED_HINT
from anabranch.engine.rules.shared.fitness import Needs
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import CancelRequested, PauseRequested, ResumeRequested, SignalSent, Started
from anabranch.engine.rules.values import checked_payload
from anabranch.errors import (
    InvalidInput,
    InvalidRequest,
    NoManualStart,
    NotFound,
    RunIsTerminal,
    StoreUnavailable,
    TooManyPending,
    TooManySignals,
    UnknownNodeType,
    UnknownWorkflow,
    ValueNotStorable,
)
from anabranch.run_requests import (
    SAME_INPUT,
    START_NOW,
    StartedRun,
    StartOptions,
    check_key,
    check_start,
    check_start_key,
    is_reserved,
)
from anabranch.service.definitions.workflow_references import References
from anabranch.service.runs.input_checks import is_key, is_run_id
from anabranch.service.runs.new_runs import check_beginning, input_payload, new_run_id, root_head
from anabranch.service.runs.pending_limit import PendingLimit
from anabranch.service.runs.read_verbs import ReadVerbs, no_run, no_version_of
from anabranch.service.runs.signal_answers import SignalAnswers

# 2 s: a sweep or a count by another process, which excludes a deletion, takes some 50 ms at a time.
DELETE_TRIES_MAX = 20
DELETE_PAUSE_MS = 100

START_REFUSALS = (NotFound, InvalidInput, InvalidRequest, NoManualStart, TooManyPending)
"""Errors of a start that return the earlier run instead if its key was used before."""

# 100 re-runs of re-runs: more than is ever useful.
RERUNS_FOLLOWED_MAX = 100


class RunVerbs(ReadVerbs):
    """Commands on runs."""

    def __init__(
        self,
        *,
        engine: Engine,
        node_types: NodeTypes,
        retention_days_max: int,
        pending_max: int,
        pending_per_tenant_max: int | None = None,
        references: References | None = None,
    ) -> None:
        super().__init__(engine=engine, node_types=node_types, references=references)
        self.retention_days_max = retention_days_max
        self._arrivals = SignalAnswers(engine.store)
        self._active = ActiveVersions()
        self._pending_limit = PendingLimit(
            store=engine.store, clock=engine.clock, runs_max=pending_max, runs_per_tenant_max=pending_per_tenant_max
        )

    def check_can_run(self, *, kind: str, workflow: str, version: int, node_types: Sequence[str] = ()) -> None:
        """Raise UnknownWorkflow or UnknownNodeType for a run that needs what this process does not have; for processes
        that run nothing else."""
        needs = Needs(kind, workflow, version, node_types)
        if self._engine.plans.can_run(needs):
            return
        if needs.kind == CODED_KIND:
            raise UnknownWorkflow(
                f"{needs.workflow} in version {needs.version} is a Python function, and no imported module declares it",
                hint=f"Pass `--import FILE` with the file that declares version {needs.version}.",
            )
        raise UnknownNodeType(
            f"the run has nodes of the types {', '.join(needs.node_types)}, and not all of them are installed here",
            hint="Pass `--import FILE` with the file that declares them.",
        )

    async def execute_workflow(
        self, workflow: str, input_: Any, options: StartOptions = START_NOW, *, tenant_id: str
    ) -> StartedRun:
        """Start a run; it is durable when this returns.

        A key that was used before returns the first run, even if the rest of the request would be rejected.
        Raises NotFound, InvalidInput, InvalidRequest (for reserved keys, too), NoManualStart, UnknownTrigger,
        TooManyPending, StoreUnavailable.
        """
        if options.idempotency_key is not None:
            check_start_key(options.idempotency_key)
        return await self._start_checked(workflow, input_, options, tenant_id=tenant_id)

    async def start_triggered_run(
        self, workflow: str, input_: Any, options: StartOptions, *, tenant_id: str
    ) -> StartedRun:
        """The same for triggers, under one of the keys that are reserved for them."""
        key = options.idempotency_key
        assert key is not None and is_reserved(key), "the key of a trigger must be a reserved one"
        return await self._start_checked(workflow, input_, options, tenant_id=tenant_id)

    async def _start_checked(self, workflow: str, input_: Any, options: StartOptions, *, tenant_id: str) -> StartedRun:
        now = self._engine.clock.now()
        start = partial(
            self._start,
            tenant_id=tenant_id,
            input_=input_,
            trigger=options.trigger,
            make_head=partial(
                root_head,
                options=options,
                tenant_id=tenant_id,
                # Both attempts use one id: if the first was written although it failed, the second finds it.
                instance_id=new_run_id(now),
                now=now,
                retention_days_max=self.retention_days_max,
            ),
        )
        try:
            check_start(version=options.version, retention_days=options.retention_days)
            return await self._start_version(workflow, options.version, start, tenant_id=tenant_id)
        except START_REFUSALS:
            # Looked up only here: nearly every start has a new key and must not pay for a read.
            first = await self.find_first_run(workflow, options.idempotency_key, tenant_id=tenant_id)
            if first is None:
                raise
            return first

    async def rerun(
        self, instance_id: str, options: StartOptions = START_NOW, *, tenant_id: str, input_: Any = SAME_INPUT
    ) -> StartedRun:
        """Start a new run like another one: with its input unless another is given, of its version unless one is named.

        It begins where that one began.

        Raises NotFound, also if the workflow is deleted; InvalidInput, InvalidRequest (for test runs, too),
        TooManyPending, StoreUnavailable.
        """
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.head.workflow_id is None:
            raise InvalidRequest(f"run {instance_id} is a test run of a graph that is not saved", hint="Test it again.")
        created = (await self._store.read_log(instance_id, limit=1))[0].payload
        if input_ is SAME_INPUT:
            input_ = read_input(created)
        version = options.version or row.head.workflow_version
        options = replace(options, rerun_of=instance_id, version=version, trigger=read_trigger(created))
        try:
            return await self.execute_workflow(row.head.workflow_id, input_, options, tenant_id=tenant_id)
        except NotFound:
            raise no_version_of(row.head, version) from None

    async def newest_rerun(self, instance_id: str, *, tenant_id: str) -> InstanceRow | None:
        """The newest run that repeats this one, directly or through others; None if there is none."""
        newest = None
        for _ in range(RERUNS_FOLLOWED_MAX):
            found = await self._store.list_instances(RunFilter(rerun_of=instance_id), tenant_id=tenant_id, limit=1)
            if not found:
                break
            newest, instance_id = found[0], found[0].head.instance_id
        return newest

    async def find_first_run(self, workflow: str, idempotency_key: str | None, *, tenant_id: str) -> StartedRun | None:
        """The run that was started with this key, in any state; None if there is none."""
        if idempotency_key is None or not is_key(idempotency_key):
            return None
        try:
            found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        except NotFound:
            return None
        first = await self._store.find_start(
            tenant_id=tenant_id, workflow_name=found.name, idempotency_key=idempotency_key
        )
        return None if first is None else StartedRun(first.head.instance_id, first.status, created=False)

    async def _start_version(
        self, workflow: str, version: int | None, start: Callable[..., Awaitable[StartedRun]], *, tenant_id: str
    ) -> StartedRun:
        """Start the requested version, or the active one, which is not read again if it is known."""
        known = self._active.get(tenant_id, workflow) if version is None else None
        if known is not None:
            # Only a created run proves that the cached version is still active. Otherwise read it.
            with suppress(*START_REFUSALS):
                started = await start(known, only_active=True)
                if started.created:
                    return started
        found = await self.get_startable(workflow, tenant_id=tenant_id, version=version)
        if version is None and found.tenant_id == tenant_id:  # a coded one has options that change with its code
            self._active.note(tenant_id, workflow, found)
        return await start(found, only_active=False)

    async def _start(
        self,
        found: WorkflowVersion,
        *,
        only_active: bool,
        tenant_id: str,
        input_: Any,
        trigger: str | None,
        make_head: Callable[[WorkflowVersion, AnyPlan], InstanceHead],
    ) -> StartedRun:
        plan = await self._engine.plans.plan(found.workflow_id, found.version)
        check_beginning(plan, trigger)
        payload = await input_payload(input_, plan, self.checks, tenant_id=tenant_id, trigger=trigger)
        head = make_head(found, plan)
        hold = self._engine.orchestrator.held.may_begin(head) and self._engine.plans.can_run_plan(head, plan)
        if not hold or head.available_at > head.created_at:
            await self._pending_limit.take_place(head.tenant_id)
        started = Started(payload, trigger, begin=hold, only_active=only_active)
        new_run = await self._engine.orchestrator.create_run(head, plan, started)
        status = new_run.status
        if not new_run.created:
            existing = await self._store.get_instance(new_run.instance_id, tenant_id=head.tenant_id)
            status = status if existing is None else existing.status
        return StartedRun(new_run.instance_id, status, new_run.created)

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

    async def pause_run(self, instance_id: str, *, tenant_id: str, by: str, children: bool = True) -> Status:
        """Pause a run; returns once it is SUSPENDED. Executions under way may end. With `children`, also the runs that
        it awaits. Raises NotFound, RunIsTerminal.
        """
        pause = partial(self._pause_one, tenant_id=tenant_id, why=f"paused by {by}")
        return await self._with_children(instance_id, pause, tenant_id=tenant_id, children=children)

    async def resume_run(self, instance_id: str, *, tenant_id: str, by: str, children: bool = True) -> Status:
        """Resume a SUSPENDED run; other open runs are not changed.

        With `children`, also paused runs that it awaits. Raises NotFound, RunIsTerminal.
        """
        resume = partial(self._resume_one, tenant_id=tenant_id, by=by)
        return await self._with_children(instance_id, resume, tenant_id=tenant_id, children=children)

    async def delete_run(self, instance_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Delete an ended run with its log before its retention is over; its children stay.

        Raises NotFound; RunIsOpen for an open run, or while its parent is open.
        """
        if not is_run_id(instance_id):
            raise no_run(instance_id)
        for _ in range(DELETE_TRIES_MAX):
            if await self._store.delete_run(tenant_id=tenant_id, instance_id=instance_id, actor=actor):
                return
            await self._engine.clock.sleep(DELETE_PAUSE_MS)
        raise StoreUnavailable("another process is counting or removing runs", hint="Try again in a moment.")

    async def send_signal(
        self, instance_id: str, event: str, payload: Any, *, tenant_id: str, key: str | None = None
    ) -> bool:
        """Keep a signal until it is consumed; True if a matching wait was open. Without a payload it carries `{}`.

        A repeated key gets the answer of the first signal, even if the run has ended since: the first signal may have
        ended it, and its response may have been lost.
        Raises NotFound, RunIsTerminal, TooManySignals, InvalidInput.
        """
        check_key(event, "an event's name")
        if key is not None:
            check_key(key, "a signal's key")
        # Never null, which is the output of a wait that timed out.
        signal = SignalSent(event, checked_payload({} if payload is None else payload, "the signal's payload"), key)
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.status.is_terminal:
            return await self._first_answer(row, key)
        answer = await self._engine.orchestrator.ask(instance_id, signal)
        if answer.refused == ValueNotStorable.code:
            raise InvalidInput("the database rejects the signal's payload")
        if answer.refused is not None:
            raise TooManySignals(f"run {instance_id} has too many unconsumed signals")
        if answer.held:
            if answer.delivered is None:
                return await self._first_answer(await self.get_run_status(instance_id, tenant_id=tenant_id), key)
            return answer.delivered
        append = partial(
            self._store.append_signal,
            instance_id,
            signal,
            tenant_id=tenant_id,
            log_limit=self._engine.options.log_limit,
        )
        try:
            result = await append()
        except TooManySignals:
            # A signal that the run waits for is always accepted: otherwise the run would wait for ever.
            if not await self._arrivals.is_awaited(row, event, signal.payload):
                raise
            result = await append(awaited=True)
        if result.seq is None:  # a repeated key, or a run that has ended meanwhile
            return await self._first_answer(await self.get_run_status(instance_id, tenant_id=tenant_id), key)
        return await self._arrivals.was_delivered(row, result.seq)

    # -- within ---------------------------------------------------------------------------
    async def _with_children(
        self, instance_id: str, act: Callable[[InstanceRow], Awaitable[None]], *, tenant_id: str, children: bool
    ) -> Status:
        """Act upon a run, then upon those that it awaits, from generation to generation."""
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.status.is_terminal:
            raise RunIsTerminal(f"run {instance_id} is {row.status.value} already")
        suspended_for = row.suspended_for
        todo = [row]
        for each in todo:  # grows while it is walked
            if each is row or each.suspended_for in (None, SuspendReason.PAUSED):
                await act(each)
            if children:
                todo += await self._store.awaited_children(each.head.instance_id)
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.status.is_terminal and suspended_for is None:
            raise RunIsTerminal(f"run {instance_id} is {row.status.value} already")
        return row.status

    async def _pause_one(self, row: InstanceRow, *, tenant_id: str, why: str) -> None:
        instance_id = row.head.instance_id
        answer = await self._engine.orchestrator.ask(instance_id, PauseRequested(why))
        if not answer.held:
            await self._store.append_suspension(
                instance_id,
                RunSuspended(SuspendReason.PAUSED, why, PAUSED_HINT),
                tenant_id=tenant_id,
                log_limit=self._engine.options.log_limit,
            )

    async def _resume_one(self, row: InstanceRow, *, tenant_id: str, by: str) -> None:
        instance_id = row.head.instance_id
        answer = await self._engine.orchestrator.ask(instance_id, ResumeRequested(by))
        if not answer.held:
            await self._store.append_resumption(
                instance_id, RunResumed(by), tenant_id=tenant_id, log_limit=self._engine.options.log_limit
            )

    async def _first_answer(self, row: InstanceRow, key: str | None) -> bool:
        """The answer of the first signal with this key, now that the run has ended. Raises RunIsTerminal."""
        answer = None if key is None else await self._arrivals.first_answer(row, key)
        if answer is None:
            raise RunIsTerminal(f"run {row.head.instance_id} is {row.status.value} already")
        return answer
