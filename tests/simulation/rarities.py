"""The rare situations that a simulation must have met, or it has tested nothing.

Counted where they happen: by `network` and `processes` as they go wrong, here as they are written
down. `EXPECTED` names those without which a long run fails.
"""

from __future__ import annotations

from collections import Counter

from anabranch.engine.rules.events import ActivationKey, Event, EventType, Status, SuspendReason
from tests.simulation.coded_facts import FUNCTION, CodedFacts
from tests.simulation.facts import Facts, RunFacts
from tests.simulation.invariants import Commit, is_copied

# A dead path of ten or more nodes skipped in one transaction.
DEAD_PATH = 10

# A signal and a timeout within 50 ms of each other meet in one commit, or nearly do.
RACE_MS = 50

# Steps sign their signals with an idempotency key of 16 bytes, written as 32 characters; clients' keys are shorter.
STEP_KEY_CHARACTERS = 32

EXPECTED = (
    "parked run taken over for a signal",
    "item of a node copied by a fork",
    "item of a node done",
    "item of a node recovered",
    "run begun at a trigger",
    "activation skipped in a failed iteration",
    "any-join passed by a late edge",
    "cancel while handlers ran",
    "client asked again after a lost answer",
    "child created",
    "child cancelled with its parent",
    "child held elsewhere cancelled with its parent",
    "clock of a process jumped",
    "clock of the database jumped",
    "coded: function called again",
    "coded: function suspended",
    "coded: cancelled while its function ran",
    "coded: run ended in a later attempt",
    "coded: run replayed at its end",
    "coded: signalled by a step",
    "coded: step called again after a crash",
    "coded: step failed again in a later attempt",
    "coded: step tried again",
    "coded: tried again by another worker",
    "coded: wait ended by another worker",
    "coded: woken while it was suspended",
    "coded: workflow tried again",
    "commit lost to an external write",
    "commit lost to a lock",
    "commit lost to the end of its run",
    "dead path of ten",
    "deadline exceeded",
    "doubled result",
    "failure echoed",
    "failure handled by an edge",
    "external signal to a held run",
    "free instance claimed",
    "handed over at a stop",
    "instance stolen before a commit",
    "job begun before an older one of another tenant",
    "join raced",
    "lapsed lease claimed",
    "late commit lost",
    "late commit won",
    "late result",
    "loop iteration recovered",
    "lost job repaired",
    "node timed out",
    "parent held elsewhere heard of its child",
    "parked parent woken by its child",
    "process crashed",
    "process crashed again and again",
    "process frozen past its lease",
    "suspended for its crashes",
    "company halved",
    "above suspicion again",
    "result lost with its process",
    "retry after restart",
    "run ended by a full log",
    "outcome reused by a fork",
    "pass of a loop without a loop node",
    "run created pending",
    "run forked",
    "run retried",
    "run matched the oracle",
    "signal against timeout",
    "signal in a commit of unknown fate",
    "signal kept for a later wait",
    "start repeated with its key",
    "terminated by an end",
    "timer after restart",
    "timer held back by the store's clock",
    "transition kept waiting by a lock",
    "two commits in flight",
    "unknown commit found not written",
    "unknown commit found written",
    "zombie fenced",
    "pools: broker away",
    "pools: broker did not confirm",
    "pools: executor cut off",
    "pools: executor killed",
    "pools: job doubled",
    "pools: job lost",
    "process without a node type",
    "tenant paused",
    "workflow paused",
    "what kills its process suspended",
    "process killed by what it executed",
)


