"""Calls the functions of completed runs again, on their finished logs: no step is called, and they come to the same.

Called by `world` when all has ended. It is the real runner, on a run access whose journal is the log up to
the row that ended the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from anabranch import StepError
from anabranch.durable.definition import WorkflowRegistry
from anabranch.durable.runner import Runner
from anabranch.engine.clock import SystemClock
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ownership.run_access import RunAccess
from anabranch.engine.ports import InstanceHead
from anabranch.engine.queues.task_queue import Slots, present_slot
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.events import ActivationKey
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.stimuli import StepReport
from tests.simulation.coded_facts import CodedFacts
from tests.simulation.program_functions import Call, FunctionCall, StepLedger
from tests.simulation.programs import Run


async def replayed(head: InstanceHead, facts: CodedFacts) -> list[str]:
    """What goes wrong when the function is called with its finished log; empty if nothing does."""
    assert facts.ended is not None, "only what has ended is replayed"
    listener = _Listener(facts)
    found = facts.case.workflow(StepLedger(listener, seed=0))
    runner = Runner(WorkflowRegistry([found]), children=_Nobody(listener), signals=_Nobody(listener))
    runner.connect(cast(Engine, _Shell(head.created_at)))
    journal = fold(facts.case.plan, head, facts.log[:-1])
    run_access = _FinishedDesk(journal, listener.wrong)
    present_slot.set(Slots(lambda: None).take())
    returned = await runner._call(found, cast(RunAccess, run_access), journal, _helpers(head, facts))
    if not isinstance(returned, HandlerResult) or returned.output != facts.ended.payload.value:
        listener.wrong.append(f"it comes to {returned}, and the log has {facts.ended.payload.value}")
    return listener.wrong


class _Shell:
    """What a runner needs of an engine beside the run access."""

    def __init__(self, now: int) -> None:
        self.clock = SystemClock()
        self.clock.adjust(now)


@dataclass(slots=True)
class _FinishedDesk:
    """See `engine.ownership.run_access.RunAccess`: nothing happens to this run any more."""

    journal: CodedState
    wrong: list[str]

    @property
    def committed_seq(self) -> int:
        return self.journal.last_seq

    def report(self, report: StepReport) -> None:
        self.wrong.append(f"it reports {report}")

    def listen(self, settled: Callable[[], None], steps_under_way: Callable[[], Sequence[str]]) -> None:
        """Nothing is settled any more."""

    def stop_listening(self, settled: Callable[[], None]) -> None:
        """The same."""


@dataclass(slots=True)
class _Listener:
    """See `program_functions.Listener`."""

    facts: CodedFacts
    wrong: list[str] = field(default_factory=list)

    def function_begins(self, call: FunctionCall) -> None:
        """It may."""

    def step_begins(self, function: FunctionCall, call: Call, spec: Run) -> tuple[ActivationKey, int]:
        self.wrong.append(f"it calls {call}")
        return (call[0], ""), 1

    def told(self, function: FunctionCall, call: Call, value: Any, error: StepError | None) -> None:
        """Its output shows what it was told."""

    def looked(self, function: FunctionCall, look: int, picture: list[Any]) -> None:
        if self.facts.pictures[function.attempt, look] != picture:
            self.wrong.append(f"look {look} was {self.facts.pictures[function.attempt, look]} and is {picture} now")


class _Nobody:
    """Starts no children and sends no signals."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    async def start(self, helpers: Helpers, **asked: Any) -> str:
        """It must not."""
        self._listener.wrong.append(f"it starts {asked}")
        return ""

    async def send(self, **asked: Any) -> bool:
        """It must not."""
        self._listener.wrong.append(f"it sends {asked}")
        return False


def _helpers(head: InstanceHead, facts: CodedFacts) -> Helpers:
    return Helpers(
        instance_id=head.instance_id,
        tenant_id=head.tenant_id,
        node_id="",
        workflow_id=head.workflow_id,
        scope="",
        attempt=facts.function_attempt,
        now_ms=0,
        context=ContextSnapshot(()),
    )
