"""What must hold after every commit, whatever went wrong: one function a promise.

The first line of each docstring is the promise. Row laws see each new row against the rows before
it; commit laws see the run after the rows of one transaction are in. They yield what is wrong, in
words. `judge` calls them; a new promise is added here and to the tuples at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.commands import AwaitChild, Wake
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.event_payloads import read_reopened
from anabranch.engine.rules.events import (
    DEFAULT_HANDLE,
    ENDINGS,
    TERMINALS,
    ActivationKey,
    Event,
    EventType,
    Status,
    SuspendReason,
)
from anabranch.engine.rules.evolve import AnyState, outstanding
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.shared.blame import CRASH_DELAYS_MS
from anabranch.engine.rules.shared.log_limit import LOG_TOO_LARGE, LogLimit
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.values import Payload
from anabranch.errors import AnabranchError, NonRetryable
from tests.simulation.coded_cases import CodedCase
from tests.simulation.facts import Facts, RunFacts, Verdict, loop_of
from tests.simulation.network import THIEF, Sender
from tests.simulation.nodes import Effects
from tests.simulation.program_functions import StepLedger

# No payload of a simulated run is larger: a message of 4,096 characters, a traceback of 8,192, and little else.
PAYLOAD_BYTES_MAX = 13_000

# Its creation and its first row are bounded by themselves.
ROWS_OF_EVERY_RUN = 2

_OUTCOMES = {
    EventType.NODE_COMPLETED,
    EventType.NODE_FAILED,
    EventType.NODE_ATTEMPT_FAILED,
    EventType.NODE_WAITING,
    EventType.LOOP_OPENED,
}


@dataclass(slots=True, eq=False)
class Commit:
    """One instance's share of a transaction, and who asked for it."""

    operation: str
    """The store's method, or `family`: the run was woken or cancelled by what became of its child or parent."""
    for_signal: bool
    """A claim of one run, for a signal."""
    now: int
    """The database's clock."""
    sender: Sender
    before: InstanceRow | None
    after: InstanceRow
    rows: list[Event]
    folded: AnyState
    """What the whole log, these rows included, folds to."""
    memory: AnyState | None
    """What the owner has in memory, if it made this transition and has not given up on it."""
    crashes_max: int
    log_limit: LogLimit
    effects: Callable[[str, str], Effects | None]
    """What the world has seen of an activation (node id, scope)."""
    may_have_been_held: bool
    """A workflow of its tenant was paused, or the tenant itself."""
    steps: StepLedger
    """What it has seen of workflow functions and their steps."""

    @property
    def run_id(self) -> str:
        """Whose share it is."""
        return self.after.head.instance_id


# -- each row, against the rows before it ------------------------------------------------------


