"""Drive a case through the engine and read from its log what it did, in the oracle's words."""

from __future__ import annotations

from typing import Any

from anabranch.engine.handler_contract import HandlerRegistry
from anabranch.engine.rules.events import EventType
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore
from tests.driving import Driver, Run
from tests.oracle.graphs import Case
from tests.oracle.prediction import ActivationKey, Ending, Observed

_OUTCOMES = {
    EventType.NODE_COMPLETED: "completed",
    EventType.NODE_FAILED: "failed",
    EventType.NODE_SKIPPED: "skipped",
}


async def run_of(
    case: Case, registry: HandlerRegistry, *, order: int | None, duplicate: bool = False, evaluations_max: int = 0
) -> Run:
    """The case, driven to its end over the memory store; `order` is the seed of the order of results, None: in turn."""
    database = MemoryDatabase(now=lambda: driver.now)
    driver = Driver(MemoryStore(database), registry, seed=order, duplicate=duplicate, evaluations_max=evaluations_max)
    run = driver.add(case.document, case.input, trigger=case.trigger)
    await driver.drive()
    return run


def observe(run: Run) -> Observed:
    """What the log says; an activation that ended twice is refused here."""
    last = run.log[-1]
    endings: dict[ActivationKey, Ending] = {}
    for event in run.log:
        if event.type in _OUTCOMES:
            key = (event.node_id, event.scope)
            assert key not in endings, f"{key} ended twice"
            endings[key] = Ending(_OUTCOMES[event.type], event.attempt, event.payload.value)
    code = last.payload.value["code"] if last.type is EventType.INSTANCE_FAILED else None
    output: Any = last.payload.value if last.type is EventType.INSTANCE_COMPLETED else None
    return Observed(str(run.status.value), output, code, endings)
