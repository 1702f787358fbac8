"""Signals: kept until consumed, each feeding one wait, whichever process wrote them."""

from __future__ import annotations

import pytest

from anabranch.engine.rules.shared.decisions import CONTEXT_BYTES_MAX
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX, fits
from anabranch.engine.rules.value_parts import PART_BYTES_MIN
from anabranch.engine.rules.values import Payload
from tests.spec.drawings import drawn, loop
from tests.spec.scenario import LAPSED, TAIL, Scenario, asks_for, begun, cancel, completed, failed, signal

TWO = drawn("start>a, start>b, start>busy")


# -- keeping ------------------------------------------------------------------------------
def test_a_signal_is_recorded_whether_or_not_anyone_waits():
    happened = begun(TWO).when(signal("go", {"n": 1}, key="k"))
    assert happened.types == ["SIGNAL_RECEIVED"]
    assert happened.payload("SIGNAL_RECEIVED") == {"event": "go", "key": "k", "payload": {"n": 1}}
    assert happened.decision.delivered is False


def test_a_signal_without_a_key_has_none_in_its_row():
    assert begun(TWO).when(signal("go")).payload("SIGNAL_RECEIVED") == {"event": "go", "payload": None}


def test_a_wait_takes_the_oldest_kept_signal_at_once():
    run = begun(TWO).then(signal("go", "first"), signal("go", "second"))
    happened = run.when(asks_for("a", "go"))
    assert happened.types == ["NODE_WAITING", "NODE_COMPLETED"]
    assert happened.payload("NODE_COMPLETED") == "first"
    assert run.when(asks_for("b", "go")).payload("NODE_COMPLETED") == "second"


def test_the_wait_that_takes_a_signal_names_it():
    run = begun(TWO)
    taken = run.when(signal("go")).event("SIGNAL_RECEIVED").seq
    assert run.when(asks_for("a", "go")).payload("NODE_WAITING")["signalSeq"] == taken


def test_a_signal_that_meets_an_open_wait_is_named_by_it_too():
    run = begun(TWO).then(asks_for("a", "go"))
    happened = run.when(signal("go"))
    assert happened.types == ["SIGNAL_RECEIVED", "NODE_WAITING", "NODE_COMPLETED"]
    assert happened.payload("NODE_WAITING")["signalSeq"] == happened.event("SIGNAL_RECEIVED").seq
    assert happened.decision.delivered is True


def test_a_wait_takes_no_signal_of_another_name():
    run = begun(TWO).then(signal("stop"))
    assert run.when(asks_for("a", "go")).types == ["NODE_WAITING"]


def test_a_wait_passes_over_kept_signals_that_do_not_fit():
    run = begun(TWO).then(signal("go", {"id": 1}), signal("go", {"id": 2}), signal("go", {"id": 2, "later": True}))
    assert run.when(asks_for("a", "go", match={"id": 2})).payload("NODE_COMPLETED") == {"id": 2}
    assert run.when(asks_for("b", "go")).payload("NODE_COMPLETED") == {"id": 1}


def test_kept_signals_survive_a_restart_in_their_order():
    run = begun(TWO).then(signal("go", 1), signal("go", 2)).crashed()
    assert run.when(asks_for("a", "go")).payload("NODE_COMPLETED") == 1


# -- one signal, one wait -----------------------------------------------------------------
def test_one_signal_feeds_the_oldest_open_wait_and_no_other():
    run = begun(TWO).then(asks_for("b", "go"), asks_for("a", "go"))
    assert run.when(signal("go")).completions == ["b"]
    assert run.when(signal("go")).completions == ["a"]


def test_a_signal_passes_over_waits_that_it_does_not_fit():
    run = begun(TWO).then(asks_for("a", "go", match={"id": 1}), asks_for("b", "go", match={"id": 2}))
    assert run.when(signal("go", {"id": 2})).completions == ["b"]