def count_commit(rarities: Counter[str], commit: Commit) -> None:
    """What is rare about a transaction."""
    if sum(row.type is EventType.NODE_SKIPPED for row in commit.rows) >= DEAD_PATH:
        rarities["dead path of ten"] += 1
    before = commit.before
    if commit.operation == "family" and before is not None:
        _count_family(rarities, commit, before.worker_id)
    if before is None and commit.after.head.parent_id is not None:
        rarities["child created"] += 1
    if before is None and commit.after.status is Status.PENDING and commit.after.worker_id is None:
        rarities["run created pending"] += 1
    if commit.operation == "external" and before is not None and before.worker_id is not None:
        rarities["external signal to a held run"] += commit.rows[0].type is EventType.SIGNAL_RECEIVED
    for row in commit.rows:
        if row.type is EventType.INSTANCE_FAILED and row.payload.value["code"] == "LOG_TOO_LARGE":
            rarities["run ended by a full log"] += 1
            rarities["run ended by a signal for which its log had no room"] += commit.operation == "external"
    if commit.operation == "release":
        rarities["handed over at a stop"] += 1
    was, blame = None if before is None else before.blame, commit.after.blame
    if was is not None and was != blame:
        rarities["company halved"] += blame is not None and blame.company < was.company
        rarities["above suspicion again"] += blame is None
    if any(row.type is EventType.INSTANCE_SUSPENDED for row in commit.rows):
        rarities["suspended for its crashes"] += commit.after.suspended_for is SuspendReason.CRASHED


def count_row(rarities: Counter[str], run: Facts, row: Event, commit: Commit) -> None:
    """What is rare about a row, against the rows before it."""
    key = (row.node_id, row.scope)
    _count_entry_point(rarities, run, row, commit)
    match row.type:
        case EventType.NODE_DISPATCHED if row.attempt > 1:
            if _writer_of_last(run, key) != commit.sender.worker_id:
                rarities["retry after restart"] += 1
        case EventType.NODE_DISPATCHED:
            _count_join(rarities, run, row, commit)
        case EventType.NODE_WAITING:
            _count_wait(rarities, run, row, key)
        case EventType.NODE_COMPLETED:
            _count_completion(rarities, run, row, commit)
        case EventType.NODE_FAILED:
            rarities["failure handled by an edge"] += row.next_handle == "error"
            rarities["node timed out"] += row.payload.value["error"]["code"] == "NODE_TIMEOUT"
        case EventType.NODE_ATTEMPT_FAILED:
            rarities["node timed out"] += row.payload.value["error"]["code"] == "NODE_TIMEOUT"
        case EventType.NODE_SKIPPED:
            rarities["activation skipped in a failed iteration"] += bool(row.scope) and run.abandoned(row.scope)
        case EventType.INSTANCE_CANCELLED:
            rarities["cancel while handlers ran"] += bool(commit.folded.running)
        case EventType.INSTANCE_FAILED:
            rarities["deadline exceeded"] += row.payload.value["code"] == "DEADLINE_EXCEEDED"
        case EventType.INSTANCE_COMPLETED:
            rarities["terminated by an end"] += run.terminated


def count_looping_row(rarities: Counter[str], run: Facts, row: Event, commit: Commit) -> None:
    """The same for a run with loops without a loop node."""
    rarities["pass of a loop without a loop node"] += row.scope.partition("#")[2] == "2"
    rarities["pass copied by a fork"] += "#" in row.scope and is_copied(commit)
    is_reopened = row.type is EventType.INSTANCE_REOPENED
    rarities["run with passes retried"] += is_reopened and bool(run.case.shape.regions)
    rarities["run with nodes per item retried"] += is_reopened and run.case.is_mapped
    _count_entry_point(rarities, run, row, commit)
    if row.scope.rpartition("/")[2].rpartition("[")[0] == row.node_id:
        key = (row.node_id, row.scope)
        rarities["item of a node copied by a fork"] += is_copied(commit)
        if row.type is EventType.NODE_COMPLETED and key in run.last:
            rarities["item of a node done"] += 1
            rarities["item of a node recovered"] += _writer_of_last(run, key) != commit.sender.worker_id


def _count_entry_point(rarities: Counter[str], run: Facts, row: Event, commit: Commit) -> None:
    """What is rare about a run that begins at a trigger."""
    if row.type is EventType.NODE_DISPATCHED and row.node_id == run.case.trigger:
        rarities["run begun at a trigger"] += 1
        rarities["run begun at a trigger by another worker"] += run.writers[0] != commit.sender.worker_id
        rarities["child begun at its workflowCall"] += commit.after.head.parent_id is not None
        rarities["run begun at a trigger forked"] += is_copied(commit)
    rarities["run begun at a trigger retried"] += (
        row.type is EventType.INSTANCE_REOPENED and run.case.trigger is not None
    )


