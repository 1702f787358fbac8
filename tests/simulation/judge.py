"""The judge: sees every transaction, every execution and every decision, and knows what was promised.

Called by the memory database inside each transaction, by the ledger before each execution and by
`world` at the end. Keeps the facts of each run, asks `invariants`, notes the first violation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine.handler_contract import Helpers
from anabranch.engine.ownership.owned_instances import OwnedInstance
from anabranch.engine.ports import Pause
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.decide import Decision
from anabranch.engine.rules.drawn.drawn_state import InstanceHead, InstanceState
from anabranch.engine.rules.drawn.outcomes import EVALUATION_UNITS
from anabranch.engine.rules.events import ActivationKey, Event, EventType, SuspendReason
from anabranch.engine.rules.evolve import AnyState, evolve, fold, new_state, outstanding
from anabranch.engine.rules.shared.blame import ALONE_MS
from anabranch.engine.rules.shared.log_limit import LogLimit
from anabranch.engine.rules.stimuli import NodeResult, Stimulus
from anabranch.testing.memory_store.records import Change, Transaction
from tests.simulation.cases import SimulatedCase, poison_case
from tests.simulation.coded_cases import CodedCase
from tests.simulation.coded_facts import CodedFacts
from tests.simulation.coded_invariants import CODED_COMMIT_LAWS, CODED_ROW_LAWS
from tests.simulation.coded_judge import CodedJudge
from tests.simulation.facts import Facts, LoopingFacts, RunFacts
from tests.simulation.families import Families
from tests.simulation.invariants import (
    COMMIT_LAWS,
    LOOPING_COMMIT_LAWS,
    LOOPING_ROW_LAWS,
    ROW_LAWS,
    Commit,
)
from tests.simulation.loop import SimulatedLoop, outside
from tests.simulation.network import SENDER, THIEF
from tests.simulation.nodes import WORK, EffectKey, Ledger, seen
from tests.simulation.processes import SimulatedProcess
from tests.simulation.rarities import count_coded_row, count_commit, count_looping_row, count_row
from tests.spec import coded
from tests.spec.laws import differences

# Comparing memory and log part by part takes long: one commit in 16 is enough to meet all shapes, the
# short signature is compared at every one.
FULL_COMPARISON_EVERY = 16

# A lease's guard looks twelve times in a lease: after two twelfths it must have seen whatever there was to see.
GUARD_SHARE = 2 / 12

# Deriving all that is outstanding before and after a decision doubles its price.
DECISION_CHECK_EVERY = 4


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise."""

    invariant: str
    promise: str
    what: str
    instance_id: str | None
    step: int

    def __str__(self) -> str:
        run = f" (run {self.instance_id})" if self.instance_id else ""
        return f"{self.invariant} at step {self.step}{run}: {self.what}\n  promised: {self.promise}"


@dataclass(slots=True, eq=False)
class _Watched:
    """A run under the judge's eyes."""

    facts: RunFacts
    folded: AnyState
    version: int = 0
    lapses: int = 0
    """Crashes of its process since it was last above suspicion, or resumed."""
    company: int = 0
    """Its company after the first of them."""
    beside: int = 0
    """How often another run killed the process that had it alone, since then."""
    inputs: dict[ActivationKey, bytes] = field(default_factory=dict)
    """Of a fork: what each activation of its first rows was given."""

    def case_type(self, node_id: str, scope: str) -> str:
        """The type of a node of a drawn run, as it runs in a scope."""
        node = self.facts.case.plan.node_at(node_id, scope)
        return "" if node is None else str(node.type)


