"""What is read of runs with many iterations: filtered activations, totals, iterations, all without outputs."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from anabranch.engine.ports import InstanceRow, OutputsRead, Store
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.history import ActivationFilter, ActivationStatus
from anabranch.service.runs import iterations as iterations_module
from anabranch.service.runs.iterations import IterationsWanted, PageStart, iterations_page
from anabranch.service.runs.run_totals import RunTotals
from anabranch.service.runs.run_view import activations_in, step
from tests.conformance.building import (
    committed,
    completed,
    created,
    dispatched,
    ending,
    event,
    failed,
    input_set,
    skipped,
    transition,
    waiting,
)
from tests.conformance.test_run_reading import ALL, coded_log, drawn_log

STATUSES = list(ActivationStatus)


def stamped(*decisions: list[Event]) -> list[Event]:
    """The rows of decisions, each a second after the one before: what follows from a row has its time."""
    for at, rows in enumerate(decisions):
        for row in rows:
            row.created_at += 1_000 * at
    return [row for rows in decisions for row in rows]


def done(node_id: str, *, at: str = "done") -> Event:
    return event(EventType.NODE_COMPLETED, node_id, "", 1, [], next_handle=at)


def looping(iterations: int, *, fails: frozenset[int] = frozenset()) -> list[list[Event]]:
    """A loop `each` of two nodes, two iterations at once; of those that fail the second node is skipped."""
    opened = event(EventType.LOOP_OPENED, "each", "", 1, {"items": [0] * iterations, "count": iterations})
    lives = []
    for index in range(iterations):
        scope = f"each[{index}]"
        charge, mail = dispatched("charge", scope), dispatched("mail", scope)
        if index in fails:
            lives.append([[charge], [failed("charge", scope), skipped("mail", scope)]])
        else:
            charged = completed("charge", scope, output="x" * 1_000)
            lives.append([[charge], [charged, mail], [completed("mail", scope)]])
    decisions = [[dispatched("each")], [opened]]
    under_way, later = lives[:2], lives[2:]
    while under_way:
        life = under_way.pop(0)
        decisions.append(life.pop(0))
        if life:
            under_way.append(life)
        elif later:
            under_way.append(later.pop(0))
    return [*decisions, [done("each")]]


async def all_steps(store: Store, row: InstanceRow, only: ActivationFilter, *, limit: int = 7) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after_seq: int | None = 0
    while after_seq is not None:
        read = await store.read_activations(
            row.head.instance_id, after_seq=after_seq, limit=limit, outputs=OutputsRead(ALL), only=only
        )
        assert read is not None
        found += [step(activation) for activation in activations_in(read[1], row) if only.takes(activation)]
        after_seq = read[1].next_seq
    return found


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("kind", ["drawn", "coded"])
@pytest.mark.parametrize("seed", range(3))
async def test_filtered_pages_have_what_a_filter_of_all_activations_has(
    store: Store, seed: int, kind: str, is_over: bool
) -> None:
    dice = random.Random(seed)
    row = await created(store, *(drawn_log(seed) if kind == "drawn" else coded_log(seed)), kind=kind)
    if is_over:
        row = await committed(store, ending(row))
    everything = await all_steps(store, row, ActivationFilter())
    for _ in range(12):
        only = ActivationFilter(
            node_id=dice.choice((None, None, "n3", "s3")),
            scope=dice.choice((None, None, "", "each[1]")),
            within=dice.choice((None, None, "each", "each[0]", "eac")),
            statuses=frozenset(dice.sample(STATUSES, dice.choice((0, 1, 2)))),
        )
        within = (only.within or "", f"{only.within}[", f"{only.within}/")
        expected = [
            each
            for each in everything
            if only.node_id in (None, each["nodeID"])
            and only.scope in (None, each["scope"])
            and (only.within is None or each["scope"] == within[0] or each["scope"].startswith(within[1:]))
            and (not only.statuses or each["status"] in only.statuses)
        ]
        assert await all_steps(store, row, only, limit=3) == expected, only


@pytest.mark.only_on("sqlite", "postgresql", because="payloads in memory are there anyway")
async def test_rows_are_read_without_payloads_but_of_errors_and_waits(store: Store) -> None:
    delay = {"dueAt": "2030-01-01T00:00:00.000+00:00", "output": "x" * 1_000, "nextHandle": "default"}
    log = [input_set("in"), dispatched("a"), failed("a"), dispatched("b"), completed("b", output="x"), dispatched("w")]
    row = await created(store, *log, waiting("w", **delay))
    rows = await store.read_rows(row.head.instance_id, after_seq=0, limit=10)
    del delay["output"]
    assert [each.payload.value for each in rows] == [{}, {}, {"error": {}}, {}, {}, {}, delay]
    assert [each.seq for each in await store.read_rows(row.head.instance_id, after_seq=2, limit=2)] == [3, 4]


async def test_a_loop_with_iterations_has_left_by_both_exits_wherever_a_page_ends(store: Store) -> None:
    empty = [dispatched("none"), event(EventType.LOOP_OPENED, "none", "", 1, {"items": [], "count": 0}), done("none")]
    branch = [dispatched("ask"), done("ask", at="yes"), skipped("no"), dispatched("last"), event(
        EventType.NODE_COMPLETED, "last", "", 1, None
    )]  # fmt: skip
    row = await created(store, *stamped([input_set()], *looping(3), empty, branch))
    found = {
        each["nodeID"]: each["handles"] for each in await all_steps(store, row, ActivationFilter(scope=""), limit=1)
    }
    assert found == {"each": ["loop", "done"], "none": ["done"], "ask": ["yes"], "no": [], "last": []}


async def test_totals_count_every_activation_and_each_row_once(store: Store) -> None:
    open_ones = [[dispatched("ask")], [waiting("ask", event="go")], [dispatched("gate")]]
    row = await created(store, *stamped([input_set()], *looping(40, fails=frozenset({7, 30})), *open_ones))
    totals = RunTotals(store)
    found = await totals.of(row)
    nodes = {node["nodeID"]: node for node in found["nodes"]}
    assert found["seq"] == row.last_seq and list(nodes) == ["each", "charge", "mail", "ask", "gate"]
    assert nodes["charge"]["counts"] == {"success": 38, "error": 2}
    assert nodes["mail"]["counts"] == {"success": 38, "skipped": 2}
    assert nodes["ask"]["counts"] == {"waiting": 1} and nodes["gate"]["counts"] == {"running": 1}
    failure = next(each for each in await store.read_log(row.head.instance_id) if each.type is EventType.NODE_FAILED)
    assert nodes["charge"]["firstError"] == {"scope": "each[7]", "seq": failure.seq}
    assert nodes["mail"]["firstError"] is None
    assert nodes["ask"]["busyMs"] == 1_000, "until it waited"
    assert found["loops"] == [{"nodeID": "each", "scope": "", "iterations": 40, "failed": 2}]
    again = await committed(store, ending(row))
    nodes = {node["nodeID"]: node["counts"] for node in (await totals.of(again))["nodes"]}
    assert (nodes["charge"], nodes["ask"], nodes["gate"]) == (
        {"success": 38, "error": 2}, {"cancelled": 1}, {"cancelled": 1}
    )  # fmt: skip
    assert (await RunTotals(store).of(again))["nodes"] == (await totals.of(again))["nodes"]


async def pages(store: Store, row: InstanceRow, *statuses: ActivationStatus, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wanted = IterationsWanted(node_id="each", statuses=statuses, limit=limit)
    after: PageStart | None = PageStart()
    while after is not None:
        items, after = await iterations_page(store, row, wanted, after=after)
        assert len(items) <= limit
        found += items
    return found


@pytest.mark.parametrize("page_rows", [3, 1_024])
async def test_iterations_come_once_each_by_index(
    store: Store, monkeypatch: pytest.MonkeyPatch, page_rows: int
) -> None:
    monkeypatch.setattr(iterations_module, "PAGE_ROWS", page_rows)
    fails = frozenset({0, 9, 24})
    row = await created(store, *stamped([input_set()], *looping(25, fails=fails)))
    for limit in (1, 4, 25, 100):
        found = await pages(store, row, limit=limit)
        assert [each["index"] for each in found] == list(range(25))
        assert {each["index"] for each in found if each["status"] == "error"} == fails
        assert Counter(each["status"] for each in found) == {"error": 3, "success": 22}
        assert {each["activations"] for each in found} == {2} and all(each["endedAt"] for each in found)
        assert [each["error"] is not None for each in found] == [each["status"] == "error" for each in found]
    failures = await pages(store, row, ActivationStatus.ERROR, limit=2)
    assert [each["scope"] for each in failures] == ["each[0]", "each[9]", "each[24]"]


async def test_an_iteration_that_is_not_over_says_what_it_does(store: Store) -> None:
    rows = [dispatched("each"), dispatched("charge", "each[0]"), completed("charge", "each[0]")]
    wait = event(EventType.NODE_WAITING, "mail", "each[1]", 1, {"event": "go"})
    rows += [
        dispatched("mail", "each[1]"),
        wait,
        dispatched("inner", "each[2]"),
        dispatched("deep", "each[2]/inner[0]"),
    ]
    row = await created(store, *stamped([input_set()], *([row] for row in rows)))
    found = await pages(store, row, limit=10)
    assert [(each["status"], each["activations"], each["endedAt"] is None) for each in found] == [
        ("success", 1, False), ("waiting", 1, True), ("running", 2, True)
    ]  # fmt: skip
    assert (await pages(store, row, ActivationStatus.WAITING, limit=10))[0]["index"] == 1
    row = await committed(store, transition(row, completed("deep", "each[2]/inner[0]")))
    row = await committed(store, ending(row))
    assert [each["status"] for each in await pages(store, row, limit=10)] == ["success", "cancelled", "cancelled"]
