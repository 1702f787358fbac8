"""Forks of coded runs: the rows that they begin with are a log that the rules could have written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.rules.coded.coded_plan import CodedPlan, coded_plan
from anabranch.engine.rules.repair.coded_fork import plan_coded_fork
from anabranch.engine.rules.repair.fork_plan import ForkCut, ForkPlan, RecordedRun
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log
from tests.spec.coded import Coded, broken, done, raised, suspended

TWICE = {"retry": {"attempts": 2, "backoff": {"kind": "fixed", "base": "1s", "jitter": 0}}}
SPREAD = {"retry": {"attempts": 2, "backoff": {"kind": "fixed", "base": "10s", "jitter": 1}}}


def forked(run: Coded, plan: CodedPlan | None = None, *, run_id: str = "fork", **cut: Any) -> ForkPlan:
    """The plan of a fork of this run, perhaps onto another version; its rows are what verification accepts."""
    head = replace(run.head, instance_id=run_id, forked_from=run.head.instance_id)
    source, plan = RecordedRun(run.plan, run.head, run.log), plan or run.plan
    made = plan_coded_fork(source, plan, head, Payload.of({"n": 1}), cut=ForkCut(**cut), now=run.now)
    assert check_log(plan, head, made.events) == []
    return made


def retried(**options: Any) -> Coded:
    """A run whose function has failed once."""
    run = Coded(**options).then(done("a"), raised())
    run.later(60_000)
    return run.then(done("b", function_attempt=2))


def test_the_function_may_fail_after_a_pause_that_a_step_has_ended_whose_rows_do_not_go_along() -> None:
    run = Coded(**TWICE).then(broken("a"), suspended(awaited=["a"]))
    run.later(60_000)
    run.then(broken("a", attempt=2, retryable=False), raised())
    run.later(60_000)
    run.then(done("b", function_attempt=2))

    made = forked(run, chosen=[("a", None)])
    assert [each["nodeID"] for each in made.reuse] == ["b"]


@pytest.mark.parametrize("number", range(3))
def test_a_copied_retry_of_the_function_was_due_by_the_jitter_of_the_recorded_run(number: int) -> None:
    forked(retried(**SPREAD), run_id=f"fork-{number}", chosen=[("b", None)])


def test_a_copied_retry_of_the_function_is_not_judged_by_the_policy_of_another_version() -> None:
    for options in ({"retry": {"attempts": 1}}, {"retry": {"attempts": 2, "backoff": {"kind": "fixed", "base": "1h"}}}):
        forked(retried(**TWICE), coded_plan("spec", 2, options, python="3.11"), chosen=[("b", None)])