class Judge:
    """Holds the world against the promises. `violations` is empty as long as all are kept."""

    def __init__(
        self,
        *,
        cases: Mapping[tuple[str, int], SimulatedCase | CodedCase],
        rarities: Counter[str],
        crashes_max: int,
        lease_ms: int,
        log_limit: LogLimit,
        loop: SimulatedLoop,
        seed: int,
        only_poison_kills: bool = False,
    ) -> None:
        """`cases` by name and version. With `only_poison_kills` no process is lost but by what it executes."""
        self.violations: list[Violation] = []
        self.processes: dict[str, SimulatedProcess] = {}
        """Living processes by worker id."""
        self.rarities = rarities
        self.ledger = Ledger(on_begin=self.execution_begins)
        self.families = Families()
        self.steps = CodedJudge(
            facts=self._coded_facts, is_current=self._is_current, accuse=self.accuse, rarities=rarities, seed=seed
        ).ledger
        self.commits = 0
        self.last_row_at = 0
        """The database's clock when the engine last wrote a row of its own accord: signals are the clients'."""
        self._cases = cases
        self._crashes_max = crashes_max
        self._lease_s = lease_ms / 1000
        self._log_limit = log_limit
        self._guard_s = self._lease_s * GUARD_SHARE
        self._left_alone: dict[str, tuple[str, float]] = {}
        """The suspect that a worker took alone last, and when, by its id."""
        self.pauses: Mapping[tuple[str, str | None], Pause] = {}
        """Those of the database: by tenant and workflow, or without one."""
        self.answered: Collection[tuple[str, str]] = ()
        """Which executor has reported the result of which job."""
        self._only_poison_kills = only_poison_kills
        self._keys: dict[str, EffectKey] = {}
        self._loop = loop
        self._runs: dict[str, _Watched] = {}
        self._digest = hashlib.blake2b(digest_size=16)
        self._decisions = 0

    @property
    def digest(self) -> str:
        """A digest of every row written so far."""
        return self._digest.hexdigest()

    def facts(self, instance_id: str) -> RunFacts:
        """What is known of a run."""
        return self._runs[instance_id].facts

    @property
    def runs(self) -> dict[str, RunFacts]:
        """Every run that was created."""
        return {instance_id: watched.facts for instance_id, watched in self._runs.items()}

    def accuse(self, invariant: Callable[..., object] | str, what: str, instance_id: str | None = None) -> None:
        """Note a broken promise."""
        if isinstance(invariant, str):
            name, promise = invariant, invariant
        else:
            name, promise = invariant.__name__, (invariant.__doc__ or "").strip().splitlines()[0]
        self.violations.append(Violation(name, promise, what, instance_id, self._loop.steps))

    # -- what it is told ------------------------------------------------------------------
    def transaction(self, transaction: Transaction) -> None:
        """A transaction was written: check every run in it."""
        if transaction.operation == "claim":
            self.rarities["parked run taken over for a signal"] += transaction.for_signal
            self._claimed_suspects(transaction)
            self._claimed_in_spite_of_a_pause(transaction)
        for change in transaction.changes:
            if change.after is not None:
                for what, instance_id in self.families.one_child_per_activation(change, self.runs):
                    self.accuse(self.families.one_child_per_activation, what, instance_id)
                self.families.note(change)
                self._change(transaction, change)
        for law in self.families.laws:
            for what, instance_id in law(transaction, self.runs):
                self.accuse(law, what, instance_id)

    def execution_begins(self, effect_key: EffectKey, helpers: Helpers, worker_id: str) -> None:
        """A handler is about to run: its dispatch is committed, and nothing but the attempt is new."""
        instance_id, node_id, scope = effect_key
        self._begins_beside(instance_id, worker_id)
        self._begins_in_spite_of_a_pause(instance_id, worker_id)
        if self._keys.setdefault(helpers.idempotency_key, effect_key) != effect_key:
            what = f"{node_id} in {scope!r} has the key of {self._keys[helpers.idempotency_key]}"
            self.accuse("no two activations have one idempotency key", what, instance_id)
        watched = self._runs.get(instance_id)
        if watched is None or watched.facts.attempts.get((node_id, scope), 0) < helpers.attempt:
            what = f"attempt {helpers.attempt} of {node_id} runs before its dispatch is committed"
            self.accuse(self.execution_begins, what, instance_id)
        effects = self.ledger.effects.get(effect_key)
        if effects is None:
            return
        if effects.key != helpers.idempotency_key:
            self.accuse("always the same idempotency key", f"{node_id} in {scope!r} has another key", instance_id)
        if effects.context != seen(helpers.context):
            what = f"attempt {helpers.attempt} of {node_id} in {scope!r} sees another context than the first"
            self.accuse("the context is the one before the first dispatch, in every attempt", what, instance_id)
        if (worker_id, f"{helpers.idempotency_key}-{helpers.attempt}") in self.answered:
            what = f"attempt {helpers.attempt} of {node_id} in {scope!r} runs again in {worker_id}"
            self.accuse("an executor answers a repeated job with the result that it has", what, instance_id)
        if effects.awaited(helpers.attempt, worker_id):
            what = f"attempt {helpers.attempt} of {node_id} in {scope!r} runs twice at once in {worker_id}"
            self.accuse("dispatch inside a process is idempotent", what, instance_id)

    def _begins_beside(self, instance_id: str, worker_id: str) -> None:
        alone, since = self._left_alone.get(worker_id, (instance_id, 0.0))
        process = self.processes.get(worker_id)
        owned = None if process is None else process.engine.orchestrator.owned.get(alone)
        if alone == instance_id or owned is None or owned.blame is None or owned.blame.company != 1:
            return  # it may have been cleared since, and have come under suspicion with others
        if process is not None and process.clock.monotonic() - since < ALONE_MS / 1000:
            what = f"{worker_id} executes it beside {alone}, which may be what kills"
            self.accuse("nothing else starts beside a suspect that is to be alone", what, instance_id)

    def _begins_in_spite_of_a_pause(self, instance_id: str, worker_id: str) -> None:
        process, watched = self.processes.get(worker_id), self._runs.get(instance_id)
        if process is None or watched is None:
            return
        owned = process.engine.orchestrator.owned.get(instance_id)
        if process.engine.pause_watch.is_paused(watched.folded.head):
            self.accuse(_HELD, f"{worker_id} begins to execute it and knows of the pause", instance_id)
        elif owned is not None and watched.facts.is_suspended and not owned.state.may_perform and _is_settled(owned):
            self.accuse(_HELD, f"{worker_id} begins to execute it and knows that it is suspended", instance_id)

    def _claimed_in_spite_of_a_pause(self, transaction: Transaction) -> None:
        for head in (change.after.head for change in transaction.changes if change.after is not None):
            is_over = head.deadline_at is not None and head.deadline_at <= transaction.now
            is_paused = {(head.tenant_id, None), (head.tenant_id, head.workflow_id)} & self.pauses.keys()
            if is_paused and not is_over:
                self.accuse(_HELD, f"it is claimed although {is_paused} is paused", head.instance_id)

    def _takes_what_it_can_run(self, transaction: Transaction, change: Change) -> None:
        """A worker takes only what it has the node types for, when it claims a run and when it creates one."""
        after, process = change.after, self.processes.get(SENDER.get().worker_id)
        if after is None or after.worker_id is None or process is None or after.worker_id != process.worker_id:
            return
        if change.before is not None and transaction.operation != "claim":
            return
        missing = set(after.needs) - set(process.types.names())
        self.rarities["run taken by who has its node types"] += bool(after.needs)
        if missing:
            what = f"{process.worker_id} takes it by a {transaction.operation} and lacks {missing}"
            self.accuse(self._takes_what_it_can_run, what, after.head.instance_id)

    def _count_lapses(self, watched: _Watched, change: Change, operation: str) -> None:
        """One of n suspects that kills its process is suspended after 1 + log2 n crashes and so many as are counted."""
        after = change.after
        assert after is not None
        instance_id, is_poison = after.head.instance_id, after.head.workflow_name == poison_case().name
        begins_anew = {EventType.INSTANCE_RESUMED, EventType.INSTANCE_REOPENED}
        if after.blame is None or any(row.type in begins_anew for row in change.events):
            watched.lapses = watched.beside = 0
        elif operation == "judge" and not change.events and after.suspended_for is None:
            watched.lapses += 1
            watched.company = after.blame.company if watched.lapses == 1 else watched.company
        lapses_max = 1 + max(1, watched.company).bit_length() - 1 + self._crashes_max
        if watched.lapses > lapses_max:
            what = f"{watched.lapses} crashes since it was above suspicion, with {watched.company} suspects at first"
            self.accuse(self._count_lapses, what, instance_id)
        is_blamed = after.suspended_for is SuspendReason.CRASHED
        self.rarities["what kills its process suspended"] += is_blamed and is_poison and operation == "judge"
        # What executes when a suspect comes to be alone goes on, and may be what kills.
        is_counted = after.blame is not None and after.blame.crashes - watched.beside >= self._crashes_max
        if is_blamed and is_counted and not is_poison and self._only_poison_kills:
            self.accuse("no innocent run is suspended for a crash", f"{after.blame}", instance_id)

    def died_beside(self, instance_ids: Iterable[str]) -> None:
        """Another run has killed the process that had these alone."""
        for instance_id in instance_ids:
            self._runs[instance_id].beside += 1

    def _claimed_suspects(self, transaction: Transaction) -> None:
        """A process takes no more suspects than the least company of those it has, and one alone without others."""
        taken = [change.after for change in transaction.changes if change.after is not None]
        companies = [row.blame.company for row in taken if row.blame is not None]
        if not companies:
            return
        worker_id = SENDER.get().worker_id
        process = self.processes.get(worker_id)
        ids = {row.head.instance_id for row in taken}
        owned = [] if process is None else process.engine.orchestrator.owned
        before = (
            []
            if process is None
            else [
                owned.blame.company
                for owned in map(owned.get, owned.ids)
                if owned is not None and owned.blame is not None and owned.instance_id not in ids
            ]
        )
        if SENDER.get() is not THIEF and len(before) + len(companies) > min(before + companies):
            self.accuse(
                "company is never exceeded",
                f"{worker_id} has {before} and takes {companies}",
                taken[0].head.instance_id,
            )
        if 1 in companies:
            if len(taken) > 1:
                self.accuse(
                    "company is never exceeded",
                    f"{worker_id} takes {len(taken)} runs, one of which is alone",
                    taken[0].head.instance_id,
                )
            if process is not None:
                self._left_alone[worker_id] = (taken[0].head.instance_id, process.clock.monotonic())

    def checked(self, decide: Callable[..., Decision]) -> Callable[..., Decision]:
        """The same decisions, some of them held against what is outstanding before and after."""

        def decide_and_check(state: AnyState, stimulus: Stimulus, now: int, *limits: int) -> Decision:
            self._decisions += 1
            if self._decisions % DECISION_CHECK_EVERY:
                return decide(state, stimulus, now, *limits)
            before = outstanding(state)
            decision = decide(state, stimulus, now, *limits)
            if isinstance(stimulus, NodeResult) and isinstance(state, CodedState) and decision.events:
                # The job of the function is done. If the function is to run again at once, that is another job.
                before.discard(Dispatch(stimulus.node_id, stimulus.scope, stimulus.attempt))
            if decision.worked < EVALUATION_UNITS * len(decision.evaluated):
                what = f"{len(decision.evaluated)} nodes for {decision.worked} units"
                self.accuse("what is evaluated is charged to the budget that loops have", what, state.head.instance_id)
            added = outstanding(state) - before
            if set(decision.commands) != added:
                what = f"{type(stimulus).__name__}: commanded {decision.commands}, newly outstanding is {added}"
                self.accuse(
                    "the commands that decide returns are outstanding(after) - outstanding(before)",
                    what,
                    state.head.instance_id,
                )
            return decision

        return decide_and_check

    def a_worker_lets_go_of_what_it_could_not_extend(self, worker_id: str | None, instance_id: str) -> None:
        """A worker that could not extend its lease for 2/3 of its length stops its handlers and drops the state."""
        process = None if worker_id is None else self.processes.get(worker_id)
        owned = None if process is None else process.engine.orchestrator.owned.get(instance_id)
        if process is None or owned is None or owned.is_new:
            return
        claimed_at, extended_at = self._loop.time(), owned.extended_at
        age_s = process.clock.monotonic() - extended_at

        def look_again() -> None:
            stood_still = process.dead or process.frozen or process.thawed_at >= claimed_at - self._guard_s
            still_there = process.engine.orchestrator.owned.get(instance_id) is owned
            if still_there and owned.extended_at == extended_at and not stood_still:
                what = f"{worker_id} runs it on after somebody claimed it, {age_s:.2f} s after its last extension"
                self.accuse(self.a_worker_lets_go_of_what_it_could_not_extend, what, instance_id)

        if age_s > self._lease_s * 2 / 3:
            self._loop.call_later(self._guard_s, look_again, context=outside())

    # -- within ---------------------------------------------------------------------------
    def _change(self, transaction: Transaction, change: Change) -> None:
        after = change.after
        assert after is not None
        instance_id = after.head.instance_id
        watched = self._runs.get(instance_id)
        if watched is None:
            case = self._cases[after.head.workflow_name, after.head.workflow_version]
            facts = _facts_of(case)
            watched = self._runs[instance_id] = _Watched(
                facts, new_state(case.plan, after.head, log_limit=self._log_limit)
            )
        watched.version = after.version
        run, sender = watched.facts, SENDER.get()
        self._takes_what_it_can_run(transaction, change)
        self._count_lapses(watched, change, transaction.operation)
        if transaction.operation in ("claim", "judge") and change.before is not None:
            self.a_worker_lets_go_of_what_it_could_not_extend(change.before.worker_id, instance_id)
        commit = Commit(
            operation="family" if change.by_family else transaction.operation,
            for_signal=transaction.for_signal,
            now=transaction.now,
            sender=sender,
            before=change.before,
            after=after,
            rows=list(change.events),
            folded=watched.folded,
            memory=None if change.by_family else self._memory_of(instance_id, transaction),
            crashes_max=self._crashes_max,
            log_limit=self._log_limit,
            effects=lambda node_id, scope: self.ledger.effects.get((instance_id, node_id, scope)),
            may_have_been_held=after.head.tenant_id in self.families.pausing_tenants,
            steps=self.steps,
        )
        count_commit(self.rarities, commit)
        row_laws, commit_laws, count = _LAWS[type(run)]
        for row in commit.rows:
            count(self.rarities, run, row, commit)
            for row_law in row_laws:
                for what in row_law(run, row, commit):
                    self.accuse(row_law, what, instance_id)
            self._take_in(watched, row, after.head, sender.worker_id)
            if after.head.forked_from is not None and change.before is None:
                self._compare_inputs(watched, row, after.head)
        commit.folded = watched.folded  # another one, if the run was reopened
        if self.violations:
            return  # what follows from a broken log would only hide how it was broken
        for commit_law in commit_laws:
            for what in commit_law(run, commit):
                self.accuse(commit_law, what, instance_id)
        self.commits += 1
        judges = transaction.operation == "judge"  # which may delay a run for long
        if judges or any(row.type is not EventType.SIGNAL_RECEIVED for row in commit.rows):
            self.last_row_at = transaction.now
        if self.commits % FULL_COMPARISON_EVERY == 0 and not self.violations:
            self._compare_fully(watched, commit)

    def _compare_inputs(self, watched: _Watched, row: Event, head: InstanceHead) -> None:
        """What a fork reuses was given the same where it was done."""
        key = (row.node_id, row.scope)
        if row.type is EventType.NODE_DISPATCHED and isinstance(watched.folded, InstanceState):
            activation = watched.folded.activation(*key)
            if activation is not None:
                watched.inputs[key] = seen(activation.context)
        effects = self.ledger.effects.get((head.forked_from or "", *key))
        is_done = row.type is EventType.NODE_COMPLETED and effects is not None and key in watched.inputs
        if is_done and effects is not None and watched.case_type(*key) == WORK.type:
            self.rarities["outcome reused by a fork"] += 1
            if effects.context != watched.inputs[key]:
                self.accuse(self._compare_inputs, f"{key} is reused, and sees another context", head.instance_id)

    def _take_in(self, watched: _Watched, row: Event, head: InstanceHead, writer: str) -> None:
        self._digest.update(
            f"{row.seq} {row.type} {row.node_id} {row.scope} {row.attempt} {row.created_at}".encode() + row.payload.raw
        )
        if self.violations:
            return
        watched.facts.absorb(row, writer)
        if row.type is EventType.INSTANCE_REOPENED:
            watched.folded = fold(watched.facts.case.plan, head, watched.facts.log)
            watched.folded.log_limit = self._log_limit
        else:
            evolve(watched.folded, row)

    def _memory_of(self, instance_id: str, transaction: Transaction) -> AnyState | None:
        sender = SENDER.get()
        process = self.processes.get(sender.worker_id)
        if transaction.operation != "commit" or sender.late or process is None:
            return None
        owned = process.engine.orchestrator.owned.get(instance_id)
        return None if owned is None else owned.state

    def _compare_fully(self, watched: _Watched, commit: Commit) -> None:
        facts, head = watched.facts, commit.after.head
        anew = fold(facts.case.plan, head, facts.log)
        for state, name in ((watched.folded, "folded row by row"), (commit.memory, "in the holder's memory")):
            if state is not None:
                anew.is_paused = state.is_paused  # that its workflow or tenant is paused is in no log
                for difference in _differences(state, anew):
                    self.accuse("memory equals fold(log)", f"{name}: {difference}", head.instance_id)

    def _coded_facts(self, instance_id: str) -> CodedFacts:
        facts = self._runs[instance_id].facts
        assert isinstance(facts, CodedFacts), "functions are those of coded runs"
        return facts

    def _is_current(self, worker_id: str, instance_id: str) -> bool:
        """Does this process hold the run in the version that is stored?"""
        process = self.processes.get(worker_id)
        owned = None if process is None else process.engine.orchestrator.owned.get(instance_id)
        return owned is not None and owned.version == self._runs[instance_id].version


