"""Drive runs to their end without queues, workers or clocks: plan, commit, apply_outcome, execute, again.

For specs, the stress suite and the oracle: the real rules and the real handlers over any
store, with the order of results chosen by the test. Time stands still until nothing else can
happen, then jumps to the next due time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine.handler_contract import HandlerRegistry, Helpers
from anabranch.engine.log_pages import pages_of
from anabranch.engine.ports import ClaimRequest, InstanceHead, Store
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.stimuli import EvaluationDue, LeaseAcquired, NodeResult, Started, Stimulus, TimersDue
from anabranch.engine.rules.transitions import LeasedState, apply_outcome, plan_transitions
from anabranch.engine.rules.values import Payload
from anabranch.engine.task_worker import outcome_of

WORKER = "driver"
LEASE_MS = 3_600_000
STEPS_MAX = 2_000_000


@dataclass
class Run:
    """One driven instance: what it has committed, and what it still has to execute."""

    leased: LeasedState
    jobs: list[Dispatch] = field(default_factory=list)
    inbox: list[Stimulus] = field(default_factory=list)
    next_due: int | None = None
    parked: bool = False
    """Left to the store until it is due: then it is claimed and folded anew, as by another worker."""
    log: list[Event] = field(default_factory=list)
    dispatched: list[Dispatch] = field(default_factory=list)

    @property
    def state(self) -> InstanceState:
        return self.leased.state

    @property
    def status(self) -> Status:
        return self.leased.state.status

    def ended(self, event_type: str) -> list[tuple[str, str]]:
        """(node id, scope) of the rows of one type, in log order."""
        return [(event.node_id, event.scope) for event in self.log if event.type == event_type]


class Driver:
    """Runs many instances over one store, several results a batch, each instance drained on its own."""

    def __init__(
        self,
        store: Store,
        handlers: HandlerRegistry,
        *,
        seed: int | None = 0,
        now: int = 1_000_000,
        duplicate: bool = False,
        evaluations_max: int = 0,
    ) -> None:
        """Without a `seed`, jobs are executed one at a time, in the order of their dispatch."""
        self.store = store
        self.handlers = handlers
        self.random = None if seed is None else random.Random(seed)
        self.now = now
        self.duplicate = duplicate
        """Deliver every result twice."""
        self.evaluations_max = evaluations_max
        """Pure nodes that one transition evaluates; 0: they are executed as jobs."""
        self.runs: dict[str, Run] = {}

    def add(
        self,
        document: Mapping[str, Any] | Plan,
        input_: Any = None,
        *,
        name: str = "driven",
        trigger: str | None = None,
    ) -> Run:
        """A new instance, created with the next batch."""
        plan = (
            document
            if isinstance(document, Plan)
            else compile_plan(document, self.handlers, evaluates=self.evaluations_max > 0)
        )
        number = len(self.runs) + 1
        head = InstanceHead(
            instance_id=f"00000000-0000-7000-8000-{number:012d}",
            tenant_id="default",
            workflow_id=None,
            workflow_name=name,
            workflow_version=1,
            created_at=self.now,
            available_at=self.now,
            deadline_at=None if plan.deadline_ms is None else self.now + plan.deadline_ms,
        )
        run = Run(LeasedState(InstanceState(plan, head), 0, WORKER, 0), inbox=[Started(Payload.of(input_), trigger)])
        self.runs[head.instance_id] = run
        return run

    async def drive(self) -> None:
        """Until every instance has ended, or waits for a signal."""
        for _ in range(STEPS_MAX):
            if any(run.inbox for run in self.runs.values()):
                await self._commit()
            elif any(run.jobs for run in self.runs.values()):
                await self._execute()
            elif not await self._advance_time():
                return
        raise AssertionError("the runs do not come to an end")

    async def _commit(self) -> None:
        work: list[tuple[LeasedState, Sequence[Stimulus]]] = []
        for run in self.runs.values():
            if run.inbox:
                work.append((run.leased, run.inbox))
                run.inbox = []
        while work:
            planned = plan_transitions(work, now=self.now, lease_ms=LEASE_MS, evaluations_max=self.evaluations_max)
            work = work[len(planned.pending_transitions) :]
            for pending in planned.pending_transitions:
                if pending.defect is not None:
                    raise pending.defect
            outcome = await self.store.commit(planned.transitions)
            settled = apply_outcome(planned, outcome)
            assert not settled.unknown, "nobody else writes here, so every transition wins"
            assert not settled.refused, settled.refused
            for won in settled.won:
                run = self.runs[won.leased.instance_id]
                run.log += won.events
                run.dispatched += won.dispatches
                run.jobs += [each for each in won.dispatches if (each.node_id, each.scope) not in run.state.unevaluated]
                if run.state.unevaluated and not won.parks:
                    run.inbox.append(EvaluationDue())
                run.next_due = None if run.status.is_terminal else run.state.next_due()
                for stop in won.stops:
                    if stop in run.jobs:
                        run.jobs.remove(stop)
                run.parked = won.parks

    async def _execute(self) -> None:
        """Run some of the queued jobs, in an order of the seed's choosing."""
        for run in self.runs.values():
            take = 1
            if self.random is not None:
                self.random.shuffle(run.jobs)
                take = self.random.randint(1, max(1, len(run.jobs)))
            batch, run.jobs = run.jobs[:take], run.jobs[take:]
            for dispatch in batch:
                result = await self._result(run, dispatch)
                run.inbox += [result, result] if self.duplicate else [result]

    async def _result(self, run: Run, dispatch: Dispatch) -> NodeResult:
        activation = run.state.awaits(dispatch.node_id, dispatch.scope, dispatch.attempt)
        assert activation is not None, f"{dispatch} is executed though nobody awaits it"
        helpers = Helpers(
            instance_id=run.leased.instance_id,
            tenant_id=run.state.head.tenant_id,
            node_id=dispatch.node_id,
            workflow_id=None,
            scope=dispatch.scope,
            attempt=dispatch.attempt,
            now_ms=self.now,
            context=activation.context,
        )
        outcome = await outcome_of(self.handlers, activation.node, helpers)
        return NodeResult(dispatch.node_id, dispatch.scope, dispatch.attempt, outcome)

    async def _advance_time(self) -> bool:
        due = min((run.next_due for run in self.runs.values() if run.next_due is not None), default=None)
        if due is None:
            return False
        self.now = max(self.now, due)
        woken = [run for run in self.runs.values() if run.next_due is not None and run.next_due <= self.now]
        await self._claim({run.leased.instance_id: run for run in woken if run.parked})
        for run in woken:
            run.inbox.append(LeaseAcquired() if run.parked else TimersDue())
            run.next_due, run.parked = None, False
        return True

    async def _claim(self, parked: Mapping[str, Run]) -> None:
        """Take parked instances over: nothing of what they were in memory counts any more."""
        if not parked:
            return
        claimed = await self.store.claim(
            ClaimRequest(worker_id=WORKER, limit=len(parked), lease_ms=LEASE_MS, only=list(parked), weight_max=2**62)
        )
        assert len(claimed) == len(parked), "what is due can be claimed"
        for one in claimed:
            row, run = one.row, parked[one.row.head.instance_id]
            events = [event async for page in pages_of(self.store, one) for event in page]
            state = fold(run.state.plan, row.head, events)
            run.leased = LeasedState(state, row.version, WORKER, self.now + LEASE_MS)
