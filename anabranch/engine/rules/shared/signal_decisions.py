"""Decisions about signals that drawn and coded runs share: a signal that arrives, and a wait that asks for one.

Pure. Called by `decide`, `drawn.outcomes` and `coded_decide`. Which wait takes which signal is in `signals`.
"""

from __future__ import annotations

from anabranch.engine.rules.event_payloads import SignalAwaited, SignalReceived, SignalTaken
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.shared.decisions import AnyDecisionBuilder, Decision
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX, RunSignals, SignalWait
from anabranch.engine.rules.stimuli import AwaitsAnySignal, AwaitsSignal, SignalSent
from anabranch.engine.rules.values import Payload


def signal_known_or_refused(builder: AnyDecisionBuilder, signal: SignalSent) -> Decision | None:
    """The answer for a signal whose key has arrived before, or that exceeds the limit of kept signals; None: accept
    it."""
    signals: RunSignals = builder.state.signals
    if signal.key is not None and signal.key in signals.answers:
        return Decision(delivered=signals.answers[signal.key])
    if signals.kept_count >= SIGNALS_KEPT_MAX and signals.oldest_wait(signal.event, signal.payload) is None:
        return Decision(refused="TOO_MANY_SIGNALS")
    return None


def accept_signal(builder: AnyDecisionBuilder, signal: SignalSent) -> bool:
    """Record a signal. True if a matching wait was open."""
    waited_for = builder.state.signals.oldest_wait(signal.event, signal.payload) is not None
    arrived = SignalReceived(signal.event, signal.payload, signal.key)
    builder.append(EventType.SIGNAL_RECEIVED, "", "", 0, arrived.payload)
    return waited_for


def opened_wait(builder: AnyDecisionBuilder, asked: AwaitsSignal | AwaitsAnySignal) -> tuple[Payload, Payload | None]:
    """The payload of NODE_WAITING for a signal, and the output of the wait if a kept signal ends it at once."""
    names_event = isinstance(asked, AwaitsAnySignal)
    events = asked.events if isinstance(asked, AwaitsAnySignal) else {asked.event: asked.match}
    due_at = None if asked.timeout_ms is None else builder.now + asked.timeout_ms
    signals: RunSignals = builder.state.signals
    signal = signals.oldest_kept(events)
    taken = None if signal is None else SignalTaken(signal.event, signal.seq)
    output = None if signal is None else signal.output(names_event=names_event)
    return SignalAwaited(events, names_event, due_at, taken).payload, output


def served_wait(wait: SignalWait) -> tuple[Payload, Payload]:
    """The payload of NODE_WAITING for a wait that takes the signal promised to it, and the output of the wait."""
    signal = wait.promised
    assert signal is not None, "only who was promised a signal takes one"
    return SignalTaken(signal.event, signal.seq).payload, signal.output(names_event=wait.names_event)
