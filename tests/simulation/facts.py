"""What the log of one run says so far, read row by row, straight from the contract's words.

Kept by `judge` beside the engine's own state and on purpose without its help: verdicts come from the
drawn document, not from the compiled plan or the folded counters. `invariants` asks the questions.
`RunFacts` is what every log says; `Facts` are those of drawn runs, `coded_facts` has those of coded ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from anabranch.engine.rules.events import ENDINGS, TERMINALS, ActivationKey, Event, EventType
from anabranch.engine.rules.instants import from_iso, to_iso
from anabranch.engine.rules.values import Payload, is_superset
from tests.simulation.cases import SimulatedCase


class Verdict(Enum):
    """What an edge says."""

    LIVE = "live"
    DEAD = "dead"
    OPEN = "open"


@dataclass(slots=True, eq=False)
class Signal:
    """A signal that arrived."""

    seq: int
    event: str
    payload: Any
    at: int
    taken_by: ActivationKey | None = None

    def fits(self, waiting: Event) -> bool:
        """Does it satisfy this wait?"""
        note = waiting.payload.value
        return bool(note["event"] == self.event and is_superset(self.payload, note.get("match", {})))


@dataclass(slots=True, eq=False, kw_only=True)
class RunFacts:
    """One run of either kind, as its log tells it."""

    case: Any
    """What it is a run of: a `SimulatedCase` or a `CodedCase`."""
    log: list[Event] = field(default_factory=list)
    writers: list[str] = field(default_factory=list)
    """Worker ids of those who wrote the rows."""
    endings: dict[ActivationKey, Event] = field(default_factory=dict)
    attempts: dict[ActivationKey, int] = field(default_factory=dict)
    """The attempt that is open, or was the last."""
    last: dict[ActivationKey, Event] = field(default_factory=dict)
    """The latest row of each activation."""
    signals: dict[int, Signal] = field(default_factory=dict)
    waits: dict[ActivationKey, Event] = field(default_factory=dict)
    """Open waits for a signal."""
    ended: Event | None = None
    is_suspended: bool = False

    def due_at(self, key: ActivationKey) -> int | None:
        """When the latest row of an activation says that it is due."""
        row = self.last.get(key)
        due = None if row is None else row.payload.value.get("dueAt")
        return None if due is None else from_iso(due)

    def untaken(self) -> Iterator[Signal]:
        """Signals that no wait has taken, oldest first."""
        return (signal for signal in self.signals.values() if signal.taken_by is None)

    def absorb(self, event: Event, writer: str) -> None:
        """Take in the next row."""
        self.log.append(event)
        self.writers.append(writer)
        if event.type is EventType.INSTANCE_REOPENED:
            self._read_again()
        else:
            self._absorb(event)

    def _absorb(self, event: Event) -> None:
        if event.type in TERMINALS:
            self.ended = event
        elif event.type in (EventType.INSTANCE_SUSPENDED, EventType.INSTANCE_RESUMED):
            self.is_suspended = event.type is EventType.INSTANCE_SUSPENDED
        elif event.type is EventType.SIGNAL_RECEIVED:
            note = event.payload.value
            self.signals[event.seq] = Signal(event.seq, note["event"], note["payload"], event.created_at)
        else:
            self.absorb_activation(event, (event.node_id, event.scope))

    def absorb_activation(self, event: Event, key: ActivationKey) -> None:
        """Take in a row that is about one activation, or about the run itself."""
        raise NotImplementedError

    def forget(self) -> None:
        """Begin to read the log anew."""
        for known in (self.endings, self.attempts, self.last, self.signals, self.waits):
            known.clear()
        self.ended, self.is_suspended = None, False

    def _read_again(self) -> None:
        """The run was reopened: the rows that are left out have never been."""
        self.forget()
        for event in self.log:
            if event.type is EventType.INSTANCE_REOPENED:
                self.try_again(event)
            elif event.seq not in self.left_out:
                self._absorb(event)

    @property
    def left_out(self) -> set[int]:
        """The rows that do not count any more."""
        reopenings = [each.payload.value["leftOut"] for each in self.log if each.type is EventType.INSTANCE_REOPENED]
        return {seq for ranges in reopenings for first, last in ranges for seq in range(first, last + 1)}

    def try_again(self, reopened: Event) -> None:
        """What the run is to try again is due now; waits for signals time out later."""
        note = reopened.payload.value
        self.is_suspended = False
        for each in note["redo"]:
            key = (each["nodeID"], each["scope"])
            self.attempts[key] = each["attempt"]
            self.last[key] = replace(
                reopened,
                type=EventType.NODE_ATTEMPT_FAILED,
                node_id=key[0],
                scope=key[1],
                attempt=each["attempt"],
                payload=Payload.trusted({"dueAt": to_iso(reopened.created_at)}),
            )
        for key, wait in self.waits.items():
            if "dueAt" in wait.payload.value:
                due_at = from_iso(wait.payload.value["dueAt"]) + note["closedMs"]
                moved = replace(wait, payload=Payload.trusted({**wait.payload.value, "dueAt": to_iso(due_at)}))
                self.waits[key] = self.last[key] = moved

    def absorb_wait(self, event: Event, key: ActivationKey) -> None:
        """Take in NODE_WAITING."""
        note = event.payload.value
        if "signalSeq" in note:
            self.signals[note["signalSeq"]].taken_by = key
            self.waits.pop(key, None)
        elif "event" in note:
            self.waits[key] = event


@dataclass(slots=True, eq=False, kw_only=True)
class Facts(RunFacts):
    """One drawn run."""

    case: SimulatedCase
    incoming: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    """node → (source, handle) of its edges, back edges left out."""
    loops: dict[ActivationKey, Event] = field(default_factory=dict)
    scopes: dict[str, set[str]] = field(default_factory=lambda: {"": set()})
    """Scope → nodes with an ending in it."""
    failing: list[str] = field(default_factory=list)
    """Scopes with an unhandled failure in them."""
    terminated: bool = False
    """An End with `terminate` has completed."""

    def __post_init__(self) -> None:
        for source, handle, target in self.case.shape.forward:
            self.incoming[target].append((source, handle))

    # -- questions ------------------------------------------------------------------------
    def targets(self, node_id: str) -> list[str]:
        """Where its edges lead in its scope, back edges left out."""
        home = self.case.shape.home
        forward = self.case.shape.forward
        return [target for source, _, target in forward if source == node_id and home[target] == home[node_id]]

    def verdicts(self, node_id: str, scope: str) -> Iterator[Verdict]:
        """What the edges into an activation say now."""
        home = self.case.shape.home[node_id]
        for source, handle in self.incoming[node_id]:
            if source == home:
                yield Verdict.LIVE
                continue
            ending = self.endings.get((source, scope))
            if ending is None:
                yield Verdict.OPEN
            else:
                yield Verdict.LIVE if ending.next_handle == handle else Verdict.DEAD

    def abandoned(self, scope: str) -> bool:
        """May what is undecided in this scope be skipped because its iteration, or one around it, has failed?"""
        for path in prefixes(scope):
            loop = loop_of(path)
            fails_together = self._policy(loop) == "fail"
            for failing in self.failing:
                if failing == path or (fails_together and loop_of(failing) == loop and failing):
                    return True
        return False

    def failure_handle(self, node_id: str) -> str | None:
        """The handle that a failed node leaves by; None if nobody handles it."""
        node = self.case.shape.nodes[node_id]
        handling = node.get("errorHandling", "continue")
        if handling == "ignore":
            return {"loop": "done", "condition": "else"}.get(node["type"], "default")
        return "error" if handling == "continue" and self.case.shape.leaves_by(node_id, "error") else None

    def body_of(self, scope: str) -> set[str]:
        """The nodes that live in this kind of scope."""
        loop = loop_of(scope).rpartition("/")[2]
        return {node for node, home in self.case.shape.home.items() if home == loop}

    def open_in_loop(self, loop_path: str) -> int:
        """How many iterations of a loop activation are open."""
        return sum(1 for scope in self.scopes if scope and loop_of(scope) == loop_path and self.is_open(scope))

    def is_open(self, scope: str) -> bool:
        """Has something in this scope not ended yet?"""
        return len(self.scopes[scope]) < len(self.body_of(scope))

    def _policy(self, loop_path: str) -> str:
        node = self.case.shape.nodes[loop_path.rpartition("/")[2]]
        return str(node["config"].get("onItemError", "fail"))

    # -- reading on -----------------------------------------------------------------------
    def forget(self) -> None:
        """Begin to read the log anew."""
        RunFacts.forget(self)
        self.loops.clear()
        self.scopes.clear()
        self.scopes[""] = set()
        self.failing.clear()
        self.terminated = False

    def absorb_activation(self, event: Event, key: ActivationKey) -> None:
        """Take in a row about a node."""
        if not event.node_id:
            return
        ended_here = self.scopes.setdefault(event.scope, set())
        if event.type is EventType.NODE_DISPATCHED:
            self.attempts[key] = event.attempt
        elif event.type is EventType.NODE_WAITING:
            self.absorb_wait(event, key)
        elif event.type is EventType.LOOP_OPENED:
            self.loops[key] = event
        elif event.type in ENDINGS:
            self.endings[key] = event
            ended_here.add(event.node_id)
            self.waits.pop(key, None)
            if event.type is EventType.NODE_FAILED and event.next_handle is None:
                self.failing.append(event.scope)
            node = self.case.shape.nodes[event.node_id]
            if event.type is EventType.NODE_COMPLETED and node.get("config", {}).get("terminate"):
                self.terminated = True
        if event.type is not EventType.NODE_WAITING or "signalSeq" not in event.payload.value:
            self.last[key] = event


@dataclass(slots=True, eq=False, kw_only=True)
class LoopingFacts(Facts):
    """One drawn run with loops without a loop node, or with nodes per item: what follows from what there, `check_log`
    derives at its end, and the oracle says."""

    def absorb_activation(self, event: Event, key: ActivationKey) -> None:
        """Take in a row about a node."""
        if not event.node_id:
            return
        if event.type is EventType.NODE_DISPATCHED:
            self.attempts[key] = event.attempt
        elif event.type is EventType.NODE_WAITING:
            self.absorb_wait(event, key)
        elif event.type in ENDINGS:
            self.endings[key] = event
            self.waits.pop(key, None)
        if event.type is not EventType.NODE_WAITING or "signalSeq" not in event.payload.value:
            self.last[key] = event


def prefixes(scope: str) -> Iterator[str]:
    """The scope and every iteration around it, outermost first; nothing for the root."""
    parts = scope.split("/") if scope else []
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[:length])


def loop_of(scope: str) -> str:
    """The path of the loop that a scope is an iteration of: `outer[1]/inner` for `outer[1]/inner[0]`."""
    return scope.rpartition("[")[0]
