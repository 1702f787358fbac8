"""The task worker of a process with a broker: jobs of pools that it does not serve itself are executed elsewhere.

Such a job has no slot here and no time limit: the executor keeps both. It is known by its run and dispatch like every
other one, so stops, withdrawals and second dispatches follow the same rules, and a result that nobody awaits any more
is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.console.lines import Sink
from anabranch.engine.ports.process_ports import Gate
from anabranch.engine.queues import LocalTaskQueue
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.shared.run_state import InstanceHead, Redone
from anabranch.engine.rules.stimuli import HandlerOutcome
from anabranch.engine.task_worker import Execution, TaskWorker


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job of a run that other processes are to execute; its result has not come."""

    node_id: str
    scope: str
    attempt: int
    pool: str
    has_begun: bool


class RemoteExecution(Protocol):
    """Executes jobs in other processes."""

    def takes(self, node: PlanNode) -> bool:
        """Whether the jobs of this node are executed elsewhere."""

    def send(self, execution: Execution, *, may_run: bool) -> None:
        """Have a job executed; its outcome comes by `PoolTaskWorker.answer`. Never waits and never refuses.

        One that `may_run` already was dispatched before its run came here: an executor may still have it.
        """

    def cancel(self, execution: Execution) -> None:
        """The outcome is no longer awaited. Does nothing for a job that was not sent."""

    def has_begun(self, execution: Execution) -> bool:
        """Whether an executor has reported that it executes the job."""

    def jobs_of(self, instance_id: str) -> Sequence[RemoteJob]:
        """The outstanding jobs of a run that this process owns, steps of coded workflows included."""

    def take_outstanding_max(self) -> int:
        """The maximum of outstanding jobs since the last call."""

    def why_waiting(self, pool: str) -> str | None:
        """Why jobs of this pool are not sent now; None: they are, or they are executed here."""

    def connect(self, worker: PoolTaskWorker) -> None:
        """Set the worker that awaits the outcomes. Called once, before the first job."""


class PoolTaskQueue(LocalTaskQueue[Execution]):
    """The queue of this process, with another way out for jobs that are executed elsewhere."""

    def __init__(self, gates: Mapping[str, Gate] | None, elsewhere: RemoteExecution) -> None:
        super().__init__(gates)
        self._elsewhere = elsewhere
        self.dispatched_before: Collection[tuple[str, Dispatch]] = ()
        """What was dispatched before its run came here, of the run that is taken over at the moment."""

    def add(self, job: Execution) -> None:
        """Queue a job here, or send it. After `close` it is dropped."""
        if self.accepts(job) and self._elsewhere.takes(job.node):
            self._elsewhere.send(job, may_run=(job.instance_id, job.dispatch) in self.dispatched_before)
        else:
            super().add(job)

    def take_busy_max(self) -> int:
        """The same, with the jobs that are outstanding elsewhere: if this process is lost, their runs are suspects for
        as long as these jobs take. Without them all runs would be taken over one after the other.
        """
        return super().take_busy_max() + self._elsewhere.take_outstanding_max()


class PoolTaskWorker(TaskWorker):
    """Runs handlers here, and awaits those that run elsewhere."""

    def __init__(self, *, elsewhere: RemoteExecution, tasks: PoolTaskQueue, **parts: Any) -> None:
        super().__init__(tasks=tasks, **parts)
        self._elsewhere = elsewhere
        self._pool_tasks = tasks
        self._steps: dict[Execution, asyncio.Future[HandlerOutcome]] = {}
        """Attempts of steps of coded workflows."""
        elsewhere.connect(self)

    def note_dispatched_before(self, instance_id: str, dispatches: Collection[Dispatch]) -> None:
        """Executors may have these attempts: they are asked before one of them is sent."""
        self._pool_tasks.dispatched_before = {(instance_id, each) for each in dispatches}

    @property
    def console(self) -> Sink | None:
        """The console, which stores lines and progress."""
        return self._console

    async def run_step(
        self, head: InstanceHead, dispatch: Dispatch, node: PlanNode, *, redone: Redone | None, may_run: bool
    ) -> HandlerOutcome:
        """Have an attempt of a step executed elsewhere; its function awaits it, and cancels it with itself."""
        execution = Execution(head, dispatch, node, {}, self._clock, self._threads, self._console)
        execution.redone = redone
        awaited: asyncio.Future[HandlerOutcome] = asyncio.get_running_loop().create_future()
        self._steps[execution] = awaited
        self._elsewhere.send(execution, may_run=may_run)
        try:
            return await awaited
        finally:
            del self._steps[execution]
            if not awaited.done() or awaited.cancelled():
                self._elsewhere.cancel(execution)

    def answer(self, execution: Execution, outcome: HandlerOutcome) -> None:
        """The outcome of a job that was executed elsewhere; dropped if nobody awaits it."""
        step = self._steps.get(execution)
        if step is not None:
            if not step.done():
                step.set_result(outcome)
            return
        of_instance = self._executions.get(execution.instance_id, {})
        if of_instance.get(execution.dispatch) is execution:
            self._forget(execution)
            self._deliver(execution, outcome)

    def withdraw(self, instance_id: str) -> list[Dispatch]:
        """Withdraw the attempts of an instance that have begun neither here nor elsewhere; returns them."""
        queued = [
            each
            for each in self._executions.get(instance_id, {}).values()
            if each.limit is None and not self._elsewhere.has_begun(each)
        ]
        for execution in queued:
            self._stop(execution)
        return [execution.dispatch for execution in queued]

    def _stop(self, execution: Execution) -> None:
        super()._stop(execution)
        self._elsewhere.cancel(execution)


def task_worker(elsewhere: RemoteExecution | None, **parts: Any) -> TaskWorker:
    """The task worker of a process, with or without a broker."""
    return TaskWorker(**parts) if elsewhere is None else PoolTaskWorker(elsewhere=elsewhere, **parts)


def task_queue(elsewhere: RemoteExecution | None, gates: Mapping[str, Gate] | None) -> LocalTaskQueue[Execution]:
    """Its queue."""
    return LocalTaskQueue(gates) if elsewhere is None else PoolTaskQueue(gates, elsewhere)


def bare_head(
    instance_id: str, tenant_id: str, workflow_id: str | None, *, generation: int = 0, deadline_at: int | None = None
) -> InstanceHead:
    """The head of a run for a process that executes its jobs and knows nothing else of it."""
    return InstanceHead(
        instance_id=instance_id,
        tenant_id=tenant_id,
        workflow_id=workflow_id,
        workflow_name="",
        workflow_version=0,
        created_at=0,
        available_at=0,
        deadline_at=deadline_at,
        generation=generation,
    )