_HELD = "nothing starts while a run is suspended or held by a pause"

_LAWS: dict[type[RunFacts], tuple[Any, Any, Any]] = {
    Facts: (ROW_LAWS, COMMIT_LAWS, count_row),
    LoopingFacts: (LOOPING_ROW_LAWS, LOOPING_COMMIT_LAWS, count_looping_row),
    CodedFacts: (CODED_ROW_LAWS, CODED_COMMIT_LAWS, count_coded_row),
}
"""By the kind of run: the laws of rows and of commits, and who counts what is rare."""


def _is_settled(owned: OwnedInstance) -> bool:
    """Does its owner know that the last row it has is stored?"""
    return owned.committed_seq == owned.state.last_seq


def _facts_of(case: SimulatedCase | CodedCase) -> RunFacts:
    if isinstance(case, CodedCase):
        return CodedFacts(case=case)
    return LoopingFacts(case=case) if case.shape.regions or case.is_mapped else Facts(case=case)


def _differences(state: AnyState, anew: AnyState) -> list[str]:
    if isinstance(state, CodedState) and isinstance(anew, CodedState):
        mine, logged = coded.picture(state), coded.picture(anew)
        return [f"{part}: {mine[part]!r} != {logged[part]!r}" for part in mine if mine[part] != logged[part]]
    return differences(state, anew)
