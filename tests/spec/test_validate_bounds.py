"""How far a workflow can go: does it end, and after how many activations at most?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.spec.drawings import drawn, loop, report

WAIT: dict[str, Any] = {"type": "waitForEvent", "config": {"event": "paid"}}
BOUND_WAIT: dict[str, Any] = {"type": "waitForEvent", "config": {"event": "paid", "timeout": "7d"}}


def test_a_wait_without_a_timeout_has_no_bound():
    answer = report(drawn("start>w, w>a", w=WAIT))
    assert (answer.valid, answer.terminates, answer.unbounded) == (True, False, ("w",))


def test_a_timeout_bounds_a_wait_and_a_deadline_bounds_everything():
    answer = report(drawn("start>w", w=BOUND_WAIT))
    assert (answer.terminates, answer.unbounded) == (True, ())
    answer = report(drawn("start>w", w=WAIT, workflowOptions={"deadline": "1d"}))
    assert (answer.terminates, answer.unbounded) == (True, ("w",))


def test_a_wait_that_is_not_reached_does_not_count():
    assert report(drawn("start>a", w=WAIT)).terminates


def test_a_workflow_with_a_cycle_promises_nothing():
    answer = report(drawn("start>a, start>b, a>b, b>a"))
    assert (answer.terminates, answer.activations_max) == (False, None)


@pytest.mark.parametrize(
    ("edges", "nodes", "activations"),
    [
        ("start>a, a>b", {}, 3),
        ("start>a, lost>a", {}, 2),
        ("start>l, l.done>b", {"l": loop()}, 3),
        ("start>l, l.loop>a, l.done>b", {"l": loop()}, 3 + 100_000),
        ("start>l, l.loop>a, a>b", {"l": loop(maxIterations=7)}, 2 + 7 * 2),
        ("start>l, l.loop>a", {"l": loop(**{"while": "{{ctx.index < 3}}"})}, 2 + 1_000),
        ("start>l, l.loop>m, m.loop>a, m.done>b", {"l": loop(maxIterations=3), "m": loop(maxIterations=5)}, 23),
    ],
)
def test_the_most_activations_of_a_run(edges: str, nodes: dict[str, Any], activations: int):
    assert report(drawn(edges, **nodes)).activations_max == activations


def test_too_many_activations_to_say():
    nodes = {name: loop() for name in "lmnop"}
    assert report(drawn("start>l, l.loop>m, m.loop>n, n.loop>o, o.loop>p, p.loop>a", **nodes)).activations_max is None
