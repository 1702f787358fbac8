"""Pure nodes are evaluated by decisions: when, how many of them, and what becomes of what goes wrong."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from anabranch.engine.rules.drawn.outcomes import EVALUATED_BYTES_MAX, EVALUATION_UNITS, EVALUATIONS_MAX
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.graph.plan import Evaluator
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.stimuli import EvaluationDue, LeaseAcquired, Stimulus
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.transitions import (
    BATCH_ROWS_MAX,
    LeasedState,
    PendingTransition,
    plan_transitions,
)
from anabranch.engine.rules.values import VALUE_BYTES_MAX
from anabranch.errors import NonRetryable, TemplatePathMissing
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from tests.spec.drawings import TypesWith, drawn
from tests.spec.scenario import TAIL, Scenario, cancel, completed, given

DUE = EvaluationDue()
LEASE_MS = 30_000


def evaluating(document: Mapping[str, Any], input_: Any = None, **options: Any) -> Scenario:
    """An instance that has just been created, whose decisions evaluate pure nodes."""
    return given(document, input_, evaluates=True, **options)


def plan(run: Scenario, *stimuli: Stimulus, singly: bool = False) -> PendingTransition:
    """The transition of these stimuli, decided by a worker that holds the run."""
    leased = LeasedState(run.state, 3, "me", run.now + LEASE_MS)
    leased.evaluates_singly = singly
    (pending,) = plan_transitions([(leased, stimuli)], now=run.now, lease_ms=LEASE_MS).pending_transitions
    return pending


def evaluated(pending: PendingTransition) -> list[str]:
    return [dispatch.node_id for dispatch in pending.evaluated]


def chain(length: int) -> dict[str, Any]:
    """`length` pure nodes in a row behind `start`."""
    return drawn("start>n1, " + ", ".join(f"n{number}>n{number + 1}" for number in range(1, length)))


def delay(**fields: Any) -> dict[str, Any]:
    """A node that is executed."""
    return {"type": "delay", "config": {"duration": "1s"}, **fields}


# -- when ---------------------------------------------------------------------------------
def test_a_start_evaluates_nothing():
    run = evaluating(chain(3))
    assert [str(event.type) for event in run.log] == ["INPUT_SET", "NODE_DISPATCHED"]
    assert list(run.state.unevaluated) == [("start", "")]


def test_a_chain_is_evaluated_by_one_decision():
    run = evaluating(
        drawn(
            "start>a, a>b",
            b={"config": {"values": {"n": "{{ctx.v.n + 1}}"}}},
            a={"config": {"values": {"n": "{{ctx.input.n}}"}}, "outputVariable": "v"},
        ),
        {"n": 1},
    )
    happened = run.when(DUE)
    assert happened.types == ["NODE_COMPLETED", "NODE_DISPATCHED"] * 2 + ["NODE_COMPLETED", "INSTANCE_COMPLETED"]
    assert happened.payload("NODE_COMPLETED", "b") == {"n": 2}
    assert happened.decision.commands == []


def test_what_is_executed_is_dispatched_and_what_follows_from_it_is_evaluated():
    run = evaluating(drawn("start>wait, wait>after", wait=delay()))
    assert run.when(DUE).dispatches == ["wait"]
    assert not run.state.unevaluated
    happened = run.when(completed("wait"))
    assert happened.completions == ["wait", "after"]
    assert happened.ending == "INSTANCE_COMPLETED"


def test_a_node_is_evaluated_with_the_context_of_its_dispatch():
    document = drawn(
        "start>first, start>second",
        first={"config": {"values": {"n": 1}}, "outputVariable": "shared"},
        second={
            "config": {"values": {"seen": "{{ctx.shared | default('nothing')}}"}},
        },
    )
    assert evaluating(document).when(DUE).payload("NODE_COMPLETED", "second") == {"seen": "nothing"}


def test_what_is_left_after_a_cancel_is_not_evaluated():
    run = evaluating(chain(3)).then(cancel())
    assert run.when(DUE).nothing


def test_plans_without_evaluators_execute_pure_nodes():
    run = given(chain(2))
    assert not run.state.unevaluated
    assert run.when(DUE).nothing
    assert run.when(completed("start")).dispatches == ["n1"]


# -- how many -----------------------------------------------------------------------------
def test_what_a_decision_leaves_the_next_one_goes_on_with():
    run = evaluating(chain(4))
    seen = [run.when(DUE, evaluations_max=2).completions for _ in range(3)]
    assert seen == [["start", "n1"], ["n2", "n3"], ["n4"]]


def test_200_nodes_a_decision():
    happened = evaluating(chain(EVALUATIONS_MAX + 10)).when(DUE)
    assert len(happened.completions) == EVALUATIONS_MAX == 200


def test_one_megabyte_of_outputs_a_decision():
    value = {"config": {"values": {"v": "{{ctx.input}}"}}}
    document = drawn("start>a, a>b, b>c, c>d", a=value, b=value, c=value, d=value)
    happened = evaluating(document, "x" * (VALUE_BYTES_MAX // 2 - 100)).when(DUE)
    assert happened.completions == ["start", "a", "b"]
    assert EVALUATED_BYTES_MAX == 1_048_576


def test_evaluations_are_charged_to_the_budget_of_loops():
    run = evaluating(chain(10), work_max=3 * EVALUATION_UNITS - 1)
    happened = run.when(DUE)
    assert happened.completions == ["start", "n1", "n2"]
    assert happened.decision.worked >= 3 * EVALUATION_UNITS


def test_stimuli_of_one_transition_share_what_it_may_evaluate():
    run = evaluating(chain(EVALUATIONS_MAX + 10))
    assert len(plan(run, DUE, TAIL, DUE).evaluated) == EVALUATIONS_MAX


def test_a_batch_takes_no_further_run_after_2000_rows():
    runs = [evaluating(chain(EVALUATIONS_MAX)) for _ in range(8)]
    work = [(LeasedState(run.state, 3, "me", run.now + LEASE_MS), [DUE]) for run in runs]
    planned = plan_transitions(work, now=runs[0].now, lease_ms=LEASE_MS)
    rows = [len(transition.events) for transition in planned.transitions]
    assert sum(rows[:-1]) < BATCH_ROWS_MAX <= sum(rows)
    assert len(rows) < len(runs)


# -- what may have killed a worker, or was refused ------------------------------------------
def lost_beside_an_effect() -> Scenario:
    """A run whose worker was lost: `slow` is executed, `pure` is not evaluated."""
    run = evaluating(drawn("start>slow, start>pure", slow=delay()))
    run.when(DUE, evaluations_max=1)
    run.when(LeaseAcquired(Blame(1)), evaluations_max=0)
    return run


def test_a_takeover_of_a_lost_run_evaluates_nothing():
    run = evaluating(drawn("start>slow, start>pure", slow=delay()))
    run.when(DUE, evaluations_max=1)
    assert evaluated(plan(run, LeaseAcquired(Blame(1)))) == []


def test_after_a_lost_worker_a_result_is_stored_before_anything_is_evaluated():
    assert evaluated(plan(lost_beside_an_effect(), completed("slow"))) == []
    assert evaluated(plan(lost_beside_an_effect(), completed("slow"), DUE)) == []
    assert evaluated(plan(lost_beside_an_effect(), DUE)) == ["pure"]


def test_after_a_handover_everything_is_evaluated_at_once():
    run = evaluating(chain(2))
    assert evaluated(plan(run, LeaseAcquired())) == ["start", "n1", "n2"]


def test_what_a_database_refused_is_evaluated_one_by_one_apart_from_the_rest():
    run = evaluating(drawn("start>slow, start>a, start>b", slow=delay()))
    run.when(DUE, evaluations_max=1)
    assert evaluated(plan(run, completed("slow"), singly=True)) == []
    assert evaluated(plan(run, DUE, singly=True)) == ["a"]


# -- what goes wrong -----------------------------------------------------------------------
def pure_type(evaluate: Callable[..., Any]) -> NodeType:
    return NodeType(
        type="broken",
        title="Broken",
        config_schema={"type": "object"},
        handles=lambda config: ("default",),
        check=lambda config: (),
        evaluator=lambda config: evaluate,
    )


def raising(failure: Exception) -> NodeType:
    def evaluate(context: Any, work: Any) -> Any:
        raise failure

    return pure_type(evaluate)


@pytest.mark.parametrize(
    ("failure", "code"),
    [(NonRetryable("no", code="LOOP_LIMIT"), "LOOP_LIMIT")],
)
def test_a_final_failure_is_that_of_the_node(failure: Exception, code: str):
    run = evaluating(drawn("start>bad, bad.error>mend", bad={"type": "broken"}), types=TypesWith(raising(failure)))
    happened = run.when(DUE)
    assert happened.failures == ["bad"]
    assert happened.payload("NODE_FAILED", "bad")["error"]["code"] == code
    assert happened.completions == ["start", "mend"]


def test_any_other_exception_is_tried_again_and_takes_nothing_with_it():
    types = TypesWith(raising(ZeroDivisionError("by nought")))
    run = evaluating(drawn("start>slow, slow>bad", slow=delay(), bad={"type": "broken"}), types=types)
    run.when(DUE)
    happened = run.when(completed("slow"))
    assert happened.types == ["NODE_COMPLETED", "NODE_DISPATCHED", "NODE_ATTEMPT_FAILED"]
    assert happened.payload("NODE_ATTEMPT_FAILED")["error"]["code"] == "HANDLER_ERROR"
    again = run.later(1_000)
    assert again.dispatches == ["bad#2"]
    assert again.types == ["NODE_DISPATCHED", "NODE_ATTEMPT_FAILED"]


def test_what_cannot_be_stored_is_a_failure_too():
    types = TypesWith(pure_type(lambda context, work: (object(), None)))
    run = evaluating(drawn("start>bad", bad={"type": "broken"}), types=types)
    assert run.when(DUE).payload("NODE_FAILED", "bad")["error"]["code"] == "VALUE_NOT_STORABLE"


def test_an_evaluator_that_changes_what_it_is_given_changes_no_state():
    def evaluate(context: Mapping[str, Any], work: Any) -> Any:
        output = {"list": []}
        made.append(output)
        return output, None

    made: list[Any] = []
    run = evaluating(
        drawn("start>bad, bad>slow", bad={"type": "broken"}, slow=delay()), types=TypesWith(pure_type(evaluate))
    )
    run.when(DUE)
    made[0]["list"].append("later")
    assert run.context("slow")["__node_bad"] == {"list": []}


def test_a_type_whose_evaluator_cannot_be_made_is_executed():
    def evaluator(config: Any) -> Any:
        raise KeyError("x")

    types = TypesWith(
        NodeType(
            type="broken",
            title="Broken",
            config_schema={"type": "object"},
            handles=lambda config: ("default",),
            check=lambda config: (),
            evaluator=evaluator,
        )
    )
    run = evaluating(drawn("start>bad", bad={"type": "broken"}), types=types)
    assert run.when(DUE).dispatches == ["bad"]
    assert not run.state.unevaluated


# -- the config of a pure node ----------------------------------------------------------------
class Anything(NodeConfig):
    """A config with a field for each kind of value."""

    values: dict[str, Any] = {}
    base: Any = None
    names: list[str] = []


def evaluator_of(config: dict[str, Any]) -> Evaluator:
    """Puts out the fields of its config."""
    spec = HandlerSpec(
        type="fields",
        title="Fields",
        config=Anything,
        evaluate=lambda config, context, work: ({"values": config.values, "base": config.base}, None),
    )
    evaluator = spec.evaluator(config)
    assert evaluator is not None
    return evaluator


def test_a_config_with_templates_where_anything_is_valid_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    checked = HandlerSpec.checked

    def count(spec: HandlerSpec, config: Any) -> Any:
        checks.append(config)
        return checked(spec, config)

    monkeypatch.setattr(HandlerSpec, "checked", count)
    evaluate = evaluator_of({"values": {"a": "{{ctx.n}}", "b": [1]}, "base": "{{ctx.n}}", "names": ["c"]})
    made = [evaluate({"n": n}, TemplateBudget())[0] for n in (1, {"x": None}, [2])]
    assert made == [{"values": {"a": n, "b": [1]}, "base": n} for n in (1, {"x": None}, [2])]
    assert len(checks) == 1


@pytest.mark.parametrize(
    "config",
    [{"names": ["{{ctx.n}}"]}, {"base": "{{ctx.n}}", "names": ["{{ctx.n}}"]}, {"values": "{{ctx.n}}"}],
    ids=["a-list-of-texts", "one-of-two-fields", "a-whole-object"],
)
def test_a_template_where_not_anything_is_valid_is_checked_each_time(config: dict[str, Any]) -> None:
    evaluate = evaluator_of(config)
    with pytest.raises(NonRetryable, match="config/"):
        evaluate({"n": 1}, TemplateBudget())


def test_a_config_that_is_invalid_wherever_it_has_no_templates_is_left_to_a_job() -> None:
    with pytest.raises(NonRetryable, match="config/names"):
        evaluator_of({"base": "{{ctx.n}}", "names": 1})


def test_an_evaluator_keeps_no_value_whether_it_ends_or_fails() -> None:
    class Value:
        pass

    evaluate = evaluator_of({"values": {"a": "{{ctx.n}}"}, "base": "{{ctx.missing | default(ctx.n)}}"})
    failing = evaluator_of({"values": {"a": "{{ctx.n}}"}, "base": "{{ctx.missing}}"})
    value = Value()
    kept = weakref.ref(value)
    assert evaluate({"n": value}, TemplateBudget())[0] == {"values": {"a": value}, "base": value}
    with pytest.raises(TemplatePathMissing, match="config/base"):
        failing({"n": value}, TemplateBudget())
    del value
    assert kept() is None
