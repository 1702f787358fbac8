"""Each form of a payload is read back as it was written, and has the JSON that all versions have stored."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from anabranch.engine.rules import event_payloads
from anabranch.engine.rules.coded.names import Mark, StepKind, variable_and_mark
from anabranch.engine.rules.event_payloads import (
    ChildAwaited,
    DefinitionSet,
    DelayStarted,
    FunctionPaused,
    FunctionPostponed,
    InputSet,
    LoopOpened,
    NodeFailed,
    Recovered,
    ReplayRules,
    RetryScheduled,
    RunCancelledPayload,
    RunFailedPayload,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    Waiting,
)
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

NOON, NOON_MS = "2030-01-31T12:00:00.000+00:00", 1_896_091_200_000
ERROR = RunError("E", "Error", "no way", "n", "each[1]", 2)
MATCH = Payload.of({"a": 1})

WAITS: list[tuple[Waiting, dict[str, Any]]] = [
    (DelayStarted(NOON_MS), {"dueAt": NOON}),
    (DelayStarted(NOON_MS, Payload.of([1]), "default"), {"dueAt": NOON, "output": [1], "nextHandle": "default"}),
    (SignalAwaited({"go": None}, names_event=False), {"event": "go"}),
    (SignalAwaited({"go": MATCH}, False, NOON_MS), {"event": "go", "match": {"a": 1}, "dueAt": NOON}),
    (SignalAwaited({"a": None, "b": MATCH}, names_event=True), {"events": {"a": None, "b": {"a": 1}}}),
    (
        SignalAwaited({"a": None}, True, NOON_MS, SignalTaken("a", 7)),
        {"events": {"a": None}, "dueAt": NOON, "event": "a", "signalSeq": 7},
    ),
    (SignalTaken("go", 7), {"event": "go", "signalSeq": 7}),
    (ChildAwaited("child"), {"childID": "child"}),
    (FunctionPaused(ready=True), {"ready": True}),
    (FunctionPaused(ready=False), {}),
]


@pytest.mark.parametrize(("said", "stored"), WAITS)
def test_what_is_waited_for_is_read_as_it_was_written(said: Waiting, stored: dict[str, Any]) -> None:
    assert orjson.loads(said.payload.raw) == said.payload.value == stored
    assert event_payloads.read_wait(Payload.parse(said.payload.raw)) == said


def test_a_kept_signal_that_ends_a_wait_at_once_is_stored_as_one_that_is_taken_later() -> None:
    at_once = SignalAwaited({"go": None}, names_event=False, taken=SignalTaken("go", 3))
    assert event_payloads.read_wait(at_once.payload) == SignalTaken("go", 3)


@pytest.mark.parametrize(
    "said",
    [DefinitionSet(Payload.of({"nodes": []})), FunctionPostponed("E", "no code", NOON_MS), ReplayRules(1, "3.12", 5)],
)
def test_what_the_engine_notes_is_read_as_it_was_written(
    said: DefinitionSet | FunctionPostponed | ReplayRules,
) -> None:
    assert event_payloads.read_system(Payload.parse(said.payload.raw)) == said
    assert event_payloads.read_rules(said.payload) == (said if isinstance(said, ReplayRules) else None)


def test_a_note_of_a_person_is_none_of_the_engine() -> None:
    assert event_payloads.read_system(Payload.of({"note": "seen"})) is None


FORMS: list[tuple[Any, Any]] = [
    (InputSet(Payload.of({"n": 1})), {"input": {"n": 1}}),
    (RetryScheduled(ERROR, NOON_MS), {"error": ERROR.as_json(), "dueAt": NOON}),
    (NodeFailed(ERROR), {"error": ERROR.as_json()}),
    (RunFailedPayload(ERROR), ERROR.as_json()),
    (RunCancelledPayload("enough"), "enough"),
    (LoopOpened(Payload.of([1, 2])), {"items": [1, 2], "count": 2}),
    (LoopOpened(None), {"items": None, "count": None}),
    (SignalReceived("go", Payload.of(1)), {"event": "go", "payload": 1}),
    (SignalReceived("go", Payload.of(1), "k"), {"event": "go", "key": "k", "payload": 1}),
    (Recovered(2), {"recoveries": 2}),
    (Recovered(2, 1, 1), {"recoveries": 2, "company": 1, "crashes": 1}),
]


@pytest.mark.parametrize(("said", "stored"), FORMS)
def test_a_form_is_stored_as_it_has_always_been(said: Any, stored: Any) -> None:
    assert orjson.loads(said.payload.raw) == said.payload.value == stored


def test_the_parts_that_are_asked_for_are_read() -> None:
    assert event_payloads.read_input(InputSet(Payload.of(7)).payload) == 7
    assert event_payloads.read_retry_time(RetryScheduled(ERROR, NOON_MS).payload) == NOON_MS
    assert event_payloads.read_error(NodeFailed(ERROR).payload) == ERROR.as_json()
    assert event_payloads.read_items(LoopOpened(None).payload) is None
    assert event_payloads.read_recovered(Recovered(3, 2, 1).payload) == Recovered(3, 2, 1)
    assert event_payloads.read_signal(SignalReceived("go", MATCH, "k").payload) == SignalReceived("go", MATCH, "k")
    definition = Event(2, EventType.SYSTEM_SET, "", "", 0, DefinitionSet(MATCH).payload, 0)
    assert event_payloads.read_definition([definition]) == {"a": 1} and event_payloads.read_definition([]) is None


@pytest.mark.parametrize("rows", [frozenset(), frozenset({7}), frozenset({9, 7}), frozenset(range(7, 900))])
def test_the_column_of_variables_keeps_marks_apart(rows: frozenset[int]) -> None:
    mark = Mark.of(StepKind.EVENT, rows)
    assert variable_and_mark(mark.text) == (None, mark)
    assert (mark.latest_row, set(mark.rows) >= rows) == (max(rows, default=None), True)
    assert variable_and_mark("orders") == ("orders", None) and variable_and_mark(None) == (None, None)