def seq_counts_without_gaps(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """`seq` counts 1, 2, 3… per instance."""
    if row.seq != len(run.log) + 1:
        yield f"row {row.seq} comes after {len(run.log)} rows"


def terminal_is_final(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """Terminal status is final: nothing is dispatched or recorded after a cancel or any other end."""
    if run.ended is not None and row.type is not EventType.INSTANCE_REOPENED:
        yield f"{row.type} is written after {run.ended.type}"


def what_is_left_out_is_the_tail(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A reopening follows a bad end, and leaves out what that was decided with, to the end of the log."""
    if row.type is not EventType.INSTANCE_REOPENED:
        return
    if run.ended is None or run.ended.type is EventType.INSTANCE_COMPLETED:
        yield f"it is reopened after {run.ended and run.ended.type}"
    if row.payload.value["generation"] != 1 + sum(each.type is EventType.INSTANCE_REOPENED for each in run.log):
        yield f"generation {row.payload.value['generation']} is not the next one"
    left_out = [seq for first, last in row.payload.value["leftOut"] for seq in range(first, last + 1)]
    others = {run.log[seq - 1].type for seq in left_out} - _OF_AN_END
    if not left_out or left_out[-1] != row.seq - 1 or others:
        yield f"row {row.seq} leaves out {left_out}, with rows of {sorted(others)}"
    error = run.ended.payload.value if run.ended is not None and run.ended.type is EventType.INSTANCE_FAILED else {}
    if not isinstance(run.case, CodedCase) and left_out and error.get("nodeID"):
        cause = run.log[left_out[0] - 1]
        if (cause.type, cause.node_id, cause.scope) != (EventType.NODE_FAILED, error["nodeID"], error["scope"]):
            yield f"row {row.seq} does not leave out the failure of {error['nodeID']} in {error['scope']!r}"
    if not isinstance(run.case, CodedCase) and left_out != list(range(left_out[0], row.seq)):
        yield f"row {row.seq} leaves out {left_out}, which is no tail"


_OF_AN_END = {EventType.NODE_FAILED, EventType.NODE_SKIPPED, *TERMINALS}


def is_copied(commit: Commit) -> bool:
    """Are these the rows that a fork begins with?"""
    return commit.before is None and commit.after.head.forked_from is not None


def nothing_fires_while_suspended(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """While a run is suspended no delay, retry or timeout fires, and no wait takes the signal promised to it."""
    if not run.is_suspended:
        return
    if row.type is EventType.NODE_DISPATCHED and row.attempt > 1:
        yield f"attempt {row.attempt} of {row.node_id or 'the function'} is dispatched while the run is suspended"
    key = (row.node_id, row.scope)
    if row.type is EventType.NODE_WAITING and "signalSeq" in row.payload.value and key in run.waits:
        yield f"the wait of {row.node_id} takes a signal while the run is suspended"
    last = run.last.get(key)
    is_timed = last is not None and last.type is EventType.NODE_WAITING and "dueAt" in last.payload.value
    if is_timed and row.type is EventType.NODE_COMPLETED and last is not None and last.seq < row.seq - 1:
        yield f"what {row.node_id} waits for comes while the run is suspended"


def one_ending_per_activation(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """Every activation is recorded as ended at most once."""
    if row.type in ENDINGS and (row.node_id, row.scope) in run.endings:
        yield f"{row.node_id} in {row.scope!r} ends again, with {row.type}"


def one_dispatch_per_attempt(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """Each attempt is dispatched once; attempts count 1, 2, 3… and follow a failed attempt."""
    if row.type is not EventType.NODE_DISPATCHED:
        return
    key = (row.node_id, row.scope)
    if row.attempt != run.attempts.get(key, 0) + 1:
        yield f"attempt {row.attempt} of {row.node_id} follows attempt {run.attempts.get(key, 0)}"
    elif row.attempt > 1 and run.last[key].type is not EventType.NODE_ATTEMPT_FAILED:
        yield f"attempt {row.attempt} of {row.node_id} follows {run.last[key].type}"
    if key in run.endings:
        yield f"{row.node_id} in {row.scope!r} is dispatched after it has ended"


def an_outcome_answers_the_open_attempt(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """What is recorded of an attempt is about the open attempt, which was executed, but for a disabled node."""
    if row.type not in _OUTCOMES:
        return
    key = (row.node_id, row.scope)
    if key in run.endings or key not in run.attempts:
        yield f"{row.type} of {row.node_id} in {row.scope!r}, which is not open"
    elif row.attempt != run.attempts[key]:
        yield f"{row.type} of attempt {row.attempt} while attempt {run.attempts[key]} is open"
    error = row.payload.value.get("error") if isinstance(row.payload.value, dict) else None
    is_own = isinstance(error, dict) and error.get("nodeID") == row.node_id and error.get("scope") == row.scope
    if row.type is EventType.NODE_ATTEMPT_FAILED and not (is_own and error["attempt"] == row.attempt):
        yield f"the failure of attempt {row.attempt} of {row.node_id} is another one's: {error}"
    node = run.case.plan.node_at(*key)
    assert node is not None, "it has been dispatched"
    if node.evaluate is not None:
        return  # it is evaluated, not executed: see `a_pure_node_comes_to_what_its_context_says`
    if is_copied(commit):
        return  # the run that it was forked from has done it
    effects = commit.effects(row.node_id, row.scope)
    if node.given is not None:
        if row.type is not EventType.NODE_COMPLETED or row.payload.value is not None:
            yield f"the disabled node {row.node_id} came to {row.type} {row.payload.value}"
        if effects is not None and effects.executions:
            yield f"the disabled node {row.node_id} was executed"
    elif effects is None or all(attempt != row.attempt for attempt, _ in effects.executions):
        yield f"{row.type} of attempt {row.attempt} of {row.node_id}, which nobody has executed"


def a_pure_node_comes_to_what_its_context_says(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """What is recorded of a pure node is what its config and its context come to, whoever evaluated it, and when."""
    node = run.case.plan.nodes.get(row.node_id)
    key = (row.node_id, row.scope)
    if node is None or node.evaluate is None or row.type not in _OUTCOMES or key in run.loops:
        return
    assert isinstance(commit.folded, InstanceState), "only drawn runs have nodes"
    activation = commit.folded.activation(*key)
    if activation is None:
        return  # it is not open: another law says so
    try:
        output, handle = node.evaluate(activation.context, TemplateBudget())
    except (AnabranchError, NonRetryable) as failure:
        code = row.payload.value["error"]["code"] if "error" in row.payload.value else None
        if code != failure.code:
            yield f"{row.type} of {row.node_id} in {row.scope!r}, which fails with {failure.code}"
        return
    recorded = row.payload.value
    if row.type is EventType.LOOP_OPENED:
        recorded = recorded["items"]
    elif row.type is not EventType.NODE_COMPLETED or row.next_handle != (handle or _default_handle(node)):
        yield f"{row.type} of {row.node_id} in {row.scope!r} by {row.next_handle!r}, not by {handle!r}"
    if recorded != Payload.of(output, bytes_max=node.output_bytes_max).value:
        yield f"{row.node_id} in {row.scope!r} is recorded with {recorded!r}, and comes to {output!r}"


def _default_handle(node: PlanNode) -> str | None:
    return DEFAULT_HANDLE if node.exits else None


def a_run_begins_at_one_place(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """A run begins where it was told to: its other entry points are skipped, and never dispatched."""
    if row.node_id not in run.case.shape.entry_points:
        return
    chosen = run.case.trigger or "start"
    wrong = EventType.NODE_SKIPPED if row.node_id == chosen else EventType.NODE_DISPATCHED
    if row.type is wrong:
        yield f"{row.type} of {row.node_id}, and the run begins at {chosen}"


def what_follows_from_an_end_comes_first(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """What an ended node decides is written before anything else comes to something."""
    if row.type not in _OUTCOMES or not run.log:
        return
    last = run.log[-1]
    if last.type not in ENDINGS or (last.node_id, last.scope) == (row.node_id, row.scope):
        return
    for target in run.targets(last.node_id):
        key = (target, last.scope)
        verdicts = list(run.verdicts(target, last.scope))
        any_join = run.case.shape.nodes[target].get("joinMode") == "any"
        decided = Verdict.OPEN not in verdicts or (any_join and Verdict.LIVE in verdicts)
        if decided and key not in run.attempts and key not in run.endings and not run.abandoned(last.scope):
            yield f"{row.type} of {row.node_id} comes before {target}, which the end of {last.node_id} decides"


def a_join_runs_only_when_its_rule_holds(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """`all` is dispatched when every edge has a verdict and one is live, `any` by the first live edge."""
    if row.type is not EventType.NODE_DISPATCHED or row.attempt > 1 or row.node_id in run.case.shape.entry_points:
        return
    verdicts = list(run.verdicts(row.node_id, row.scope))
    any_join = run.case.shape.nodes[row.node_id].get("joinMode") == "any"
    if Verdict.LIVE not in verdicts or (not any_join and Verdict.OPEN in verdicts):
        said = ", ".join(verdict.value for verdict in verdicts)
        yield f"{row.node_id} in {row.scope!r} is dispatched while its edges are: {said}"


def a_skip_needs_a_reason(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """A node is skipped when all its edges are dead, its iteration has failed, or the run was terminated."""
    if row.type is not EventType.NODE_SKIPPED or run.terminated or run.abandoned(row.scope):
        return
    verdicts = list(run.verdicts(row.node_id, row.scope))
    if any(verdict is not Verdict.DEAD for verdict in verdicts):
        said = ", ".join(verdict.value for verdict in verdicts)
        yield f"{row.node_id} in {row.scope!r} is skipped while its edges are: {said}"


def a_failure_leaves_by_the_handle_it_must(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """FAILED and handled: only the edges that errorHandling names are live."""
    if row.type is EventType.NODE_FAILED and row.next_handle != run.failure_handle(row.node_id):
        yield f"{row.node_id} fails by {row.next_handle!r}, not by {run.failure_handle(row.node_id)!r}"


def no_timer_is_early(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """A timer never fires early: not by the store's own clock at the commit."""
    due = _due_time_used(run, row, commit)
    if due is not None and commit.now < due:
        yield f"{row.type} of {row.node_id or 'the run'} at {commit.now}, due at {due}"


def iterations_open_in_order(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """Iterations open in item order, after their loop has, and no more at once than `concurrency` says."""
    if row.type is not EventType.NODE_DISPATCHED or row.scope in run.scopes:
        return
    path, index = loop_of(row.scope), int(row.scope[:-1].rpartition("[")[2])
    outer, _, loop_id = path.rpartition("/")
    opened = run.loops.get((loop_id, outer))
    if opened is None or (loop_id, outer) in run.endings:
        yield f"{row.scope} opens while its loop is not open"
        return
    known = [scope for scope in run.scopes if scope and loop_of(scope) == path]
    count = opened.payload.value["count"]
    if index != len(known) or (count is not None and index >= count):
        yield f"{row.scope} opens after {len(known)} iterations of {count}"
    concurrency = run.case.shape.nodes[loop_id]["config"].get("concurrency", 1)
    if run.open_in_loop(path) >= concurrency:
        yield f"{row.scope} opens beside {run.open_in_loop(path)} open iterations; concurrency is {concurrency}"


def a_signal_is_consumed_once(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """One signal feeds one wait: a wait takes the oldest fitting signal that nobody has taken."""
    if row.type is not EventType.NODE_WAITING or "signalSeq" not in row.payload.value:
        return
    signal = run.signals.get(row.payload.value["signalSeq"])
    waiting = run.waits.get((row.node_id, row.scope), row)
    if signal is None or not signal.fits(waiting):
        yield f"{row.node_id} takes a signal that does not fit or is not there: {row.payload.value}"
    elif signal.taken_by is not None:
        yield f"{row.node_id} takes signal {signal.seq}, which {signal.taken_by} has taken"


def a_signal_key_is_delivered_once(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A repeated key (per instance) is delivered once."""
    if row.type is EventType.SIGNAL_RECEIVED and row.payload.value.get("key") is not None:
        key = row.payload.value["key"]
        if any(run.log[seq - 1].payload.value.get("key") == key for seq in run.signals):
            yield f"signal key {key} is recorded twice"


def a_step_signals_once(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A signal that a step of a coded run sends is delivered once, whatever crashes."""
    sender = row.payload.value["payload"].get("sender") if row.type is EventType.SIGNAL_RECEIVED else None
    if sender is not None and any(signal.payload.get("sender") == sender for signal in run.signals.values()):
        yield f"{sender} has signalled before"


def a_run_fails_for_its_own_reasons(run: Facts, row: Event, commit: Commit) -> Iterator[str]:
    """Nothing fails for its age or for the engine's troubles."""
    if row.type is not EventType.INSTANCE_FAILED:
        return
    error = row.payload.value
    code = error["code"]
    if code not in ("DEADLINE_EXCEEDED", LOG_TOO_LARGE):
        failures = [each for each in run.endings.values() if each.type is EventType.NODE_FAILED]
        if not any(each.next_handle is None and each.payload.value["error"] == error for each in failures):
            yield f"the run fails with {error}, which is no unhandled failure of a node"


def a_log_keeps_its_limit(run: RunFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A log holds no row beyond its limit but one that ends or suspends the run, and no run ends so while there is
    room."""
    size, limit = sum(each.payload.weight for each in run.log), commit.log_limit
    if row.type is EventType.INSTANCE_SUSPENDED:
        return  # a store writes it, for a run that it cannot fold: one row for each time that somebody resumes it
    if row.type not in TERMINALS:
        is_passed = size + row.payload.weight > limit.bytes_max or row.seq > limit.rows_max
        if is_passed and row.seq > ROWS_OF_EVERY_RUN:
            yield f"{row.type} is row {row.seq}, after {size} bytes; the limit is {limit}"
        return
    is_full = row.type is EventType.INSTANCE_FAILED and row.payload.value["code"] == LOG_TOO_LARGE
    if is_full and len(run.log) < limit.rows_max and size + PAYLOAD_BYTES_MAX <= limit.bytes_max:
        yield f"ended for its log, which has {len(run.log)} rows and {size} bytes; the limit is {limit}"


# -- the run, after the rows of one transaction -------------------------------------------------


def only_who_crashed_alone_is_counted(run: RunFacts, commit: Commit) -> Iterator[str]:
    """A crash puts all runs of its process under suspicion, each further one halves their company, and only the last
    suspect of a process is counted."""
    if commit.operation != "judge" or commit.before is None or commit.rows:
        return
    before, after, lost = commit.before.blame, commit.after.blame, commit.before.worker_id
    if lost is None or lost == commit.sender.worker_id:
        yield f"judged although {lost or 'nobody'} held it"
    if after is None:
        yield "judged, and above suspicion"
    elif before is None:
        if after.company < 1 or after.crashes:
            yield f"a first crash comes to {after}"
    elif before.company > 1:
        if after != (before.company // 2, before.crashes):
            yield f"a crash in company: {before} becomes {after}"
    elif after.company != 1 or after.crashes - before.crashes > 1:
        yield f"a crash alone: {before} becomes {after}"


def a_run_is_suspended_for_its_crashes_in_time(run: RunFacts, commit: Commit) -> Iterator[str]:
    """A run that has crashed alone as often as the limit says is suspended; no other is, for that."""
    blame = commit.after.blame
    is_suspended = commit.after.suspended_for is SuspendReason.CRASHED
    if is_suspended and (blame is None or blame.crashes < commit.crashes_max):
        yield f"suspended at {blame}; the limit is {commit.crashes_max}"
    if commit.operation == "claim" and blame is not None and blame.crashes >= commit.crashes_max and not is_suspended:
        yield f"taken at {blame}; the limit is {commit.crashes_max}"


def a_suspicion_ends_with_the_last_answer(run: RunFacts, commit: Commit) -> Iterator[str]:
    """A run is above suspicion when all has been answered that was unanswered at its last takeover, and not before."""
    if commit.before is None or commit.before.blame is None or commit.after.blame is not None:
        return
    if commit.operation not in ("commit", "external", "family", "reopen"):
        yield f"above suspicion by a {commit.operation}"
    if run.ended is not None or commit.operation == "reopen":
        return
    seq = max((row.seq for row in run.log if row.type is EventType.INSTANCE_RECOVERED), default=0)
    open_then = unanswered(run.log[:seq])
    answered = {(row.node_id, row.scope) for row in run.log[seq:] if row.type in ANSWERS}
    if isinstance(run.case, CodedCase):
        begun = any(row.type is EventType.NODE_DISPATCHED and row.node_id for row in run.log[seq:])
        if open_then and function_is_called(run.log[:seq]) and not (answered or begun):
            yield f"above suspicion although nothing of {open_then} has come to anything"
    elif not open_then <= answered:
        yield f"above suspicion although {sorted(open_then - answered)} has not answered"


ANSWERS = {*ENDINGS, EventType.NODE_ATTEMPT_FAILED, EventType.NODE_WAITING, EventType.LOOP_OPENED}


def unanswered(log: Sequence[Event]) -> set[ActivationKey]:
    """The activations (node id, scope) whose last attempt has no answer in these rows."""
    keys: set[ActivationKey] = set()
    for row in log:
        if row.type is EventType.NODE_DISPATCHED:
            keys.add((row.node_id, row.scope))
        elif row.type in ANSWERS:
            keys.discard((row.node_id, row.scope))
        elif row.type is EventType.INSTANCE_REOPENED:  # they have failed, and are due again
            keys -= {(each.node_id, each.scope) for each in read_reopened(row.payload).redo}
    return keys


def function_is_called(log: Sequence[Event]) -> bool:
    """Whether the function of a coded run was under way after these rows.

    Its steps are executed only while it is: a retry that was due after its attempt had failed waits for the next call
    that asks for it.
    """
    is_called = is_over = False
    for row in log:
        is_of_function = not row.node_id
        if row.type in ENDINGS or row.type is EventType.NODE_DISPATCHED:
            is_over = is_over and not is_of_function
            is_called = not is_over
        elif is_of_function and row.type is EventType.NODE_WAITING:
            is_called = bool(row.payload.value.get("ready"))
        elif (is_of_function and row.type is EventType.NODE_ATTEMPT_FAILED) or (
            row.type is EventType.INSTANCE_REOPENED
            and any(not each.node_id for each in read_reopened(row.payload).redo)
        ):
            is_called, is_over = False, True
    return is_called


def a_handover_blames_nobody(run: RunFacts, commit: Commit) -> Iterator[str]:
    """What a worker gives back in order is nobody's after that, and its worker was not lost."""
    if commit.operation != "release" or commit.before is None:
        return
    if commit.after.worker_id is not None or commit.after.blame != commit.before.blame:
        yield f"given back: {commit.before} became {commit.after}"


def the_version_goes_up_by_one(run: RunFacts, commit: Commit) -> Iterator[str]:
    """Every transition raises the version by one."""
    before = 0 if commit.before is None else commit.before.version
    if commit.after.version != before + 1:
        yield f"version {before} is followed by {commit.after.version}"


def the_row_says_what_the_log_says(run: RunFacts, commit: Commit) -> Iterator[str]:
    """The log explains, the row declares: status, last_seq and start time are a cache of the log."""
    after, folded = commit.after, commit.folded
    if after.last_seq != len(run.log):
        yield f"the row says {after.last_seq} rows, the log has {len(run.log)}"
    alike = {after.status, folded.status} <= {Status.RUNNING, Status.WAITING}
    if after.status is not folded.status and not alike:
        yield f"the row says {after.status}, the log {folded.status}"
    if (after.started_at is not None) != folded.started:
        yield f"started_at is {after.started_at}, and started is {folded.started}"
    if after.status.is_terminal != (after.completed_at is not None):
        yield f"completed_at is {after.completed_at} in status {after.status}"


def only_the_holder_advances_a_run(run: RunFacts, commit: Commit) -> Iterator[str]:
    """A worker without the lease changes nothing."""
    if commit.operation == "commit" and commit.before is not None:
        if commit.before.worker_id != commit.sender.worker_id:
            yield f"{commit.sender.worker_id} writes while {commit.before.worker_id} holds the run"
        if commit.before.status.is_terminal:
            yield f"{commit.sender.worker_id} writes to a run that is {commit.before.status}"


def other_entry_points_are_dead_at_once(run: Facts, commit: Commit) -> Iterator[str]:
    """The transaction that dispatches where a run begins skips the other entry points."""
    entry_points = run.case.shape.entry_points
    begun = {row.node_id for row in commit.rows if row.type is EventType.NODE_DISPATCHED} & set(entry_points)
    missing = [each for each in entry_points if each not in begun and (each, "") not in run.endings]
    if begun and missing:
        yield f"it begins at {begun}, and {missing} are left for later"


def a_start_evaluates_nothing(run: RunFacts, commit: Commit) -> Iterator[str]:
    """A run is created with its input alone: whoever starts it is answered once it is stored."""
    if commit.before is None and not is_copied(commit) and any(row.type in _OUTCOMES for row in commit.rows):
        yield f"it is created with {[row.type.value for row in commit.rows]}"


def effects_are_stored_before_what_may_have_killed_a_worker(run: Facts, commit: Commit) -> Iterator[str]:
    """After a lost worker, what handlers came to is stored before pure nodes are evaluated again."""
    before = run.log[: -len(commit.rows)][-1:] if commit.rows else []
    if not any(row.type is EventType.INSTANCE_RECOVERED and row.payload.value["recoveries"] for row in before):
        return
    is_end = {EventType.NODE_COMPLETED, EventType.NODE_FAILED}  # of a loop, what its iterations came to
    outcomes = [
        row
        for row in commit.rows
        if row.type in _OUTCOMES and not (row.type in is_end and (row.node_id, row.scope) in run.loops)
    ]
    pure = [row for row in outcomes if run.case.plan.nodes[row.node_id].evaluate is not None]
    if pure and len(pure) < len(outcomes) and outcomes[0] not in pure:
        yield f"{outcomes[0].node_id} is stored together with {pure[0].node_id}, which was evaluated after it"


def a_live_lease_is_not_taken(run: RunFacts, commit: Commit) -> Iterator[str]:
    """An instance is adopted when its lease ran out, its time has come or it was handed over; for a signal also while
    it waits and nobody has it. Not before."""
    before = commit.before
    if commit.operation != "claim" or commit.sender is THIEF or before is None:
        return
    if commit.for_signal and before.worker_id is None and before.status is Status.WAITING:
        return
    if before.available_at is None or before.available_at > commit.now:
        yield f"claimed at {commit.now} although not available before {before.available_at}"


def memory_equals_the_folded_log(run: RunFacts, commit: Commit) -> Iterator[str]:
    """What the holder has in memory is what a recovery would fold from the log."""
    if commit.memory is not None:
        ours, folded = _signature(commit.memory), _signature(commit.folded)
        for mine, logged in zip(ours, folded, strict=True):
            if mine != logged:
                yield f"memory has {mine!r}, the log folds to {logged!r}"


def the_row_knows_the_size_of_the_log(run: RunFacts, commit: Commit) -> Iterator[str]:
    """The row says how many bytes the payloads of the log have."""
    if commit.after.log_bytes != commit.folded.log_bytes:
        yield f"the row says {commit.after.log_bytes} bytes, the log has {commit.folded.log_bytes}"


def an_ended_run_owes_nothing(run: RunFacts, commit: Commit) -> Iterator[str]:
    """Nothing is owed by a terminal instance, and nobody holds or wakes it."""
    if commit.folded.is_terminal:
        if outstanding(commit.folded):
            yield f"it owes {outstanding(commit.folded)}"
        if commit.after.worker_id is not None or commit.after.available_at is not None:
            yield f"held by {commit.after.worker_id}, available at {commit.after.available_at}"


def an_open_run_will_go_on(run: RunFacts, commit: Commit) -> Iterator[str]:
    """An open instance is owed something, and somebody will look at it when that is due; or it waits for a resume."""
    folded, after = commit.folded, commit.after
    if folded.is_terminal:
        return
    owed = outstanding(folded)
    if not (owed or folded.signals.has_open_waits or folded.suspension):
        yield "it is open, and nothing would ever move it again"
    if after.worker_id is not None:
        if after.available_at is None:
            yield f"held by {after.worker_id} under a lease without end"
        return
    if commit.may_have_been_held and after.available_at is not None:
        return  # let go of for a pause, by the clock of its owner: claims leave it out until the resume
    times = [
        command.due_at if isinstance(command, Wake) else commit.now
        for command in owed
        if not isinstance(command, AwaitChild)
    ]
    has_crashed_alone = after.blame is not None and after.blame.crashes > 0
    # A fork is due when it was created, as a start is, by the clock of the process that did it.
    now = max(commit.now, after.head.available_at) if is_copied(commit) else commit.now
    latest_at = max(min(times, default=now), now) + (max(CRASH_DELAYS_MS) if has_crashed_alone else 0)
    if times and (after.available_at is None or after.available_at > latest_at):
        yield f"nobody holds it, something is due at {min(times)}, and it is available at {after.available_at}"


def no_signal_lies_beside_a_wait_that_it_fits(run: RunFacts, commit: Commit) -> Iterator[str]:
    """A wait takes a fitting kept signal in the holder's very next transition, unless the run is suspended."""
    if commit.operation != "commit" or run.is_suspended or run.ended is not None or not run.waits:
        return
    if commit.may_have_been_held:
        return  # it is served when the workflow and its tenant are resumed
    for signal in run.untaken():
        for key, waiting in run.waits.items():
            if signal.fits(waiting):
                yield f"{key} waits, and signal {signal.seq} fits it"


def a_completed_run_has_walked_every_path(run: Facts, commit: Commit) -> Iterator[str]:
    """COMPLETED without `terminate`: every node of a taken path has ended, every other was skipped."""
    if run.ended is None or run.ended.type is not EventType.INSTANCE_COMPLETED or run.terminated:
        return
    for scope, ended in run.scopes.items():
        missing = run.body_of(scope) - ended
        if missing:
            yield f"completed although {sorted(missing)} in {scope!r} never ended"
    for (loop_id, outer), opened in run.loops.items():
        count, ending = opened.payload.value["count"], run.endings[loop_id, outer]
        path = f"{outer}/{loop_id}" if outer else loop_id
        seen = sum(1 for scope in run.scopes if scope and loop_of(scope) == path)
        has_body = any(home == loop_id for home in run.case.shape.home.values())
        if ending.type is EventType.NODE_COMPLETED and count is not None and has_body and seen != count:
            yield f"loop {path} completed after {seen} of {count} iterations"


ROW_LAWS: tuple[Callable[[Facts, Event, Commit], Iterator[str]], ...] = (
    seq_counts_without_gaps,
    terminal_is_final,
    what_is_left_out_is_the_tail,
    nothing_fires_while_suspended,
    one_ending_per_activation,
    one_dispatch_per_attempt,
    an_outcome_answers_the_open_attempt,
    a_pure_node_comes_to_what_its_context_says,
    what_follows_from_an_end_comes_first,
    a_run_begins_at_one_place,
    a_join_runs_only_when_its_rule_holds,
    a_skip_needs_a_reason,
    a_failure_leaves_by_the_handle_it_must,
    no_timer_is_early,
    iterations_open_in_order,
    a_signal_is_consumed_once,
    a_signal_key_is_delivered_once,
    a_step_signals_once,
    a_run_fails_for_its_own_reasons,
    a_log_keeps_its_limit,
)

COMMIT_LAWS: tuple[Callable[[Facts, Commit], Iterator[str]], ...] = (
    the_version_goes_up_by_one,
    the_row_says_what_the_log_says,
    only_the_holder_advances_a_run,
    other_entry_points_are_dead_at_once,
    a_start_evaluates_nothing,
    effects_are_stored_before_what_may_have_killed_a_worker,
    a_live_lease_is_not_taken,
    only_who_crashed_alone_is_counted,
    a_run_is_suspended_for_its_crashes_in_time,
    a_suspicion_ends_with_the_last_answer,
    a_handover_blames_nobody,
    memory_equals_the_folded_log,
    the_row_knows_the_size_of_the_log,
    an_ended_run_owes_nothing,
    an_open_run_will_go_on,
    no_signal_lies_beside_a_wait_that_it_fits,
    a_completed_run_has_walked_every_path,
)


# Of runs with loops without a loop node, or with nodes per item: the laws that ask nothing of the graph.
LOOPING_ROW_LAWS = tuple(
    law
    for law in ROW_LAWS
    if law
    not in (
        a_pure_node_comes_to_what_its_context_says,
        what_follows_from_an_end_comes_first,
        a_join_runs_only_when_its_rule_holds,
        a_skip_needs_a_reason,
        a_failure_leaves_by_the_handle_it_must,
        iterations_open_in_order,
    )
)

LOOPING_COMMIT_LAWS = tuple(
    law
    for law in COMMIT_LAWS
    if law not in (a_completed_run_has_walked_every_path, effects_are_stored_before_what_may_have_killed_a_worker)
)


def _due_time_used(run: Facts, row: Event, commit: Commit) -> int | None:
    """The due time that this row rests on; None if it rests on none."""
    key = (row.node_id, row.scope)
    head = commit.after.head
    if row.type is EventType.NODE_DISPATCHED:
        if row.attempt > 1:
            return run.due_at(key)
        # A start that asked for no time has its time of creation there, by the clock of the process that bore it.
        asked_for_a_time = row.node_id in run.case.shape.entry_points and head.available_at != head.created_at
        return head.available_at if asked_for_a_time else None
    if row.type is EventType.INSTANCE_FAILED and row.payload.value["code"] == "DEADLINE_EXCEEDED":
        return head.deadline_at
    if row.type is EventType.NODE_COMPLETED:
        last = run.last.get(key)
        if last is not None and last.type is EventType.NODE_WAITING and "dueAt" in last.payload.value:
            waits_for_signal = "event" in last.payload.value
            if not waits_for_signal or row.next_handle == "timeout":
                return from_iso(last.payload.value["dueAt"])
    return None


def _next_due(state: AnyState) -> int | None:
    """When it is due by its log; that its workflow or tenant is paused is in no log."""
    gated, state.is_paused = state.is_paused, False
    try:
        return state.next_due()
    finally:
        state.is_paused = gated


def _signature(state: AnyState) -> tuple[object, ...]:
    """The parts of a state that the next decisions hang on, cheap enough to compare at every commit."""
    common = (
        state.last_seq,
        state.terminal,
        state.started,
        None if state.suspicion is None else (state.suspicion.blame, sorted(state.suspicion.unanswered)),
        [(key, activation.attempt, activation.phase) for key, activation in state.running.items()],
        _next_due(state),
        {event: list(waits) for event, waits in state.signals.waits.items()},
        list(state.children),
        {event: list(kept) for event, kept in state.signals.kept.items()},
    )
    if isinstance(state, CodedState):
        return (*common, [(key, step.phase, step.attempt, step.ended_seq) for key, step in state.steps.items()])
    scopes = [(path, scope.remaining, scope.live, scope.dead, list(scope.open)) for path, scope in state.scopes.items()]
    return (*common, scopes, state.ends)
