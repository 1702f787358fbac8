"""`while` loops: a condition before each iteration, one iteration at a time."""

from __future__ import annotations

from tests.spec.drawings import drawn, loop
from tests.spec.scenario import begun, completed, failed


def until_three(**config):
    """A run of a loop that goes on until three results are collected."""
    again = loop(**{"while": "{{(ctx.results | length) < 3}}", **config})
    return begun(drawn("start>again, again.loop>work, again.done>after", again=again)).completed("again")


def test_the_condition_is_evaluated_before_each_iteration():
    run = until_three()
    for index in range(3):
        assert run.owed == {f"again[{index}]/work"}
        run.then(completed(f"again[{index}]/work", index))
    assert run.row("NODE_COMPLETED", "again") == [0, 1, 2]
    assert run.owed == {"after"}


def test_a_while_loop_records_neither_items_nor_count():
    assert until_three().row("LOOP_OPENED", "again") == {"items": None, "count": None}


def test_an_iteration_sees_its_index_and_the_results_so_far():
    run = until_three().then(completed("again[0]/work", "a"), completed("again[1]/work", "b"))
    seen = run.sees("again[2]/work")
    assert (seen["index"], seen["results"], seen["count"], seen["item"]) == (2, ["a", "b"], None, None)


def test_the_results_that_an_iteration_saw_stay_as_they_were():
    run = begun(
        drawn("start>again, again.loop>a, a>b", again=loop(**{"while": "{{(ctx.results | length) < 2}}"}))
    ).completed("again")
    run.then(completed("again[0]/a"))
    assert run.sees("again[0]/b")["results"] == []
    run.then(completed("again[0]/b", 1), completed("again[1]/a"))
    assert run.sees("again[1]/b")["results"] == [1]


def test_a_condition_that_is_false_at_once_leaves_no_rows_for_the_body():
    document = drawn("start>again, again.loop>work, again.done>after", again=loop(**{"while": "{{false}}"}))
    happened = begun(document).when(completed("again"))
    assert happened.types == ["LOOP_OPENED", "NODE_COMPLETED", "NODE_DISPATCHED"]
    assert happened.payload("NODE_COMPLETED") == []


def test_the_condition_sees_what_nodes_outside_have_written_meanwhile():
    document = drawn(
        "start>again, start>stop, again.loop>work",
        again=loop(**{"while": "{{not (ctx.stopped | default(false))}}"}),
        stop={"outputVariable": "stopped"},
    )
    run = begun(document).completed("again").completed("again[0]/work")
    assert run.owed == {"stop", "again[1]/work"}
    run.then(completed("stop", True))
    assert run.when(completed("again[1]/work")).completions == ["again[1]/work", "again"]


def test_more_iterations_than_allowed_fail_the_loop():
    run = begun(
        drawn("start>again, again.loop>work", again=loop(**{"while": "{{true}}", "maxIterations": 2}))
    ).completed("again", "again[0]/work")
    happened = run.when(completed("again[1]/work"))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "LOOP_LIMIT"
    assert happened.ending == "INSTANCE_FAILED"


def test_as_many_iterations_as_allowed_are_fine():
    run = until_three(maxIterations=3)
    for index in range(3):
        run.completed(f"again[{index}]/work")
    assert run.owed == {"after"}


def test_a_while_loop_is_bounded_though_nobody_said_so():
    run = begun(drawn("start>again, again.loop>work", again=loop(**{"while": "{{true}}"})), checked=False).completed(
        "again"
    )
    for index in range(1_000):
        run.completed(f"again[{index}]/work")
    assert run.outcome["code"] == "LOOP_LIMIT"
    run.check()


def test_a_condition_that_cannot_be_evaluated_fails_the_loop():
    document = drawn(
        "start>again, again.loop>work, again.error>rescue", again=loop(**{"while": "{{ctx.results[0].more}}"})
    )
    happened = begun(document).when(completed("again"))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "TEMPLATE_PATH_MISSING"
    assert happened.dispatches == ["rescue"]


def test_a_failed_iteration_fails_a_while_loop():
    run = until_three()
    happened = run.when(failed("again[0]/work", "bad round"))
    assert happened.payload("NODE_FAILED", "again")["error"]["message"] == "bad round"


def test_a_skipped_item_counts_as_a_round_but_not_as_a_result():
    run = begun(
        drawn("start>again, again.loop>work",
              again=loop(**{"while": "{{ctx.index < 3}}", "onItemError": "skip"}))
    ).completed("again")  # fmt: skip
    run.then(completed("again[0]/work", "a"), failed("again[1]/work"))
    assert run.sees("again[2]/work")["results"] == ["a"]
    run.then(completed("again[2]/work", "c"))
    assert run.row("NODE_COMPLETED", "again") == ["a", "c"]


def test_a_while_loop_without_a_body_yields_until_its_condition_is_false():
    again = loop(**{"while": "{{ctx.index < 4}}", "yield": "{{ctx.index * 2}}"})
    happened = begun(drawn("start>again", again=again)).when(completed("again"))
    assert happened.payload("NODE_COMPLETED") == [0, 2, 4, 6]


def test_concurrency_means_nothing_to_a_while_loop():
    assert until_three(concurrency=5).owed == {"again[0]/work"}


def test_a_while_loop_inside_a_for_each_loop_counts_its_own_rounds():
    document = drawn(
        "start>each, each.loop>again, again.loop>work",
        each=loop(concurrency=2),
        again=loop(**{"while": "{{ctx.index < 2}}"}),
    )
    run = begun(document).then(completed("each", ["a", "b"])).completed("each[0]/again", "each[1]/again")
    run.completed("each[0]/again[0]/work")
    assert run.owed == {"each[0]/again[1]/work", "each[1]/again[0]/work"}
