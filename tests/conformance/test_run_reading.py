"""One run as it is shown: found through columns, page by page, and the same as going through the whole log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.engine.ports import ActivationPage, InstanceRow, OutputsRead, Store
from anabranch.engine.rules.coded.names import Mark, StepKind
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.service.runs.run_view import activations_in, step
from tests.conformance.building import (
    attempt_failed,
    committed,
    completed,
    created,
    dispatched,
    ending,
    event,
    failed,
    input_set,
    instance_completed,
    row_of,
    signal_received,
    skipped,
    transition,
    waiting,
)

ALL = 2**62


def drawn_log(seed: int) -> list[Event]:
    """Activations in every state, in and outside of iterations, their rows mixed."""
    dice = random.Random(seed)
    lives: list[list[Event]] = []
    for number in range(30):
        node, scope = f"n{number}", dice.choice(("", "", "each[0]", "each[1]"))
        lives.append(
            dice.choice(
                (
                    [skipped(node, scope)],
                    [dispatched(node, scope)],
                    [dispatched(node, scope), completed(node, scope, output="x" * number)],
                    [dispatched(node, scope), failed(node, scope)],
                    [dispatched(node, scope), attempt_failed(node, scope)],
                    [dispatched(node, scope), attempt_failed(node, scope), dispatched(node, scope, 2)],
                    [
                        dispatched(node, scope),
                        attempt_failed(node, scope),
                        dispatched(node, scope, 2),
                        completed(node, scope, 2, output=number),
                    ],
                    [dispatched(node, scope), event(EventType.LOOP_OPENED, node, scope, 1, {"count": 3})],
                    [dispatched(node, scope), event(EventType.NODE_WAITING, node, scope, 1, {"event": "go"})],
                    [dispatched(node, scope), event(EventType.NODE_SKIPPED, node, scope, 1)],
                )
            )
        )
    return [input_set({"a": 1}), *mixed(dice, lives), signal_received("other")]


def coded_log(seed: int) -> list[Event]:
    """Steps in every state: most have no row for their beginning."""
    dice = random.Random(seed)
    lives: list[list[Event]] = []
    for number in range(20):
        fields = {"node_id": f"s{number}", "attempt": 1, "mark": Mark(StepKind.RUN, str(dice.randrange(2, 6)))}
        later = {**fields, "attempt": 2}
        error = {"error": {"code": "E"}, "dueAt": "2030-01-01T00:00:00+00:00"}
        lives.append(
            dice.choice(
                (
                    [event(EventType.NODE_COMPLETED, payload={"n": number}, **fields)],
                    [event(EventType.NODE_FAILED, payload=error, **fields)],
                    [event(EventType.NODE_ATTEMPT_FAILED, payload=error, **fields)],
                    [
                        event(EventType.NODE_ATTEMPT_FAILED, payload=error, **fields),
                        event(EventType.NODE_DISPATCHED, **later),
                    ],
                    [
                        event(EventType.NODE_WAITING, payload={"event": "go"}, **fields),
                        event(EventType.NODE_COMPLETED, payload={"n": number}, **fields),
                    ],
                )
            )
        )
    body = [event(EventType.NODE_DISPATCHED, attempt=1), event(EventType.NODE_WAITING, attempt=1)]
    return [input_set(), *body, *mixed(dice, lives), event(EventType.NODE_DISPATCHED, attempt=2)]


def mixed(dice: random.Random, lives: list[list[Event]]) -> list[Event]:
    rows: list[Event] = []
    while lives:
        life = dice.choice(lives)
        rows.append(life.pop(0))
        lives = [each for each in lives if each]
    for at, row in enumerate(rows):
        row.created_at += at
    return rows


def activations(page: ActivationPage, row: InstanceRow) -> list[dict[str, Any]]:
    """As `/steps` lists them."""
    return [step(activation) for activation in activations_in(page, row)]


def whole(log: Sequence[Event]) -> ActivationPage:
    """All rows as one page, as a reader of the whole log would have them."""
    return ActivationPage(log, {row.seq: row.created_at for row in log}, None)


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("kind", ["drawn", "coded"])
@pytest.mark.parametrize("seed", range(4))
async def test_pages_of_activations_are_those_of_the_whole_log(
    store: Store, seed: int, kind: str, is_over: bool
) -> None:
    row = await created(store, *(drawn_log(seed) if kind == "drawn" else coded_log(seed)), kind=kind)
    if is_over:
        row = await committed(store, ending(row))
    log = await store.read_log(row.head.instance_id)
    # The payload of an opened loop holds its items: pages do not read it.
    expected = [_without(each, "iterations") for each in activations(whole(log[:-1] if is_over else log), row)]
    assert len(expected) in (20, 30)
    found, after_seq = [], 0
    while after_seq is not None:
        read = await store.read_activations(
            row.head.instance_id, after_seq=after_seq, limit=7, outputs=OutputsRead(ALL)
        )
        assert read is not None and read[0] == row
        page = [_without(each, "iterations") for each in activations(read[1], row)]
        assert len(page) <= 7
        found += page
        after_seq = read[1].next_seq
    assert found == expected
    run = await store.read_run(row.head.instance_id, activations_max=12)
    assert run is not None
    brief = [_without(each, "output", "iterations") for each in activations(run.activations, row)]
    assert brief == [_without(each, "output", "iterations") for each in expected[:12]]


def _without(activation: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in activation.items() if name not in fields}


@pytest.mark.only_on("sqlite", "postgresql", because="payloads in memory are there anyway")
async def test_a_run_is_read_without_the_outputs_of_its_nodes(store: Store) -> None:
    row = await created(store, input_set("in"), dispatched("a"), completed("a", output="x" * 1_000))
    run = await store.read_run(row.head.instance_id, activations_max=10)
    assert run is not None and run.end is None and run.note is None
    assert run.created.payload.value == {"input": "in"}
    assert [len(each.payload.raw) for each in run.activations.events] == [2, 2]


async def test_the_end_of_a_run_is_read_with_it(store: Store) -> None:
    row = await created(store)
    row = await committed(store, ending(row))
    run = await store.read_run(row.head.instance_id, activations_max=0)
    assert run is not None and run.end is not None
    assert (run.row, run.end.type, run.end.payload.value) == (row, instance_completed().type, None)
    assert run.activations.events == ()


async def test_a_page_of_activations_ends_once_outputs_have_enough_bytes(store: Store) -> None:
    rows = [row for number in range(5) for row in (dispatched(f"n{number}"), completed(f"n{number}", output="x" * 98))]
    row = await created(store, input_set(), *rows)

    async def page(bytes_max: int, after_seq: int = 0) -> tuple[list[str], int | None]:
        read = await store.read_activations(
            row.head.instance_id, after_seq=after_seq, limit=9, outputs=OutputsRead(bytes_max)
        )
        assert read is not None
        steps = activations(read[1], row)
        assert all(step["output"] == "x" * 98 for step in steps)
        return [step["nodeID"] for step in steps], read[1].next_seq

    assert await page(150) == (["n0", "n1"], 4)
    assert await page(150, after_seq=4) == (["n2", "n3"], 8)
    assert await page(150, after_seq=8) == (["n4"], None)
    assert await page(1) == (["n0"], 2), "one at least"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], None),
        ([event(EventType.SYSTEM_SET, payload={"code": "NO_CODE", "dueAt": "2030-01-01T00:00:00+00:00"})], "NO_CODE"),
        (
            [
                event(EventType.SYSTEM_SET, payload={"code": "NO_CODE"}),
                event(EventType.NODE_COMPLETED, "s", attempt=1, payload=1, mark=Mark(StepKind.RUN, "2")),
            ],
            None,
        ),
        (
            [
                event(EventType.NODE_COMPLETED, "s", attempt=1, payload=1, mark=Mark(StepKind.RUN, "2")),
                event(EventType.SYSTEM_SET, payload={"code": "NO_CODE"}),
                signal_received("e"),
            ],
            "NO_CODE",
        ),
    ],
)
async def test_a_coded_run_says_why_it_does_not_go_on_until_it_does(
    store: Store, rows: list[Event], says: str | None
) -> None:
    row = await created(store, input_set(), event(EventType.NODE_DISPATCHED, attempt=1), *rows, kind="coded")
    run = await store.read_run(row.head.instance_id, activations_max=1)
    assert run is not None
    assert (None if run.note is None else run.note.payload.value["code"]) == says


async def test_outputs_of_nodes_at_the_root_are_read_in_the_order_of_the_log(store: Store) -> None:
    rows = [
        completed("b", output=2),
        completed("a", output=1),
        completed("c", output=3),
        completed("d", "each[0]", output=4),
        failed("e"),
    ]
    row = await created(store, input_set(), *rows)
    found = await store.read_outputs(row.head.instance_id, ["a", "b", "d", "e"])
    assert [(each.node_id, each.payload.value) for each in found] == [("b", 2), ("a", 1)]
    assert await store.read_outputs(row.head.instance_id, []) == []


async def test_only_rows_about_signals_and_their_waits_are_read_for_them(store: Store) -> None:
    rows = [
        *(row for number in range(50) for row in (dispatched(f"n{number}"), completed(f"n{number}"))),
        waiting("nap", dueAt="2030-01-01T00:00:00+00:00"),
        waiting("wait", event="go"),
        signal_received("go"),
        waiting("wait", event="go", signalSeq=104),
        completed("wait"),
        waiting("any", events={"stop": None, "go": {"n": 1}}),
        completed("nap"),
    ]
    row = await created(store, input_set(), *rows)
    run = row.head.instance_id
    found = await store.read_signal_waits(run, after_seq=0, open_waits=[])
    assert [each.seq for each in found] == [103, 104, 105, 106, 107]
    assert found[1].payload.value["event"] == "go"
    assert [each.seq for each in await store.read_signal_waits(run, after_seq=105, open_waits=[])] == [107]
    again = await store.read_signal_waits(run, after_seq=105, open_waits=[("wait", "")])
    assert [each.seq for each in again] == [106, 107]


@pytest.mark.parametrize("instance_id", ["00000000-0000-4000-8000-000000000000", "no-id"])
async def test_a_run_that_is_not_there_reads_as_absent(store: Store, instance_id: str) -> None:
    assert await store.read_run(instance_id, activations_max=1) is None
    assert await store.read_activations(instance_id, after_seq=0, limit=1, outputs=OutputsRead(1)) is None
    assert await store.read_outputs(instance_id, ["a"]) == []
    assert await store.read_signal_waits(instance_id, after_seq=0, open_waits=[("a", "")]) == []


async def test_a_run_without_any_activation_has_none(store: Store) -> None:
    row: InstanceRow = await created(store)
    run = await store.read_run(row.head.instance_id, activations_max=5)
    assert run is not None and run.activations.events in ((), []) and run.activations.next_seq is None
    assert (await row_of(store, row.head.instance_id)).status is Status.RUNNING
    assert transition(row).events == []
