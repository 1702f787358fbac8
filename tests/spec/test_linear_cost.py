"""Work grows with what happens, and with nothing else: counted in lines of the rules, never in seconds.

Wide plans are made by hand where the limits of a drawn graph (2,000 nodes) would be in the way.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.graph.plan import Body, Plan, PlanEdge, PlanNode
from anabranch.engine.rules.shared.retry import DEFAULT_RETRY
from anabranch.engine.rules.shared.run_state import TIMERS_KEPT_MIN
from tests.spec.drawings import condition, drawn, loop
from tests.spec.scenario import Scenario, asks_for, begun, cancel, completed, failed, given, signal
from tests.spec.work import assert_linear, lines_of

MANY = 10_000
# A 10,000-item map at full concurrency: what one instance may cost the process that holds it.
MEMORY_BYTES_MAX = 200 * 1024 * 1024
MAP = "start>each, each.loop>work, each.done>after"


# -- wide ---------------------------------------------------------------------------------
def wide(branches: int, *, join_any: bool = False) -> Plan:
    """`start` fans out into so many nodes, which all lead into `join`."""
    root = Body(loop=None)
    start, join = _node("start", root), _node("join", root, in_count=branches, join_any=join_any)
    middle = [_node(f"n{number}", root, in_count=1) for number in range(branches)]
    for node in middle:
        node.edges = (PlanEdge("default", join),)
    start.edges = tuple(PlanEdge("default", node) for node in middle)
    root.nodes = (start, *middle, join)
    return Plan(nodes={node.id: node for node in root.nodes}, entry_points=(start,), root=root)


def _node(node_id: str, home: Body, *, in_count: int = 0, join_any: bool = False) -> PlanNode:
    return PlanNode(
        id=node_id,
        type="start" if node_id == "start" else "set",
        config={},
        output_variable=None,
        join_any=join_any,
        error_handling="continue",
        retry=DEFAULT_RETRY,
        timeout_ms=None,
        handles=frozenset({"default"}),
        exits=frozenset({"default"}),
        home=home,
        in_count=in_count,
    )


def through_the_join(branches: int, *, join_any: bool = False) -> Callable[[], Scenario]:
    """Complete every branch of a fan-out, and the join."""
    run = given(wide(branches, join_any=join_any), checked=False)
    return lambda: run.completed("start", *(f"n{number}" for number in range(branches)), "join")


def test_ten_thousand_branches_meet_in_one_join():
    run = through_the_join(MANY)().check()
    assert run.rows("NODE_DISPATCHED").count("join") == 1
    assert run.status == "COMPLETED"
    assert len(run.log) == 2 * (MANY + 2) + 2


@pytest.mark.parametrize("join_any", [False, True])
def test_a_fan_in_costs_each_branch_the_same(join_any):
    assert_linear(lambda branches: through_the_join(branches, join_any=join_any))


# -- timers -------------------------------------------------------------------------------
def test_due_times_that_were_cleared_are_not_kept():
    """Waits with a distant timeout that are served at once, round after round, for the whole life of a run."""
    again = loop(**{"while": "{{ctx.index < 1000}}"})
    run = begun(drawn("start>again, again.loop>wait", again=again), checked=False).completed("again")
    longest = 0
    for index in range(1_000):
        run.then(asks_for(f"again[{index}]/wait", "go", timeout_ms=10**9), signal("go"))
        longest = max(longest, len(run.state.timers))
    assert run.check().status == "COMPLETED"
    assert longest <= TIMERS_KEPT_MIN + 2, "one timer holds at any time"


def test_due_times_that_hold_are_kept_whatever_their_number():
    run = begun(wide(500), checked=False).then(*(completed(f"n{n}", delay_ms=500 - n) for n in range(500)))
    assert run.check().later(500).completions == [f"n{n}" for n in reversed(range(500))]


def test_signals_from_elsewhere_cost_the_same_however_many_waits_they_were_promised_to():
    def all_arrive(waits: int) -> Callable[[], Any]:
        run = begun(wide(waits), checked=False).then(*(asks_for(f"n{number}", "go") for number in range(waits)))
        return lambda: [run.written_elsewhere(signal("go")) for _ in range(waits)]

    assert_linear(all_arrive)


# -- loops --------------------------------------------------------------------------------
def whole_loop(items: int, *, concurrency: int, **config: Any) -> Callable[[], Scenario]:
    """Work through every item of a list."""
    run = begun(drawn(MAP, each=loop(concurrency=concurrency, **config)), checked=False)

    def work() -> Scenario:
        run.then(completed("each", list(range(items))))
        return run.completed(*(f"each[{index}]/work" for index in range(items)), output={"n": 1}).completed("after")

    return work


@pytest.mark.parametrize("concurrency", [1, 10, MANY])
def test_ten_thousand_items_are_worked_through(concurrency):
    run = whole_loop(MANY, concurrency=concurrency)().check()
    assert run.status == "COMPLETED"
    assert run.row("NODE_COMPLETED", "each") == [{"n": 1}] * MANY
    assert len(run.log) == 2 * MANY + 9, "two rows an item, beside those of the other nodes"


@pytest.mark.parametrize("concurrency", [1, 10, 1_000])
def test_an_item_costs_the_same_whatever_their_number(concurrency):
    assert_linear(lambda items: whole_loop(items, concurrency=concurrency))


def test_collected_errors_cost_each_item_the_same():
    def all_fail(items: int) -> Callable[[], Scenario]:
        run = begun(drawn(MAP, each=loop(concurrency=1_000, onItemError="collect")), checked=False)
        run.then(completed("each", list(range(items))))
        return lambda: run.then(*(failed(f"each[{index}]/work") for index in range(items)))

    assert_linear(all_fail)


def test_a_failing_loop_ends_its_open_iterations_once_each():
    def one_fails(items: int) -> Callable[[], Any]:
        run = begun(drawn(MAP, each=loop(concurrency=1_000)), checked=False)
        run.then(completed("each", list(range(items))))
        return lambda: run.when(failed("each[0]/work"))

    assert_linear(one_fails)


def test_a_round_of_a_while_loop_costs_the_same_whatever_their_number():
    def rounds(count: int) -> Callable[[], Scenario]:
        again = loop(**{"while": "{{ctx.index < " + str(count) + "}}"})
        run = begun(drawn("start>again, again.loop>work", again=again), checked=False).completed("again")
        return lambda: run.completed(*(f"again[{index}]/work" for index in range(count)))

    assert_linear(rounds)


def test_a_ten_thousand_item_map_at_full_concurrency_fits_into_memory():
    tracemalloc.start()
    try:
        run = begun(drawn(MAP, each=loop(concurrency=MANY)), checked=False)
        run.then(completed("each", [{"id": index, "name": f"item {index}"} for index in range(MANY)]))
        assert len(run.state.running) == MANY
        run.completed(*(f"each[{index}]/work" for index in range(MANY)), output={"ok": True})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert run.owed == {"after"}
    assert peak < MEMORY_BYTES_MAX, f"it took {peak / 2**20:.0f} MB"


def test_closed_iterations_leave_nothing_behind():
    run = whole_loop(100, concurrency=10)()
    assert list(run.state.scopes) == [""]


# -- passes, and items of a mapped node ---------------------------------------------------
def whole_region(passes: int) -> Callable[[], Scenario]:
    """Go through a region of one node so many times, and out of it."""
    document = drawn("start>work, work.again>work, work.else>after", work=condition("again", maxPasses=passes))
    run = begun(document, checked=False)

    def work() -> Scenario:
        again = [completed(f"work#{number}/work", handle="again") for number in range(1, passes)]
        return run.then(*again, completed(f"work#{passes}/work", handle="else")).completed("after")

    return work


def whole_mapping(items: int, *, concurrency: int) -> Callable[[], Scenario]:
    """Work through every item of a mapped node."""
    work = {"forEach": "{{ctx.input.items}}", "concurrency": concurrency}
    run = begun(drawn("start>work, work>after", work=work), checked=False)

    def whole() -> Scenario:
        run.then(completed("work", list(range(items))))
        return run.completed(*(f"work[{index}]/work" for index in range(items)), output={"n": 1}).completed("after")

    return whole


def test_a_pass_costs_the_same_whatever_their_number():
    assert_linear(whole_region)


def test_a_pass_costs_what_an_iteration_costs():
    passes, iterations = whole_region(1_000), whole_loop(1_000, concurrency=1)
    assert lines_of(passes) <= lines_of(iterations) * 1.1
    rows = [len(run.log) for run in (whole_region(1_000)(), whole_loop(1_000, concurrency=1)())]
    assert rows == [2 * 1_000 + 6, 2 * 1_000 + 9], "two rows each, beside those of the other nodes"


def test_an_item_of_a_mapped_node_costs_what_an_iteration_costs():
    mapped, looped = whole_mapping(1_000, concurrency=10), whole_loop(1_000, concurrency=10)
    assert lines_of(mapped) <= lines_of(looped) * 1.05
    rows = [len(run.log) for run in (whole_mapping(1_000, concurrency=10)(), whole_loop(1_000, concurrency=10)())]
    assert rows[0] == rows[1]


# -- deep ---------------------------------------------------------------------------------
def skips(length: int) -> Callable[[], Any]:
    """One decision that skips a chain of so many nodes."""
    chain = ", ".join(f"n{number}>n{number + 1}" for number in range(length - 1))
    run = begun(drawn(f"start>check, check.yes>n0, {chain}", check=condition("yes")), checked=False)
    return lambda: run.when(completed("check", handle="else"))


def test_a_chain_of_two_thousand_skips_is_one_decision():
    happened = skips(1_998)()
    assert len(happened.skips) == 1_998
    assert happened.ending == "INSTANCE_COMPLETED"


def test_a_chain_of_skips_costs_each_node_the_same():
    assert_linear(skips)


def nested(depth: int) -> Scenario:
    """Loops in loops, the innermost over nothing."""
    edges = ", ".join(f"n{number}.loop>n{number + 1}" for number in range(depth - 1))
    loops = {f"n{number}": loop() for number in range(depth)}
    return begun(drawn(f"start>n0, {edges}", **loops), checked=False)


def test_a_thousand_loops_in_each_other_end_together():
    depth = 1_000
    run = nested(depth)
    scope = ""
    for number in range(depth - 1):
        run.then(completed(f"{scope}n{number}", [number]))
        scope += f"n{number}[0]/"
    happened = run.when(completed(f"{scope}n{depth - 1}", []))
    assert len(happened.completions) == depth
    assert happened.ending == "INSTANCE_COMPLETED"


# -- everything else that may be many -----------------------------------------------------
def test_timers_cost_the_same_whatever_their_number():
    def delays(count: int) -> Callable[[], Any]:
        run = begun(wide(count), checked=False)
        run.then(*(completed(f"n{number}", delay_ms=count - number) for number in range(count)))
        return lambda: run.later(count)

    assert_linear(delays, times=4)


def test_signals_cost_the_same_whatever_is_kept():
    def signals(count: int) -> Callable[[], Any]:
        run = begun(wide(count), checked=False)
        return lambda: run.then(
            *(signal("go", number, key=str(number)) for number in range(count)),
            *(asks_for(f"n{number}", "go") for number in range(count)),
        )

    assert_linear(signals)


@pytest.mark.parametrize("end", [cancel(), failed("n0")])
def test_an_end_stops_each_open_node_once(end):
    def ended(count: int) -> Callable[[], Any]:
        run = begun(wide(count), checked=False)
        return lambda: run.when(end)

    assert_linear(ended)


def test_a_fold_costs_each_row_the_same():
    def folded(count: int) -> Callable[[], Any]:
        run = whole_loop(count, concurrency=10)()
        return lambda: fold(run.plan, run.head, run.log)

    assert_linear(folded)
