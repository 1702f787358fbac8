"""The plan of a fork: a new run that reuses recorded results of another run as far as they still apply.

Pure. Called by the service. A new state of the new plan is started. While an activation waits for a result that the
recorded run has and that it may reuse, the one that ended first there gets its result, by the real rules; the resulting
rows *are* the log of the new run. Activations without such a result stay open, and are executed once the run is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.callbacks import CALLBACK_TYPE
from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.drawn.drawn_state import Activation, ContextSnapshot
from anabranch.engine.rules.drawn.scopes import is_item_of, scope_key_of
from anabranch.engine.rules.event_payloads import ForkedFrom, read_error, read_items, read_signal
from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType, Status
from anabranch.engine.rules.evolve import AnyPlan, AnyState, evolve, new_state
from anabranch.engine.rules.graph.node_types import DATA_QUERY_TYPE
from anabranch.engine.rules.graph.plan import Plan, PlanNode
from anabranch.engine.rules.repair.same_input import changed_input, secrets_read
from anabranch.engine.rules.shared.left_out import is_left_out
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import (
    Completed,
    EvaluationDue,
    Failed,
    NodeResult,
    SignalSent,
    Started,
    Stimulus,
    TimersDue,
)
from anabranch.engine.rules.values import Payload, json_equal
from anabranch.errors import ForkRefused, RunError, RunTooLarge

# 50,000 rows or 64 MB: a fork is written at once.
FORK_ROWS_MAX = 50_000
FORK_BYTES_MAX = 64 * 1_048_576

# 4 kB of each value that has changed: enough to see how, and a plan may list thousands.
SHOWN_BYTES_MAX = 4_096

_WAITS = frozenset({"delay", "waitForEvent", CALLBACK_TYPE})


class ExecutionReason(StrEnum):
    """Why an activation is executed in the new run."""

    NOT_ENDED = "NOT_ENDED"
    CHOSEN = "CHOSEN"
    AFTER_CUT = "AFTER_CUT"
    CONFIG_CHANGED = "CONFIG_CHANGED"
    INPUT_CHANGED = "INPUT_CHANGED"
    QUERY_CHANGED = "QUERY_CHANGED"
    FAILED = "FAILED"
    NEW = "NEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkCut:
    """The part of the recorded run that may be reused."""

    seq: int | None = None
    """What had ended with this row, or before; None: all."""
    chosen: Collection[tuple[str, str | None]] = ()
    """Not these: node ids (of the recorded run) with a scope, or None for any."""
    redo_failed: bool = False
    """No failures that the graph handled."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Old node ids by the new ones."""
    signals: bool = True
    """Signals that nothing has taken go along."""
    queries: Mapping[str, int | None] = field(default_factory=dict)
    """Since when (ms) each saved query, by the name that nodes give, is what it is now; None: it is gone."""
    log_limit: LogLimit = LOG_LIMIT
    """What the log of the new run may hold."""


