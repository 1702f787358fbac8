"""What a folded state says, in words that outlive the classes: compared between the versions of the engine.

The only file here that knows the engine's own names; it moves with them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import Store
from anabranch.engine.rules.coded.coded_state import CodedState, FunctionActivation, Step
from anabranch.engine.rules.drawn.drawn_state import Activation, InstanceState
from anabranch.engine.rules.evolve import fold, outstanding
from anabranch.engine.rules.shared.run_state import OpenActivation
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.engine.store.opening import open_store
from anabranch.handlers.registry import load_types


async def describe_all(url: str, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each run's folded state, described."""
    store = open_store(url)
    await store.start()
    try:
        plans = PlanCache(store, load_types())
        return {run_id: await _describe(store, plans, run_id) for run_id in run_ids}
    finally:
        await store.stop()


async def faults_of(url: str, run_ids: Sequence[str]) -> list[str]:
    """What is in these logs that does not follow from their definitions."""
    store = open_store(url)
    await store.start()
    try:
        plans = PlanCache(store, load_types())
        found = []
        for run_id in run_ids:
            loaded = (await store.load([run_id]))[run_id]
            head = loaded.row.head
            found += [f"{run_id}: {fault}" for fault in check_log(await plans.plan_of(head), head, loaded.events)]
        return found
    finally:
        await store.stop()


async def _describe(store: Store, plans: PlanCache, run_id: str) -> dict[str, Any]:
    loaded = (await store.load([run_id]))[run_id]
    state = fold(await plans.plan_of(loaded.row.head), loaded.row.head, loaded.events)
    described = {
        "lastSeq": state.last_seq,
        "status": state.status.value,
        "outcome": None if state.outcome is None else state.outcome.value,
        "keptSignals": sorted(
            [kept.seq, event] for event, all_kept in state.signals.kept.items() for kept in all_kept.values()
        ),
        "answered": dict(sorted(state.signals.answers.items())),
        "recoveries": 0 if state.suspicion is None else state.suspicion.recoveries,
        "nextDue": state.next_due(),
        "owes": sorted([type(command).__name__, *map(str, command)] for command in outstanding(state)),
    }
    return described | (_coded(state) if isinstance(state, CodedState) else _drawn(state))


def _drawn(state: InstanceState) -> dict[str, Any]:
    scopes = {
        path: {
            "open": sorted(_open(activation) for activation in scope.open.values()),
            "ended": sorted(scope.ended),
            "live": dict(sorted(scope.live.items())),
            "dead": dict(sorted(scope.dead.items())),
            "variables": {name: [seq, value] for name, (seq, value) in sorted(scope.entries.items())},
        }
        for path, scope in sorted(state.scopes.items())
    }
    return {"scopes": scopes, "output": state.output()}


def _coded(state: CodedState) -> dict[str, Any]:
    steps = [
        [
            step.name, step.scope, step.kind.value, step.attempt, step.first_seq, step.ended_seq, step.output.value,
            None if step.error is None else step.error.code, step.step_cancelled,
        ]
        for step in state.steps.values()
    ]  # fmt: skip
    opened = [_open(step) for step in state.steps.values() if not step.has_ended]
    return {"steps": steps, "open": sorted(opened), "body": None if state.function is None else _open(state.function)}


def _open(activation: OpenActivation) -> list[Any]:
    assert isinstance(activation, Activation | Step | FunctionActivation)
    node_id, scope = activation.key
    awaited = {} if activation.signal_wait is None else activation.signal_wait.events
    event, match = next(iter(awaited.items()), ("", None))  # in 0.1.0 a wait was for one event
    waits = [event, "" if match is None else json.dumps(match.value)]
    return [
        node_id,
        scope,
        activation.phase.value,
        activation.attempt,
        activation.due_at or 0,
        *waits,
        activation.child_id or "",
    ]