def test_a_signal_that_fits_no_wait_is_kept():
    run = begun(TWO).then(asks_for("a", "go", match={"id": 1}))
    happened = run.when(signal("go", {"id": 3}))
    assert (happened.types, happened.decision.delivered) == (["SIGNAL_RECEIVED"], False)


def test_a_consumed_signal_is_not_consumed_again():
    run = begun(TWO).then(asks_for("a", "go"), signal("go"))
    assert run.when(asks_for("b", "go")).completions == []


def test_iterations_wait_for_signals_of_their_own():
    run = begun(drawn("start>each, each.loop>wait", each=loop(concurrency=3)))
    run.then(completed("each", [1, 2, 3]))
    run.then(*(asks_for(f"each[{i}]/wait", "go", match={"i": i}) for i in range(3)))
    assert run.when(signal("go", {"i": 2})).completions == ["each[2]/wait"]
    assert run.when(signal("go", {"i": 0})).completions == ["each[0]/wait"]


# -- fitting ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("match", "payload", "fit"),
    [
        ({}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}, True),
        ({"a": {"b": 1}}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": None}, {"a": None}, True),
        ([1, 2], [1, 2], True),
        ([1], [1, 2], False),
        ([{"a": 1}], [{"a": 1, "b": 2}], False),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ({"a": [0]}, {"a": [False]}, False),
        ("1", 1, False),
        ({}, "text", False),
        ({}, [], False),
    ],
)
def test_objects_match_supersets_and_everything_else_equals(match, payload, fit):
    assert fits(Payload.of(match), Payload.of(payload)) is fit


def test_no_match_takes_everything():
    assert fits(None, Payload.of({"any": "thing"}))


# -- keys ---------------------------------------------------------------------------------
def test_a_repeated_key_is_delivered_once_and_answered_as_the_first_was():
    run = begun(TWO).then(asks_for("a", "go"))
    assert run.when(signal("go", 1, key="k")).decision.delivered is True
    again = run.when(signal("go", 2, key="k"))
    assert again.nothing
    assert again.decision.delivered is True


def test_a_repeated_key_is_answered_as_the_first_was_though_a_wait_is_open_now():
    run = begun(TWO).then(signal("go", 1, key="k"), asks_for("a", "go"), asks_for("b", "go"))
    again = run.when(signal("go", 2, key="k"))
    assert again.nothing
    assert again.decision.delivered is False


def test_a_repeated_key_is_known_after_a_restart():
    run = begun(TWO).then(signal("go", 1, key="k")).crashed()
    assert run.when(signal("other", 2, key="k")).nothing


def test_signals_without_keys_are_all_delivered():
    run = begun(TWO).then(signal("go", 1), signal("go", 1))
    assert run.rows("SIGNAL_RECEIVED") == ["", ""]


# -- the limit ----------------------------------------------------------------------------
def test_ten_thousand_unconsumed_signals_may_be_kept():
    assert SIGNALS_KEPT_MAX == 10_000


def full() -> Scenario:
    """A run that keeps as many signals as it may."""
    return begun(TWO, checked=False).then(*[signal("kept")] * SIGNALS_KEPT_MAX)


def test_a_signal_past_the_limit_is_refused_until_one_is_consumed():
    run = full()
    refused = run.when(signal("kept"))
    assert refused.nothing
    assert refused.decision.refused == "TOO_MANY_SIGNALS"
    run.then(asks_for("a", "kept"))
    assert run.when(signal("kept")).types == ["SIGNAL_RECEIVED"]
    run.check()


def test_a_signal_that_a_wait_takes_at_once_is_never_refused():
    run = full().then(asks_for("a", "go"))
    assert run.when(signal("go")).completions == ["a"]


