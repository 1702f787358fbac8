"""What `ctx` holds: the fold of the log, seen from one activation."""

from __future__ import annotations

from tests.spec.drawings import condition, drawn, loop, writes
from tests.spec.scenario import begun, completed, failed, given


def test_the_input_is_seen_everywhere():
    document = drawn("start>each, each.loop>work", each=loop())
    run = given(document, {"n": 1})
    assert run.sees("start") == {"input": {"n": 1}}
    run.completed("start").then(completed("each", [1]))
    assert run.sees("each[0]/work")["input"] == {"n": 1}


def test_an_output_is_seen_under_its_variable_and_its_node():
    run = begun(drawn("start>a, a>b", a=writes("x"))).completed("a", output={"n": 1})
    assert run.sees("b") == {"input": None, "x": {"n": 1}}
    assert run.context("b")["__node_a"] == {"n": 1}


def test_an_output_without_a_variable_is_seen_under_its_node_only():
    run = begun(drawn("start>a, a>b")).completed("a", output=1)
    assert run.sees("b") == {"input": None}
    assert run.context("b")["__node_a"] == 1


def test_an_activation_sees_what_was_written_before_its_dispatch_and_nothing_after():
    run = begun(drawn("start>a, start>b, b>c", a=writes("x"))).completed("b")
    run.completed("a", output="late")
    assert "x" not in run.sees("c")
    assert "x" not in run.crashed().sees("c")


def test_of_two_writers_of_one_variable_the_later_in_the_log_wins():
    document = drawn("start>a, start>b, a>join, b>join", a=writes("x"), b=writes("x"))
    run = begun(document).then(completed("a", "from a"), completed("b", "from b"))
    assert run.sees("join")["x"] == "from b"
    run = begun(document).then(completed("b", "from b"), completed("a", "from a"))
    assert run.sees("join")["x"] == "from a"


def test_a_skipped_node_writes_nothing():
    document = drawn("start>check, check.yes>a, a>join, check.else>join", check=condition("yes"), a=writes("x"))
    run = begun(document).then(completed("check", {"branch": "else"}, handle="else"))
    assert "x" not in run.sees("join")
    assert "__node_a" not in run.context("join")


def test_an_output_of_null_is_written():
    run = begun(drawn("start>a, a>b", a=writes("x"))).completed("a")
    assert run.sees("b")["x"] is None


# -- in bodies ----------------------------------------------------------------------------
def test_a_body_sees_item_index_and_count():
    run = begun(drawn("start>each, each.loop>work", each=loop(concurrency=2))).then(completed("each", ["a", "b"]))
    seen = run.sees("each[1]/work")
    assert (seen["item"], seen["index"], seen["count"]) == ("b", 1, 2)
    assert "results" not in seen


def test_inner_loops_shadow_outer_ones():
    document = drawn("start>outer, outer.loop>inner, inner.loop>work, inner.done>after", outer=loop(), inner=loop())
    run = begun(document).then(completed("outer", ["o"]), completed("outer[0]/inner", ["i", "j"]))
    assert run.sees("outer[0]/inner[0]/work")["item"] == "i"
    assert run.sees("outer[0]/inner[0]/work")["count"] == 2
    run.completed("outer[0]/inner[0]/work", "outer[0]/inner[1]/work")
    assert run.sees("outer[0]/after")["item"] == "o"


def test_outside_a_loop_there_is_no_item():
    run = begun(drawn("start>each, each.loop>work, each.done>after", each=loop())).then(completed("each", [1]))
    run.completed("each[0]/work")
    assert not {"item", "index", "count"} & set(run.sees("after"))


def test_what_a_body_writes_stays_in_its_iteration():
    document = drawn("start>each, each.loop>a, a>b, each.done>after", each={**loop(), "outputVariable": "list"},
                     a=writes("x"))  # fmt: skip
    run = begun(document).then(completed("each", [1, 2])).completed("each[0]/a", output="first")
    assert run.sees("each[0]/b")["x"] == "first"
    run.completed("each[0]/b", output="B")
    assert "x" not in run.sees("each[1]/a")
    run.completed("each[1]/a", "each[1]/b", output="C")
    assert run.sees("after") == {"input": None, "list": ["B", "C"]}
    assert "__node_a" not in run.context("after")


def test_concurrent_iterations_do_not_see_each_other():
    run = begun(drawn("start>each, each.loop>a, a>b", each=loop(concurrency=2), a=writes("x")))
    run.then(completed("each", [1, 2])).completed("each[0]/a", output="zero").completed("each[1]/a", output="one")
    assert run.sees("each[0]/b")["x"] == "zero"
    assert run.sees("each[1]/b")["x"] == "one"


def test_a_body_sees_its_parents():
    document = drawn("start>a, a>outer, outer.loop>b, b>inner, inner.loop>work",
                     a=writes("x"), b=writes("y"), outer=loop(), inner=loop())  # fmt: skip
    run = begun(document).completed("a", output=1).then(completed("outer", [1]), completed("outer[0]/b", 2))
    run.then(completed("outer[0]/inner", [1]))
    seen = run.sees("outer[0]/inner[0]/work")
    assert (seen["x"], seen["y"]) == (1, 2)


def test_a_body_sees_what_is_written_outside_while_it_runs():
    document = drawn("start>beside, start>each, each.loop>a, a>b", each=loop(), beside=writes("x"))
    run = (
        begun(document)
        .then(completed("each", [1]))
        .completed(
            "beside",
            output="news",
        )
    )
    run.completed("each[0]/a")
    assert run.sees("each[0]/b")["x"] == "news"


def test_between_a_body_and_its_parents_the_later_writer_wins_too():
    document = drawn("start>beside, start>each, each.loop>a, a>b, b>c", each=loop(), beside=writes("x"), a=writes("x"))
    run = begun(document).then(completed("each", [1]), completed("beside", "outer"), completed("each[0]/a", "inner"))
    assert run.sees("each[0]/b")["x"] == "inner"
    run = begun(document).then(completed("each", [1]), completed("each[0]/a", "inner"), completed("beside", "outer"))
    run.completed("each[0]/b")
    assert run.sees("each[0]/c")["x"] == "outer"


def test_an_item_shadows_a_variable_that_cannot_exist_but_an_index_of_an_outer_loop_can():
    document = drawn("start>outer, outer.loop>inner, inner.loop>work", outer=loop(), inner=loop())
    run = begun(document).then(completed("outer", ["o", "p"])).then(completed("outer[0]/inner", []))
    run.then(completed("outer[1]/inner", ["i"]))
    assert run.sees("outer[1]/inner[0]/work")["index"] == 0


def test_a_handled_error_is_seen_like_an_output():
    run = begun(drawn("start>a, a.error>b", a=writes("x"))).then(failed("a", "no"))
    assert run.sees("b")["x"]["error"]["message"] == "no"


def test_a_recovered_state_sees_the_same_contexts():
    run = begun(drawn("start>a, start>b, a>c", a=writes("x"), b=writes("y"))).completed("b", output=1)
    run.completed("a", output=2)
    before = dict(run.context("c"))
    assert dict(run.crashed().context("c")) == before
