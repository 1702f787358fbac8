"""Operations that change runs: signal, cancel, pause, resume, delete.

A mixin of `WorkflowService`, above `start_verbs`. Each command returns once its effect is durable. Runs that the
engine of this process owns go through that engine, all others through the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import Any

from anabranch.engine.ports import InstanceRow, ParkedRun
from anabranch.engine.rules.event_payloads import RunResumed, RunSuspended
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.shared.decisions import PAUSED_HINT
from anabranch.engine.rules.stimuli import CancelRequested, PauseRequested, ResumeRequested, SignalSent
from anabranch.engine.rules.values import check_key, checked_payload
from anabranch.errors import InvalidInput, RunIsTerminal, StoreUnavailable, TooManySignals, ValueNotStorable
from anabranch.run_requests import is_run_id
from anabranch.service.runs.read_verbs import no_run
from anabranch.service.runs.signal_answers import SignalAnswers
from anabranch.service.runs.start_verbs import StartVerbs

# 2 s: a sweep or a count by another process, which excludes a deletion, takes some 50 ms at a time.
DELETE_ATTEMPTS_MAX = 20
DELETE_PAUSE_MS = 100


class RunVerbs(StartVerbs):
    """Commands on runs."""

    @cached_property
    def _arrivals(self) -> SignalAnswers:
        return SignalAnswers(self._store)

    async def cancel_run(self, instance_id: str, *, tenant_id: str, reason: str) -> Status:
        """Return once CANCELLED is committed. Raises NotFound, InvalidInput; RunIsTerminal if it ended otherwise."""
        checked_payload(reason, "the reason")
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if not row.status.is_terminal:
            answer = await self._engine.orchestrator.ask(instance_id, CancelRequested(reason))
            if not answer.owned or not answer.status.is_terminal:
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

        async def resume(each: InstanceRow) -> None:
            if each.head.instance_id == instance_id or each.suspended_for in (None, SuspendReason.PAUSED):
                await self._resume_one(each, tenant_id=tenant_id, by=by)

        return await self._with_children(instance_id, resume, tenant_id=tenant_id, children=children)

    async def delete_run(self, instance_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Delete an ended run with its log before its retention is over; its children stay.

        Raises NotFound; RunIsOpen for an open run, or while its parent is open.
        """
        if not is_run_id(instance_id):
            raise no_run(instance_id)
        for _ in range(DELETE_ATTEMPTS_MAX):
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
        head = self._engine.orchestrator.head_of(instance_id)
        if head is None:
            answer = await self._engine.claimer.signal_parked(ParkedRun(instance_id, tenant_id), signal)
        elif head.tenant_id == tenant_id:
            answer = await self._engine.orchestrator.ask(instance_id, signal)
        else:
            raise no_run(instance_id)
        if answer.refused == ValueNotStorable.code:
            raise InvalidInput("the database rejects the signal's payload")
        if answer.refused is not None:
            raise TooManySignals(f"run {instance_id} has too many unconsumed signals")
        if answer.owned and answer.delivered is not None:
            return answer.delivered
        return await self._append_signal(instance_id, signal, tenant_id=tenant_id)

    # -- within ---------------------------------------------------------------------------
    async def _append_signal(self, instance_id: str, signal: SignalSent, *, tenant_id: str) -> bool:
        """Signal a run that this process does not own, or that has ended."""
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
            row = await self.get_run_status(instance_id, tenant_id=tenant_id)
            if not await self._arrivals.is_awaited(row, signal.event, signal.payload):
                raise
            result = await append(awaited=True)
        if result.row is None:
            raise no_run(instance_id)
        if result.seq is None:  # a repeated key, or a run that has ended
            return await self._first_answer(result.row, signal.key)
        return await self._arrivals.was_delivered(result.row, result.seq)

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
        if not answer.owned:
            await self._store.append_suspension(
                instance_id,
                RunSuspended(SuspendReason.PAUSED, why, PAUSED_HINT),
                tenant_id=tenant_id,
                log_limit=self._engine.options.log_limit,
            )

    async def _resume_one(self, row: InstanceRow, *, tenant_id: str, by: str) -> None:
        instance_id = row.head.instance_id
        answer = await self._engine.orchestrator.ask(instance_id, ResumeRequested(by))
        if not answer.owned:
            await self._store.append_resumption(
                instance_id, RunResumed(by), tenant_id=tenant_id, log_limit=self._engine.options.log_limit
            )

    async def _first_answer(self, row: InstanceRow, key: str | None) -> bool:
        """The answer of the first signal with this key, now that the run has ended. Raises RunIsTerminal."""
        answer = None if key is None else await self._arrivals.first_answer(row, key)
        if answer is None:
            raise RunIsTerminal(f"run {row.head.instance_id} is {row.status.value} already")
        return answer
