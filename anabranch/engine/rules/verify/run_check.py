"""Checks for the log of every run, drawn or coded: numbering, attempts, timers, signals, children, the end.

The base of `drawn_check` and `coded_check`, which derive consequences. It keeps its own record of open activations and
does not use the engine's folded state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.rules.event_payloads import (
    ChildAwaited,
    DelayStarted,
    SignalAwaited,
    SignalTaken,
    Waiting,
    read_reopened,
    read_retry_time,
    read_signal,
    read_wait,
)
from anabranch.engine.rules.events import (
    DEFAULT_HANDLE,
    ENDINGS,
    TERMINALS,
    TIMEOUT_HANDLE,
    ActivationKey,
    Event,
    EventType,
)
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.shared.left_out import Ranges, is_left_out
from anabranch.engine.rules.shared.log_limit import LOG_TOO_LARGE
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.shared.signals import KeptSignal, fits
from anabranch.engine.rules.values import NULL, Payload, json_equal
from anabranch.engine.rules.verify.finding import FINDINGS_MAX, Finding, FindingCode

# Ends of a run that no node causes.
_OWN_FAILURES = frozenset({"RECOVERY_LIMIT", LOG_TOO_LARGE})


@dataclass(slots=True, eq=False)
class CheckedActivation:
    """An open activation, as its rows describe it so far."""

    key: ActivationKey
    attempt: int
    row: Event
    """Its latest row."""
    dispatched_at: int = 0
    """When this attempt was dispatched."""
    due_at: int | None = None
    is_retrying: bool = False
    is_waiting: bool = False
    delay: DelayStarted | None = None
    events: Mapping[str, Payload | None] | None = None
    """The signals that it waits for."""
    names_event: bool = False
    taken: KeptSignal | None = None
    redone_after: int = 0
    """The last attempt before a reopening: the budget of attempts starts again there."""
    child_generation: int = 0
    """The reopening since which it starts another child; 0: its first one."""
    """The signal that it has taken and will complete with."""
    child_id: str | None = None


@dataclass(slots=True, eq=False)
class _Signals:
    """Signals that no wait has taken, and the waits that they are assigned to."""

    arrived: dict[int, KeptSignal] = field(default_factory=dict)
    kept: dict[int, KeptSignal] = field(default_factory=dict)
    promised: dict[int, ActivationKey] = field(default_factory=dict)
    taken_by: dict[int, ActivationKey] = field(default_factory=dict)
    waits: dict[ActivationKey, CheckedActivation] = field(default_factory=dict)
    """Open waits without a signal, oldest first."""
    keys: set[str] = field(default_factory=set)

    def offer(self, signal: KeptSignal) -> None:
        """Assign a signal to the oldest matching wait, or keep it."""
        for key, wait in self.waits.items():
            if (
                wait.events is not None
                and signal.event in wait.events
                and fits(wait.events[signal.event], signal.payload)
            ):
                del self.waits[key]
                self.promised[signal.seq] = key
                return
        self.kept[signal.seq] = signal

    def oldest_for(self, events: Mapping[str, Payload | None]) -> KeptSignal | None:
        """The oldest kept signal for a wait for these."""
        fitting = (
            self.kept[seq]
            for seq in sorted(self.kept)
            if self.kept[seq].event in events and fits(events[self.kept[seq].event], self.kept[seq].payload)
        )
        return next(fitting, None)

    def forget_wait(self, key: ActivationKey) -> None:
        """Drop an ended wait; a signal assigned to it goes to the next wait, or is kept."""
        self.waits.pop(key, None)
        for seq in [seq for seq, wait in self.promised.items() if wait == key]:
            del self.promised[seq]
            self.offer(self.arrived[seq])


class RunCheck(ABC):
    """Reads one log row by row and notes what is wrong with it."""

    def __init__(self, head: InstanceHead, left_out: Ranges) -> None:
        self.head = head
        self._left_out = left_out
        self.findings: list[Finding] = []
        self.last: Event | None = None
        self.ended: Event | None = None
        self.is_suspended = False
        self.has_started = False
        self.awaits_turn = False
        """It was reopened, and no worker has continued it yet."""
        self.open: dict[ActivationKey, CheckedActivation] = {}
        self.endings: dict[ActivationKey, Event] = {}
        self.copied_to = 0
        """The last row of those that a fork has begun with: they may be about other runs' children."""
        self._signals = _Signals()

    # -- reading --------------------------------------------------------------------------
    def take(self, event: Event) -> None:
        """Check the next row and record what it changes."""
        expected = 1 if self.last is None else self.last.seq + 1
        if event.seq != expected:
            self.note(FindingCode.SEQ_BROKEN, event, f"row {event.seq} follows row {expected - 1}")
        if (event.seq == 1) != (event.type is EventType.INPUT_SET):
            self.note(FindingCode.ROW_UNEXPECTED, event, f"{event.type.value} is row {event.seq}")
        if self._left_out and is_left_out(self._left_out, event.seq):
            self.last = event
            self.passed_over(event)
            return
        if self.ended is not None:
            self.note(FindingCode.ROW_AFTER_END, event, f"{event.type.value} follows {self.ended.type.value}")
        try:
            self._take(event)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as unreadable:
            message = f"the payload of {event.type.value} cannot be read: {type(unreadable).__name__}: {unreadable}"
            self.note(FindingCode.ROW_UNREADABLE, event, message)
        self.last = event

    @abstractmethod
    def finish(self) -> None:
        """Check at the end of the log that no consequence of the last rows is missing."""

    def note(self, code: FindingCode, event: Event, message: str, key: ActivationKey | None = None) -> None:
        """Keep a finding about this row, or about another activation."""
        node_id, scope = (event.node_id, event.scope) if key is None else key
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(code, event.seq, node_id, scope, message))

    def _take(self, event: Event) -> None:
        if event.node_id:
            self.awaits_turn = False
        if event.type in TERMINALS:
            self._check_terminal(event)
            self.ended = event
        elif event.type is EventType.SIGNAL_RECEIVED:
            self._signal_received(event)
        elif event.type is EventType.INSTANCE_SUSPENDED:
            self.is_suspended = True
        elif event.type is EventType.INSTANCE_RESUMED:
            self.is_suspended = False
        elif event.type is EventType.INPUT_SET:
            self.begin(event)
        elif event.type is EventType.INSTANCE_REOPENED:
            self._reopened(event)
        else:
            self.take_activation(event)

    @abstractmethod
    def passed_over(self, event: Event) -> None:
        """Take a row that a reopening left out."""

    def _reopened(self, event: Event) -> None:
        """Apply a reopening: repeated activations are due now, and waits for signals time out later by the time that
        the run was closed."""
        recorded = read_reopened(event.payload)
        self.awaits_turn, self.is_suspended = True, False
        for each in recorded.redo:
            account = self.open.get((each.node_id, each.scope))
            if account is None:
                message = f"{_name((each.node_id, each.scope))} is to be tried again, and is not open"
                self.note(FindingCode.RETRY_UNEXPECTED, event, message)
                continue
            account.attempt = account.redone_after = each.attempt
            account.is_retrying, account.is_waiting, account.due_at, account.row = True, False, event.created_at, event
            account.child_id = None
            if each.replaces_child:
                account.child_generation = recorded.generation
        for account in self._signals.waits.values():
            if account.due_at is not None:
                account.due_at += recorded.closed_ms

    @abstractmethod
    def begin(self, event: Event) -> None:
        """Take INPUT_SET."""

    @abstractmethod
    def take_activation(self, event: Event) -> None:
        """Take a row about a node or step, or a note."""

    @abstractmethod
    def check_completed(self, event: Event) -> None:
        """Check that the run completes now, with this output."""

    @abstractmethod
    def check_failed(self, event: Event) -> None:
        """Check that the run fails now, with this error of a node or function."""

    # -- attempts -------------------------------------------------------------------------
    def dispatched(self, event: Event, *, begins_with: int = 1) -> CheckedActivation | None:
        """Check a further attempt and return its activation; None for the first row of an activation, which the caller
        checks."""
        key = (event.node_id, event.scope)
        self._check_begin(event)
        account = self.open.get(key)
        if key in self.endings:
            self.note(FindingCode.DISPATCHED_TWICE, event, f"{_name(key)} is dispatched after it has ended")
            return account
        if account is None:
            if event.attempt != begins_with:
                self.note(
                    FindingCode.DISPATCH_UNEXPECTED, event, f"attempt {event.attempt} of {_name(key)} is its first"
                )
            return None
        if event.attempt != account.attempt + 1:
            code = FindingCode.DISPATCHED_TWICE if event.attempt <= account.attempt else FindingCode.DISPATCH_UNEXPECTED
            self.note(code, event, f"attempt {event.attempt} of {_name(key)} follows attempt {account.attempt}")
        elif not account.is_retrying:
            message = f"attempt {event.attempt} of {_name(key)} is dispatched although the one before has not failed"
            self.note(FindingCode.DISPATCH_UNEXPECTED, event, message)
        else:
            self._check_due(event, account)
        account.attempt, account.row, account.dispatched_at = event.attempt, event, event.created_at
        account.is_retrying, account.due_at = False, None
        return account

    def _check_begin(self, event: Event) -> None:
        if not self.has_started and event.created_at < self.head.available_at != self.head.created_at:
            message = f"the run begins before {to_iso(self.head.available_at)}, for which it was started"
            self.note(FindingCode.TIMER_EARLY, event, message)
        self.has_started = True

    def _check_due(self, event: Event, account: CheckedActivation) -> None:
        """Check a row that depends on a due time."""
        if account.due_at is not None and event.created_at < account.due_at:
            early_ms = account.due_at - event.created_at
            message = f"{event.type.value} of {_name(account.key)} comes {early_ms} ms before it is due"
            self.note(FindingCode.TIMER_EARLY, event, message)
        if self.is_suspended:
            message = f"{event.type.value} of {_name(account.key)} is written while the run is suspended"
            self.note(FindingCode.FIRED_WHILE_SUSPENDED, event, message)

    def answered(self, event: Event, *, may_be_first: bool = False) -> CheckedActivation | None:
        """The open activation that a row is about, and whose attempt it answers."""
        key = (event.node_id, event.scope)
        account = self.open.get(key)
        if key in self.endings:
            code = FindingCode.ENDED_TWICE if event.type in ENDINGS else FindingCode.RESULT_UNEXPECTED
            ended = self.endings[key]
            self.note(code, event, f"{event.type.value} of {_name(key)}, which has ended in row {ended.seq}")
            return None
        if account is None:
            if not may_be_first:
                self.note(
                    FindingCode.RESULT_UNEXPECTED, event, f"{event.type.value} of {_name(key)}, which is not open"
                )
                return None
            account = self.open[key] = CheckedActivation(key, event.attempt, event)
        elif event.attempt != account.attempt:
            answers = f"{event.type.value} of attempt {event.attempt} of {_name(key)}"
            message = f"{answers} while attempt {account.attempt} is open"
            self.note(FindingCode.RESULT_UNEXPECTED, event, message)
        elif account.is_retrying and event.type is not EventType.NODE_SKIPPED:
            message = f"{event.type.value} of {_name(key)} between two attempts"
            self.note(FindingCode.RESULT_UNEXPECTED, event, message)
        return account

    def attempt_failed(
        self, event: Event, account: CheckedActivation, *, attempts_max: int | None, earliest: int | None
    ) -> None:
        """Take NODE_ATTEMPT_FAILED: another attempt is due."""
        due_at = read_retry_time(event.payload)
        if attempts_max is not None and event.attempt - account.redone_after >= attempts_max:
            message = f"attempt {event.attempt} of {_name(account.key)} was the last, and another one is due"
            self.note(FindingCode.RETRY_UNEXPECTED, event, message)
        if earliest is not None and due_at < earliest:
            message = (
                f"the next attempt of {_name(account.key)} is due {earliest - due_at} ms before its backoff is over"
            )
            self.note(FindingCode.TIMER_EARLY, event, message)
        account.is_retrying, account.due_at, account.row = True, due_at, event

    # -- waits ----------------------------------------------------------------------------
    def waiting(self, event: Event, account: CheckedActivation) -> Waiting:
        """Take NODE_WAITING."""
        recorded = read_wait(event.payload)
        if isinstance(recorded, SignalTaken) and account.events is not None:
            if self.is_suspended:  # unlike a result that was under way, with what follows from it
                message = f"{_name(account.key)} takes a signal while the run is suspended"
                self.note(FindingCode.FIRED_WHILE_SUSPENDED, event, message)
            self._take_signal(event, account, recorded)
        elif account.is_waiting:
            self.note(FindingCode.RESULT_UNEXPECTED, event, f"{_name(account.key)} waits already")
        elif isinstance(recorded, SignalTaken):
            account.events = {recorded.event: None}
            self._take_signal(event, account, recorded)
        elif isinstance(recorded, SignalAwaited):
            self._open_wait(event, account, recorded)
        elif isinstance(recorded, ChildAwaited):
            account.child_id = recorded.child_id
            own = child_id(self.head.instance_id, *account.key, account.child_generation)
            if event.seq > self.copied_to and recorded.child_id != own:
                message = f"{_name(account.key)} waits for run {recorded.child_id}, which is not its child"
                self.note(FindingCode.CHILD_DIFFERS, event, message)
        elif isinstance(recorded, DelayStarted):
            account.delay, account.due_at = recorded, recorded.due_at
        account.row, account.is_waiting = event, True
        return recorded

    def _open_wait(self, event: Event, account: CheckedActivation, recorded: SignalAwaited) -> None:
        account.events, account.names_event, account.due_at = recorded.events, recorded.names_event, recorded.due_at
        oldest = self._signals.oldest_for(recorded.events)
        taken = None if recorded.taken is None else recorded.taken.seq
        if taken is not None:
            assert recorded.taken is not None
            self._take_signal(event, account, recorded.taken)
        elif oldest is not None:
            message = f"{_name(account.key)} waits although signal {oldest.seq} ({oldest.event}) was kept for it"
            self.note(FindingCode.SIGNAL_DIFFERS, event, message)
        else:
            self._signals.waits[account.key] = account

    def _signal_received(self, event: Event) -> None:
        received = read_signal(event.payload)
        if received.key is not None:
            if received.key in self._signals.keys:
                self.note(
                    FindingCode.SIGNAL_TWICE, event, f"the signal with the key {received.key!r} is recorded twice"
                )
            self._signals.keys.add(received.key)
        signal = KeptSignal(event.seq, received.event, received.content)
        self._signals.arrived[event.seq] = signal
        self._signals.offer(signal)

    def _take_signal(self, event: Event, account: CheckedActivation, taken: SignalTaken) -> None:
        signals, name = self._signals, _name(account.key)
        signal = signals.arrived.get(taken.seq)
        if signal is None or signal.event != taken.event:
            self.note(
                FindingCode.SIGNAL_DIFFERS, event, f"{name} takes signal {taken.seq}, which the log does not have"
            )
            return
        if taken.seq in signals.taken_by:
            by = _name(signals.taken_by[taken.seq])
            self.note(FindingCode.SIGNAL_TWICE, event, f"{name} takes signal {taken.seq}, which {by} has taken")
            return
        promised = [seq for seq, key in signals.promised.items() if key == account.key]
        if promised:
            oldest: int | None = promised[0]
        else:
            found = signals.oldest_for(account.events or {})
            oldest = None if found is None else found.seq
        if oldest != taken.seq:
            message = f"{name} takes signal {taken.seq}" + (
                "; it is another wait's" if oldest is None else f"; its turn is signal {oldest}'s"
            )
            self.note(FindingCode.SIGNAL_DIFFERS, event, message)
        signals.promised.pop(taken.seq, None)
        signals.kept.pop(taken.seq, None)
        signals.waits.pop(account.key, None)
        signals.taken_by[taken.seq] = account.key
        account.taken = signal

    # -- endings --------------------------------------------------------------------------
    def close(self, event: Event, account: CheckedActivation | None) -> None:
        """Close the activation that ends with this row."""
        key = (event.node_id, event.scope)
        self.endings.setdefault(key, event)
        self.open.pop(key, None)
        if account is not None and account.events is not None:
            self._signals.forget_wait(key)

    def check_wait_over(self, event: Event, account: CheckedActivation) -> None:
        """NODE_COMPLETED of an activation that waited: by its time, its signal or its child, and by nothing else."""
        name, handle = _name(account.key), event.next_handle or DEFAULT_HANDLE
        if account.delay is not None:
            self._check_due(event, account)
            expected = account.delay.output or NULL
            if not json_equal(expected.value, event.payload.value):
                self.note(
                    FindingCode.RESULT_DIFFERS, event, f"{name} completes with another output than it waited with"
                )
            if account.delay.output is not None and account.delay.next_handle != event.next_handle:
                self.note(
                    FindingCode.HANDLE_DIFFERS,
                    event,
                    f"{name} leaves by {handle!r}, and had {account.delay.next_handle!r}",
                )
        elif account.taken is not None:
            expected = account.taken.output(names_event=account.names_event)
            if handle != DEFAULT_HANDLE or not json_equal(expected.value, event.payload.value):
                self.note(
                    FindingCode.RESULT_DIFFERS,
                    event,
                    f"{name} completes with something else than signal {account.taken.seq}",
                )
        elif account.events is not None:
            if handle != TIMEOUT_HANDLE or account.due_at is None:
                self.note(
                    FindingCode.RESULT_UNEXPECTED, event, f"{name} completes without a signal and without a timeout"
                )
            else:
                self._check_due(event, account)

    # -- the end --------------------------------------------------------------------------
    def _check_terminal(self, event: Event) -> None:
        if event.type is EventType.INSTANCE_COMPLETED:
            self.check_completed(event)
        elif event.type is EventType.INSTANCE_FAILED:
            code = event.payload.value["code"]
            if code == "DEADLINE_EXCEEDED":
                deadline = self.head.deadline_at
                if deadline is None or event.created_at < deadline:
                    when = "it has none" if deadline is None else f"it is {to_iso(deadline)}"
                    self.note(FindingCode.TIMER_EARLY, event, f"the run fails for its deadline, and {when}")
            elif code not in _OWN_FAILURES:
                self.check_failed(event)


def _name(key: ActivationKey) -> str:
    """The name of an activation in messages."""
    node_id, scope = key
    if not node_id:
        return "the workflow function"
    return f"'{node_id}' in {scope}" if scope else f"'{node_id}'"