def count_coded_row(rarities: Counter[str], run: CodedFacts, row: Event, commit: Commit) -> None:
    """The same for the row of a coded run."""
    key = (row.node_id, row.scope)
    elsewhere = _writer_of_last(run, key) != commit.sender.worker_id
    match row.type:
        case EventType.NODE_DISPATCHED if row.attempt > 1:
            rarities["coded: workflow tried again" if key == FUNCTION else "coded: step tried again"] += 1
            rarities["coded: tried again by another worker"] += elsewhere
        case EventType.NODE_WAITING if key == FUNCTION:
            ready = row.payload.value.get("ready", False)
            rarities["coded: woken while it was suspended" if ready else "coded: function suspended"] += 1
        case EventType.NODE_WAITING:
            _count_wait(rarities, run, row, key)
        case EventType.NODE_COMPLETED if key in run.last and elsewhere:
            rarities["coded: wait ended by another worker"] += 1
        case EventType.NODE_FAILED if row.scope.find("@") >= 0:
            rarities["coded: step failed again in a later attempt"] += 1
        case EventType.INSTANCE_COMPLETED | EventType.INSTANCE_FAILED:
            rarities["coded: run ended in a later attempt"] += run.function_attempt > 1
        case EventType.INSTANCE_CANCELLED:
            rarities["coded: cancelled while its function ran"] += bool(commit.folded.running)
        case EventType.SIGNAL_RECEIVED:
            rarities["coded: signalled by a step"] += len(row.payload.value.get("key") or "") == STEP_KEY_CHARACTERS


def _count_family(rarities: Counter[str], commit: Commit, held_by: str | None) -> None:
    """A run that was touched by the end of its child, or of its parent."""
    if commit.rows:
        rarities["child cancelled with its parent"] += 1
        rarities["child held elsewhere cancelled with its parent"] += held_by not in (None, commit.sender.worker_id)
    elif held_by is None:
        rarities["parked parent woken by its child"] += 1
    else:
        rarities["parent held elsewhere heard of its child"] += held_by != commit.sender.worker_id


def _count_join(rarities: Counter[str], run: Facts, row: Event, commit: Commit) -> None:
    """An `all` join whose last two edges were decided in one transaction: neither result saw the other alone."""
    ended_now = {
        each.node_id
        for each in commit.rows
        if each.scope == row.scope and each.seq < row.seq and each.type is EventType.NODE_COMPLETED
    }
    sources = {source for source, _ in run.incoming[row.node_id]}
    if len(sources & ended_now) > 1:
        rarities["join raced"] += 1


def _count_wait(rarities: Counter[str], run: RunFacts, row: Event, key: ActivationKey) -> None:
    seq = row.payload.value.get("signalSeq")
    if seq is None:
        return
    if key not in run.waits:
        rarities["signal kept for a later wait"] += 1
        return
    due, signal = run.due_at(key), run.signals.get(seq)
    if due is not None and signal is not None and abs(due - row.created_at) <= RACE_MS:
        rarities["signal against timeout"] += 1


def _count_completion(rarities: Counter[str], run: Facts, row: Event, commit: Commit) -> None:
    key = (row.node_id, row.scope)
    last, writer = run.last.get(key), _writer_of_last(run, key)
    if last is None:
        return
    if last.type is EventType.NODE_WAITING and writer != commit.sender.worker_id:
        rarities["timer after restart"] += 1
    if last.type is EventType.NODE_DISPATCHED:
        effects = commit.effects(row.node_id, row.scope)
        workers = {worker for attempt, worker in effects.executions if attempt == row.attempt} if effects else set()
        if writer not in workers:
            rarities["lost job repaired"] += 1
        if row.scope and writer != commit.sender.worker_id:
            rarities["loop iteration recovered"] += 1
    for edge in run.case.shape.forward:
        target = edge[2]
        if edge[:2] == (row.node_id, row.next_handle) and run.case.shape.nodes[target].get("joinMode") == "any":
            rarities["any-join passed by a late edge"] += (target, row.scope) in run.attempts


def _writer_of_last(run: RunFacts, key: ActivationKey) -> str | None:
    row = run.last.get(key)
    return None if row is None else run.writers[row.seq - 1]