# -- written by another process -----------------------------------------------------------
def test_a_signal_written_elsewhere_completes_its_wait_once_the_tail_is_loaded():
    run = begun(TWO).then(asks_for("a", "go")).written_elsewhere(signal("go", "hello"))
    happened = run.when(TAIL)
    assert happened.types == ["NODE_WAITING", "NODE_COMPLETED"]
    assert happened.payload("NODE_COMPLETED") == "hello"
    assert run.when(TAIL).nothing


def test_a_signal_written_elsewhere_that_fits_no_wait_is_kept():
    run = begun(TWO).written_elsewhere(signal("go", "early"))
    assert run.when(TAIL).nothing
    assert run.when(asks_for("a", "go")).payload("NODE_COMPLETED") == "early"


def test_signals_written_elsewhere_are_served_in_their_order():
    run = begun(TWO).then(asks_for("b", "go"), asks_for("a", "go"))
    run.written_elsewhere(signal("go", 1)).written_elsewhere(signal("go", 2))
    happened = run.when(TAIL)
    assert happened.completions == ["b", "a"]
    assert [happened.payload("NODE_COMPLETED", node) for node in "ba"] == [1, 2]


def test_a_takeover_serves_what_was_written_in_the_absence():
    run = begun(TWO).then(asks_for("a", "go")).written_elsewhere(signal("go", 1)).crashed()
    assert run.when(LAPSED).completions == ["a"]


def test_a_signal_written_before_a_timeout_was_recorded_beats_it():
    run = begun(TWO).then(asks_for("a", "go", timeout_ms=1_000))
    run.now += 2_000
    run.written_elsewhere(signal("go", "in time"))
    assert run.when(TAIL).payload("NODE_COMPLETED") == "in time"


def test_a_promised_signal_beats_a_timeout_that_fires_first():
    run = begun(TWO).then(asks_for("a", "go", timeout_ms=1_000)).written_elsewhere(signal("go", "in time"))
    assert run.later(1_000).payload("NODE_COMPLETED") == "in time"


def test_a_signal_promised_to_a_wait_that_ends_goes_to_the_next_one():
    document = drawn("start>each, start>wait, each.loop>inner, each.loop>bad", each=loop(onItemError="collect"))
    run = begun(document).then(completed("each", [1]))
    run.then(asks_for("each[0]/inner", "go"), asks_for("wait", "go"))
    run.written_elsewhere(signal("go", "for whom?"))
    happened = run.when(failed("each[0]/bad"))
    assert "each[0]/inner" in happened.skips
    assert happened.payload("NODE_COMPLETED", "wait") == "for whom?"
    assert run.when(TAIL).nothing


def test_a_signal_promised_to_a_wait_that_ends_is_kept_if_nobody_else_waits():
    document = drawn("start>each, start>wait, each.loop>inner, each.loop>bad", each=loop(onItemError="collect"))
    run = begun(document).then(completed("each", [1]), asks_for("each[0]/inner", "go"))
    run.written_elsewhere(signal("go", "old")).written_elsewhere(signal("go", "new"))
    run.then(failed("each[0]/bad"))
    assert run.when(asks_for("wait", "go")).payload("NODE_COMPLETED") == "old"


def test_nothing_follows_a_failure_though_more_signals_were_promised():
    big = "x" * (PART_BYTES_MIN - 2)
    fillers = [f"n{number}" for number in range(CONTEXT_BYTES_MAX // PART_BYTES_MIN - 1)]
    run = begun(drawn(", ".join(["start>a, start>b", *(f"start>{node}" for node in fillers)])))
    run.completed(*fillers, output=big).then(asks_for("a", "go"), asks_for("b", "go"))
    run.written_elsewhere(signal("go", big)).written_elsewhere(signal("go", "small"))
    happened = run.when(TAIL)
    assert happened.ending == "INSTANCE_FAILED"
    assert happened.failures == ["a"]


def test_a_signal_to_an_ended_instance_changes_nothing():
    run = begun(TWO).then(cancel())
    assert run.when(signal("go")).nothing