@dataclass(slots=True)
class ForkPlan:
    """The log of the new run, and what was decided about each activation."""

    events: list[Event]
    state: AnyState
    reuse: list[dict[str, Any]] = field(default_factory=list)
    run: list[dict[str, Any]] = field(default_factory=list)
    undecided: list[dict[str, Any]] = field(default_factory=list)
    drop: list[dict[str, Any]] = field(default_factory=list)
    signals: dict[str, int] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    """Named by what is reused: they count by name, and their values may have changed."""
    computed: list[str] = field(default_factory=list)
    """Chosen nodes that are computed and never executed, so that choosing them repeats nothing."""

    @property
    def digest(self) -> str:
        """A digest; equal plans have equal digests."""
        version = self.state.head.workflow_version
        shown = [version, self.reuse, self.run, self.undecided, self.drop, self.signals]
        return hashlib.blake2b(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run."""

    plan: AnyPlan
    head: InstanceHead
    log: Sequence[Event]


def plan_fork(
    source: RecordedRun, plan: Plan, head: InstanceHead, started: Started, *, cut: ForkCut, now: int
) -> ForkPlan:
    """The plan of a run with this head and plan that reuses what `cut` allows. Raises ForkRefused, RunTooLarge."""
    return _Fork(source, plan, head, cut, now).made(started)


class _Fork:
    def __init__(self, source: RecordedRun, plan: Plan, head: InstanceHead, cut: ForkCut, now: int) -> None:
        assert isinstance(source.plan, Plan), "coded runs are forked by `coded_fork`"
        self._source, self._source_plan = source, source.plan
        self._cut = cut
        self._now = now
        self._endings: dict[ActivationKey, Event] = {}
        self._opened: dict[ActivationKey, Event] = {}
        """What loops were answered with: their ends follow from their iterations."""
        self._dispatched: dict[ActivationKey, Event] = {}
        """Also after the cut: what ran there has had its effects."""
        self._contexts: dict[ActivationKey, ContextSnapshot] = {}
        self._kept: list[SignalSent] = []
        self._read_source()
        self._state = new_state(plan, replace(head, deadline_at=None), log_limit=cut.log_limit)
        self._plan = ForkPlan([], self._state)
        self._reused: dict[ActivationKey, int] = {}
        self._secrets: frozenset[str] = frozenset()
        self._why: dict[ActivationKey, dict[str, Any]] = {}

    def made(self, started: Started) -> ForkPlan:
        """The plan of a fork that starts with this: its rows, and what is reused, executed, undecided and dropped."""
        plan, state = self._plan, self._state
        self._decide(started)
        while not state.is_terminal:
            if state.unevaluated:
                self._decide(EvaluationDue())
            elif state.unfinished:
                self._decide(TimersDue())
            elif not self._answer_next():
                break
        if state.is_terminal:
            if state.terminal is Status.COMPLETED:
                computed = self._computed_choices()
                but = f"; computed and not executed: {', '.join(map(repr, computed))}" if computed else ""
                raise ForkRefused(f"nothing would run: all outcomes of the recorded run are good for the new one{but}")
            raise ForkRefused(f"the new run would fail at once: {_why_failed(state)}")
        for signal in self._kept if self._cut.signals else ():
            self._decide(signal)
        copied = len(self._kept) if self._cut.signals else 0
        plan.signals = {"copied": copied, "left": len(self._kept) - copied}
        self._describe()
        plan.computed = self._computed_choices()
        forked = forked_from(self._source, self._cut.seq or self._source.log[-1].seq, reused=len(self._reused))
        add_row(plan, Event(state.last_seq + 1, EventType.FORKED_FROM, "", "", 0, forked.payload, self._now))
        check_size(plan, self._cut.log_limit)
        return plan

    # -- the recorded run -----------------------------------------------------------------
    def _read_source(self) -> None:
        source, cut = self._source, self._cut
        state = new_state(self._source_plan, source.head)
        for event in source.log:
            if event.type is EventType.NODE_DISPATCHED:
                self._dispatched.setdefault((event.node_id, event.scope), event)
        for event in source.log:
            if cut.seq is not None and event.seq > cut.seq:
                break
            evolve(state, event)
            if is_left_out(source.head.left_out, event.seq):
                continue
            key = (event.node_id, event.scope)
            if event.type is EventType.NODE_DISPATCHED and key not in self._contexts:
                activation = state.activation(*key)
                if activation is not None:
                    self._contexts[key] = activation.context
            elif event.type is EventType.LOOP_OPENED:
                self._opened[key] = event
            elif event.type in ENDINGS:
                self._endings[key] = event
        rows = {event.seq: event for event in source.log}
        received = (read_signal(rows[seq].payload) for seq in state.signals.untaken())
        self._kept = [SignalSent(each.event, each.content, each.key) for each in received]

    def _old_key(self, key: ActivationKey) -> ActivationKey:
        """The key of this activation in the recorded run."""
        return _renamed(key, self._cut.renames)

    def _computed_choices(self) -> list[str]:
        nodes = ((old_id, self._source_plan.nodes.get(old_id)) for old_id in dict(self._cut.chosen))
        listed = {each["nodeID"] for each in self._plan.run + self._plan.undecided}
        return [old_id for old_id, node in nodes if node and (node.loop or node.evaluate) and old_id not in listed]

    # -- answering ------------------------------------------------------------------------
    def _decide(self, stimulus: Stimulus) -> None:
        self._plan.events += decide(self._state, stimulus, self._now).events
        check_size(self._plan, self._cut.log_limit)

    def _answer_next(self) -> bool:
        """Give a recorded result to the open activation that ended first in the recorded run; False if none can be
        reused."""
        found: list[tuple[int, Activation, Event]] = []
        for key, activation in self._state.running.items():
            if key in self._why:
                continue
            old = self._old_key(key)
            ending = (self._endings if activation.node.loop is None else self._opened).get(old)
            why = self._why_not(activation, old, ending)
            if why is None and ending is not None:
                found.append((ending.seq, activation, ending))
            elif why is not None:
                self._why[key] = why
        if not found:
            return False
        seq, activation, ending = min(found, key=lambda each: each[0])
        self._reused[activation.key] = seq
        self._secrets |= secrets_read(activation.node)
        outcome: Completed | Failed
        if ending.type is EventType.LOOP_OPENED:
            outcome = Completed(Payload.of(read_items(ending.payload)))
        elif ending.type is EventType.NODE_COMPLETED:
            outcome = Completed(ending.payload, ending.next_handle)
        else:
            outcome = Failed(RunError.from_json(read_error(ending.payload)), retryable=False)
        self._decide(NodeResult(*activation.key, activation.attempt, outcome))
        return True

    def _why_not(self, activation: Activation, old: ActivationKey, ending: Event | None) -> dict[str, Any] | None:
        """Why this activation cannot reuse the recorded result; None if it can."""
        node, was = activation.node, self._source_plan.node_at(*old)
        if was is None or (ending is None and old not in self._dispatched):
            return {"because": ExecutionReason.NEW}
        if ending is None or ending.type is EventType.NODE_SKIPPED:
            return {"because": self._not_ended(old)}
        if (old[0], None) in self._cut.chosen or old in self._cut.chosen:
            return {"because": ExecutionReason.CHOSEN}
        failed = ending.type is EventType.NODE_FAILED
        if failed and (self._cut.redo_failed or (ending.next_handle is None and self._ended_run(old))):
            return {"because": ExecutionReason.FAILED}
        handle_is_gone = not failed and not node.may_leave_by(ending.next_handle)
        if was.type != node.type or handle_is_gone or not json_equal(dict(was.config), dict(node.config)):
            return {"because": ExecutionReason.CONFIG_CHANGED}
        if node.type == DATA_QUERY_TYPE and self._query_changed(node, old):
            return {"because": ExecutionReason.QUERY_CHANGED}
        before = self._contexts.get(old)
        changed = None if before is None else changed_input(node, before, activation.context)
        if changed is None:
            return None
        shown = {"before": shown_value(changed.before), "after": shown_value(changed.after)}
        return {"because": ExecutionReason.INPUT_CHANGED, "path": changed.path, **shown}

    def _query_changed(self, node: PlanNode, old: ActivationKey) -> bool:
        """May the recorded run have seen the query, or its source, otherwise?"""
        key = str(node.config.get("dataQueryID"))
        if key not in self._cut.queries:
            return False
        since = self._cut.queries[key]
        return since is None or since >= self._dispatched[old].created_at

    def _not_ended(self, old: ActivationKey) -> ExecutionReason:
        if self._cut.seq is None:
            return ExecutionReason.NOT_ENDED
        later = any(
            event.type in ENDINGS and (event.node_id, event.scope) == old and event.seq > self._cut.seq
            for event in self._source.log
        )
        return ExecutionReason.AFTER_CUT if later else ExecutionReason.NOT_ENDED

    def _ended_run(self, old: ActivationKey) -> bool:
        """Whether it is the failure that ended the recorded run."""
        end = self._source.log[-1]
        if end.type is not EventType.INSTANCE_FAILED:
            return False
        error = RunError.from_json(end.payload.value)
        return (error.node_id, error.scope) == old

    # -- the plan ---------------------------------------------------------------
    def _describe(self) -> None:
        plan, state = self._plan, self._state
        plan.reuse = [entry_of(key, seq=seq) for key, seq in self._reused.items()]
        plan.secrets = sorted(self._secrets)
        for key, activation in state.running.items():
            why = self._why.get(key, {"because": ExecutionReason.NOT_ENDED})
            plan.run.append(entry_of(key, **why, effect=self._effect(activation.node, self._old_key(key))))
        dispatched = self._old_keys(EventType.NODE_DISPATCHED)
        skipped = self._old_keys(EventType.NODE_SKIPPED)
        new_ids = {self._cut.renames.get(node_id, node_id): node_id for node_id in state.plan.nodes}
        listed = set[ActivationKey]()
        for old in self._dispatched:
            if old in dispatched:
                continue
            if old[0] not in new_ids:
                plan.drop.append(entry_of(old, because="NODE_REMOVED"))
            elif old in skipped or not self._may_come(old):
                plan.drop.append(entry_of(old, because="NOT_REACHED"))
            else:
                listed.add(old)
                node = _as_in(state.plan.nodes[new_ids[old[0]]], old)
                plan.undecided.append(entry_of(_renamed(old, new_ids), effect=self._effect(node, old)))
        rows = {(event.node_id, event.scope) for event in plan.events}
        for scope in state.scopes.values():
            for node in scope.body.nodes:
                key = (node.id, scope.path)
                stands_for_region = node.region is not None and node.region.body is not scope.body
                old = self._old_key(key)
                if key not in rows and old not in listed and not stands_for_region:
                    plan.undecided.append(entry_of(key, effect=self._effect(node, old)))

    def _effect(self, node: PlanNode, old: ActivationKey) -> str:
        """The effect of its execution outside: nothing, or something for the first time, or once more."""
        if node.type in _WAITS or node.evaluate is not None:
            return "none"
        return "again" if old in self._dispatched else "first"

    def _old_keys(self, type_: EventType) -> set[ActivationKey]:
        """The activations with such a row in the new log, by their keys in the recorded run."""
        return {self._old_key((event.node_id, event.scope)) for event in self._plan.events if event.type is type_}

    def _may_come(self, old: ActivationKey) -> bool:
        """Whether its scope is open, or may still be opened."""
        scope = old[1]
        return scope not in {event.scope for event in self._plan.events} or scope in self._state.scopes


def add_row(plan: ForkPlan, row: Event) -> None:
    """Append a row that no decision has made."""
    evolve(plan.state, row)
    plan.events.append(row)


def check_size(plan: ForkPlan, limit: LogLimit) -> None:
    """Raise RunTooLarge if the log of the new run is larger than a fork, or any log, may be."""
    rows_max, bytes_max = min(FORK_ROWS_MAX, limit.rows_max), min(FORK_BYTES_MAX, limit.bytes_max)
    if plan.state.last_seq > rows_max or plan.state.log_bytes > bytes_max:
        raise RunTooLarge(f"the fork would begin with more than {rows_max:,} rows or {bytes_max:,} bytes")


def forked_from(source: RecordedRun, seq: int, *, reused: int) -> ForkedFrom:
    """The payload of the last row of a fork: its source up to this row."""
    head = source.head
    return ForkedFrom(head.instance_id, head.generation, seq, head.workflow_version, reused)


def _why_failed(state: AnyState) -> str:
    """The node and the error that the new run would fail with."""
    assert state.outcome is not None, "a failed run has its error"
    error = RunError.from_json(state.outcome.value)
    where = f" in {error.scope}" if error.scope else ""
    return f"node {error.node_id!r}{where}: {error.code}: {error.message}"


def _renamed(key: ActivationKey, renames: Mapping[str, str]) -> ActivationKey:
    """The key of an activation with other node ids, also in its scope."""
    if not renames:
        return key
    node_id, scope = key
    parts = []
    for part in scope.split("/") if scope else ():
        loop = scope_key_of(part).node_id
        parts.append(renames.get(loop, loop) + part.removeprefix(loop))
    return renames.get(node_id, node_id), "/".join(parts)


def _as_in(node: PlanNode, old: ActivationKey) -> PlanNode:
    """The node as it ran in this scope: a mapped one for one item, or as a whole."""
    return node.item if node.item is not None and is_item_of(*old) else node


def entry_of(key: ActivationKey, **further: Any) -> dict[str, Any]:
    """An activation in a plan, plain JSON."""
    plain = {name: each.value if isinstance(each, ExecutionReason) else each for name, each in further.items()}
    return {"nodeID": key[0], "scope": key[1], **plain}


def shown_value(value: Any) -> Any:
    """A value as a plan shows it; of a long one its length."""
    length = len(orjson.dumps(value))
    return value if length <= SHOWN_BYTES_MAX else {"truncated": True, "bytes": length}
