"""Whether a signal meets an open wait is the same, told by the rows about signals and waits and by the whole state."""

from __future__ import annotations

import random

import pytest

from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.event_payloads import SignalReceived
from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType
from anabranch.engine.rules.evolve import evolve
from anabranch.engine.rules.shared.signals import FoldedSignals
from anabranch.engine.rules.stimuli import LogReloaded
from anabranch.engine.rules.values import Payload
from tests.spec.drawings import drawn
from tests.spec.scenario import TIMERS, asks_for, begun, signal

WAITS = 6


@pytest.mark.parametrize("seed", range(150))
def test_open_waits_alone_tell_what_a_signal_meets(seed: int):
    """Signals come past the engine, several at once, or through it; waits open, time out and take them."""
    dice = random.Random(seed)
    run = begun(drawn(", ".join(f"start>w{number}" for number in range(WAITS))))
    state, now = run.state, run.now
    folded = FoldedSignals()
    keys: set[ActivationKey] = set()
    for event in run.log:
        tell(folded, keys, event)
    unopened = [f"w{number}" for number in range(WAITS)]
    for _ in range(25):
        if state.is_terminal:
            break
        now += 1
        name, value = dice.choice("ab"), {"n": dice.randrange(2)}
        choice = dice.randrange(5)
        if choice == 0 and unopened:
            wait = unopened.pop(dice.randrange(len(unopened)))
            match = dice.choice((None, {"n": dice.randrange(2)}))
            timeout = dice.choice((None, dice.randrange(1, 8)))
            events = decide(state, asks_for(wait, name, match=match, timeout_ms=timeout), now).events
        elif choice == 1:
            events = decide(state, signal(name, value), now).events
        elif choice == 2:
            events = decide(state, TIMERS, now).events
        elif choice == 3:
            events = decide(state, LogReloaded(), now).events
        else:  # past the engine: nobody decides what follows yet
            payload = SignalReceived(name, Payload.of(value), None).payload
            event = Event(state.last_seq + 1, EventType.SIGNAL_RECEIVED, "", "", 0, payload, now)
            met = state.signals.oldest_wait(name, Payload.of(value)) is not None
            evolve(state, event)
            assert tell(folded, keys, event) is met
            events = []
        for event in events:
            tell(folded, keys, event)
        for event_name in "ab":
            for number in range(2):
                asked = Payload.of({"n": number})
                ours = folded.signals.oldest_wait(event_name, asked)
                theirs = state.signals.oldest_wait(event_name, asked)
                assert (ours is None) == (theirs is None)
                assert ours is None or ours.key == theirs.key
    assert set(folded.signals.promises) == set(state.signals.promises)


def tell(folded: FoldedSignals, keys: set[ActivationKey], event: Event) -> bool | None:
    """What a store would read of it."""
    is_wait = event.type is EventType.NODE_WAITING and "event" in event.payload.value
    if is_wait:
        keys.add((event.node_id, event.scope))
    is_end = event.type in ENDINGS and (event.node_id, event.scope) in keys
    if is_wait or is_end or event.type is EventType.SIGNAL_RECEIVED:
        return folded.evolve(event)
    return None


def test_a_key_is_answered_as_it_was_when_it_came_first():
    folded = FoldedSignals()
    payload = SignalReceived("go", Payload.of(1), "k").payload
    folded.evolve(Event(5, EventType.SIGNAL_RECEIVED, "", "", 0, payload, 1))
    assert folded.signals.answers == {"k": False}
