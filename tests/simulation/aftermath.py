"""What must be so once a world has become calm and all its runs have ended.

Called by `world` at the end of each simulation: how soon external changes take effect, who still holds
or executes something, and whether every run ended as the contract says it must.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.testing.memory_store.database import MemoryDatabase
from tests.oracle.prediction import Ending, Observed, disagreements
from tests.simulation.cases import probe_case
from tests.simulation.clients import Client
from tests.simulation.coded_facts import CodedFacts
from tests.simulation.coded_replay import replayed
from tests.simulation.facts import Facts
from tests.simulation.judge import Judge
from tests.simulation.machines import EPOCH_MS, Machines

# "Takes effect within 1 s", measured from the answer; and how often the probe looks whether it may begin.
EFFECT_S_MAX = 1.0
PROBE_LOOK_S = 0.05

# Of a row's payload, enough to know it again.
PAYLOAD_CHARACTERS_MAX = 160

_EFFECT = "a cancel or signal from another process takes effect within 1 s"

_OUTCOMES = {
    EventType.NODE_COMPLETED: "completed",
    EventType.NODE_FAILED: "failed",
    EventType.NODE_SKIPPED: "skipped",
}


async def look_how_soon(client: Client, judge: Judge) -> None:
    """Start one more run; see how soon it hears of a signal and of a cancel that come to any process."""
    # With a key: a second probe, after a lost answer, could wait a minute for the handler of the first.
    run = await client.start(probe_case(), idempotency_key="probe")
    effect_key = (run, "sleeper", "")
    while effect_key not in judge.ledger.effects or ("ask", "") not in judge.facts(run).waits:
        await asyncio.sleep(PROBE_LOOK_S)
    await client.signal(run, "approved")
    await asyncio.sleep(EFFECT_S_MAX)
    if ("ask", "") not in judge.facts(run).endings:
        judge.accuse(_EFFECT, f"a signal has no effect within {EFFECT_S_MAX} s", run)
    await client.cancel(run)
    await asyncio.sleep(EFFECT_S_MAX)
    workers = [worker_id for _, worker_id in judge.ledger.effects[effect_key].under_way]
    if workers:
        judge.accuse(_EFFECT, f"{workers} runs on {EFFECT_S_MAX} s after the cancel was acknowledged", run)


def last_look(judge: Judge, machines: Machines, database: MemoryDatabase, rarities: Counter[str]) -> None:
    """Nobody holds, executes or expects anything, and every run is as it should be."""
    for process in machines.living():
        for part in process.dead_parts():
            judge.accuse("no part of a living engine dies", part)
        owned = process.engine.orchestrator.owned_ids
        if owned:
            judge.accuse("nothing is owed by a terminal instance", f"{process.worker_id} holds {owned}", owned[0])
    for (run, node_id, scope), effects in judge.ledger.effects.items():
        workers = [worker_id for _, worker_id in effects.under_way]
        if workers:
            what = f"{node_id} in {scope!r} is still executed by {workers}"
            judge.accuse("handlers in flight are told to stop", what, run)
    for what, run in judge.families.what_nodes_say_of_their_children(judge.runs):
        judge.accuse(judge.families.what_nodes_say_of_their_children, what, run)
    for done in judge.steps.under_way:
        judge.accuse("handlers in flight are told to stop", f"{done.key} is still executed", done.function.run_id)
    for run, facts in judge.runs.items():
        record = database.instances.get(run)
        if record is not None:
            for fault in check_log(facts.case.plan, record.row.head, facts.log):
                judge.accuse(check_log, f"{fault.code.value}: {fault.message}", run)
        if not isinstance(facts, Facts):
            continue  # what coded runs come to is judged as they end
        _compare_with_oracle(judge, run, facts, database.instances[run].row, rarities)


async def replay_completed(judge: Judge, database: MemoryDatabase, rarities: Counter[str]) -> None:
    """Call the function of every completed coded run once more."""
    for run, facts in judge.runs.items():
        if isinstance(facts, CodedFacts) and database.instances[run].row.status is Status.COMPLETED:
            for what in await replayed(database.instances[run].row.head, facts):
                judge.accuse("the replay of a finished log calls nothing and comes to the same", what, run)
            rarities["coded: run replayed at its end"] += 1


def _compare_with_oracle(judge: Judge, run: str, facts: Facts, row: InstanceRow, rarities: Counter[str]) -> None:
    ended = facts.ended
    if facts.case.prediction is None or ended is None or row.head.deadline_at is not None:
        return
    if row.head.generation or row.head.forked_from is not None:
        return  # its failures had another attempt
    if row.status is Status.CANCELLED or _error_code(ended) == "LOG_TOO_LARGE":
        return
    observed = Observed(
        str(row.status.value),
        ended.payload.value if ended.type is EventType.INSTANCE_COMPLETED else None,
        _error_code(ended),
        {key: Ending(_OUTCOMES[each.type], each.attempt, each.payload.value) for key, each in facts.endings.items()},
    )
    for disagreement in disagreements(facts.case.prediction, observed):
        judge.accuse("a run ends as the contract says, whatever crashes", disagreement, run)
    rarities["run matched the oracle"] += 1


def _error_code(ended: Event) -> str | None:
    return ended.payload.value["code"] if ended.type is EventType.INSTANCE_FAILED else None


def written_log(judge: Judge, database: MemoryDatabase, run: str | None) -> str:
    """The row and the log of a run, a line each, with who wrote it; nothing if there is no such run."""
    record = None if run is None else database.instances.get(run)
    if run is None or record is None:
        return ""
    writers = judge.facts(run).writers
    lines = [str(record.row)]
    for number, row in enumerate(record.events):
        writer = writers[number] if number < len(writers) else "?"
        shown = f"{row.node_id} {row.scope} #{row.attempt}" if row.node_id else ""
        handle = f" by {row.next_handle}" if row.next_handle else ""
        text = row.payload.raw.decode()[:PAYLOAD_CHARACTERS_MAX]
        lines.append(f"{row.seq:4} {row.created_at - EPOCH_MS:8} ms {writer:6} {row.type:20} {shown}{handle} {text}")
    return "\n".join(lines)
