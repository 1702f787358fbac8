"""`now`, `ctx.run.id` and `ctx.workflow.name`: they follow from the log, so every reader of it resolves the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.repair.fork_plan import ForkCut, RecordedRun, plan_fork
from anabranch.engine.rules.stimuli import EvaluationDue, Started
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.engine.rules.templates.template import compile_template
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.errors import TemplateError, TemplatePathMissing
from anabranch.histories.graph_replay import replay_graph
from tests.spec.drawings import TypesWith, broken, drawn
from tests.spec.scenario import INSTANCE_ID, Scenario, completed, failed, given

FACTS = Facts(1_767_225_600_123, "run-1", "orders")

BIRTH = "1970-01-01T01:00:00.000Z"

ALL = {"at": "{{now}}", "run": "{{ctx.run.id}}", "workflow": "{{ctx.workflow.name}}"}


def value(text: str, facts: Facts | None = FACTS, **context: Any) -> Any:
    return compile_template(text).resolve(ContextSnapshot((), (context,), facts))


def shows(**values: str) -> dict[str, Any]:
    """A `set` node of these templates."""
    return {"type": "set", "config": {"values": values}}


def waits(**fields: Any) -> dict[str, Any]:
    return {"type": "python", "config": {"code": "return 1"}, **fields}


def findings(run: Scenario, log: Sequence[Event] | None = None) -> list[str]:
    return [finding.code.value for finding in check_log(run.plan, run.head, run.log if log is None else log)]


# -- in one template ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{now}}", "2026-01-01T00:00:00.123Z"),
        ("{{ now | date_add(1, 'day') | date_format('%d.%m.%Y') }}", "02.01.2026"),
        ("{{ now | timestamp }}", 1_767_225_600_123),
        ("at {{now}}", "at 2026-01-01T00:00:00.123Z"),
        ("{{ {'at': now, 'of': [ctx.run.id]} }}", {"at": "2026-01-01T00:00:00.123Z", "of": ["run-1"]}),
        ("{{ctx.run.id}}", "run-1"),
        ("{{ctx['run']['id'] | upper}}", "RUN-1"),
        ("{{ctx.workflow.name ~ '!'}}", "orders!"),
        ("{{ctx.run.id if ctx.run.id == 'run-1' else 'other'}}", "run-1"),
    ],
)
def test_facts_are_values_like_others(text: str, found: Any) -> None:
    assert value(text) == found


def test_a_variable_of_the_same_name_comes_first() -> None:
    assert value("{{ctx.run.id}} {{ctx.workflow.name}}", run={"id": 7}) == "7 orders"
    with pytest.raises(TemplatePathMissing):
        value("{{ctx.workflow.name}}", workflow="mine")
    assert value("{{ctx.workflow.name | default('none')}}", workflow={}) == "none"


@pytest.mark.parametrize(
    "text", ["{{ctx.run}}", "{{ctx.run.status}}", "{{ctx.workflow}}", "{{ctx.now}}", "{{now.year}}"]
)
def test_there_are_no_other_facts(text: str) -> None:
    with pytest.raises(TemplatePathMissing):
        value(text)


def test_facts_are_not_listed_with_the_context() -> None:
    assert value("{{ctx}}", a=1) == {"a": 1}
    assert value("{{ctx | keys}}", a=1) == ["a"]
    assert value("{{'run' in ctx}}") is False


def test_a_context_of_no_attempt_has_no_facts() -> None:
    for text in ("{{now}}", "{{ctx.run.id}}"):
        with pytest.raises(TemplateError, match="is known in a run only"):
            value(text, None)
        with pytest.raises(TemplateError, match="is known in a run only"):
            compile_template(text).resolve({})


def test_nothing_is_called_and_facts_are_no_constants() -> None:
    with pytest.raises(TemplateError, match="nothing can be called"):
        compile_template("{{now()}}")
    assert not compile_template("{{now}}").is_constant
    assert not compile_template("{{ctx.run.id}}").is_constant
    assert compile_template("{{ctx.run.id}}").needs == frozenset()


# -- in a run -----------------------------------------------------------------------------
def test_now_is_the_time_of_the_dispatch_whenever_the_node_is_evaluated() -> None:
    run = given(drawn("start>wait, wait>show", wait=waits(), show=shows(**ALL)), evaluates=True).then(EvaluationDue())
    run.now += 60_000
    run.when(completed("wait"), evaluations_max=0)
    run.now += 60_000
    happened = run.when(EvaluationDue())
    shown = {"at": "1970-01-01T01:01:00.000Z", "run": INSTANCE_ID, "workflow": "spec"}
    assert happened.payload("NODE_COMPLETED", "show") == shown
    assert findings(run) == []


def test_another_attempt_has_another_now_and_otherwise_the_same_context() -> None:
    run = given(drawn("start>work", work=waits(retry={"maxAttempts": 2}))).completed("start")
    now = compile_template("{{now}}")
    assert now.resolve(run.context("work")) == BIRTH
    first = run.sees("work")
    run.then(failed("work", retryable=True))
    run.later(60_000)
    assert now.resolve(run.context("work")) == "1970-01-01T01:01:00.000Z"
    assert now.resolve(run.crashed().context("work")) == "1970-01-01T01:01:00.000Z"
    assert run.sees("work") == first


def test_another_attempt_of_a_pure_node_is_verified_with_its_own_now() -> None:
    def evaluate(context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
        now = compile_template("{{now}}").resolve(context, work)
        if now == BIRTH:
            raise LookupError("too early")
        return [now, context.get("other")], None

    early = replace(broken(), type="early", evaluator=lambda config: evaluate)
    document = drawn(
        "start>show, start>other",
        show={"type": "early", "retry": {"maxAttempts": 2}},
        other={"type": "set", "config": {"values": {}}, "outputVariable": "other"},
    )
    run = given(document, types=TypesWith(early), evaluates=True).then(EvaluationDue())
    run.later(60_000)
    run.then(EvaluationDue())
    assert run.row("NODE_COMPLETED", "show") == ["1970-01-01T01:01:00.000Z", None]
    assert findings(run) == []


def test_verifying_finds_a_now_that_is_not_that_of_the_dispatch() -> None:
    run = given(drawn("start>show", show=shows(at="{{now}}")), evaluates=True).then(EvaluationDue())
    other = Payload.of({"at": "1970-01-01T01:00:00.001Z"})
    log = [
        replace(event, payload=other) if event.node_id == "show" and event.payload.value else event for event in run.log
    ]
    assert findings(run) == []
    assert findings(run, log) == ["RESULT_DIFFERS"]


def test_a_condition_reads_the_facts_of_its_own_attempt() -> None:
    branches = [{"id": "mine", "expression": "{{ctx.run.id == '" + INSTANCE_ID + "' and now < '1970-01-01T02'}}"}]
    document = drawn("start>pick, pick.mine>yes", pick={"type": "condition", "config": {"branches": branches}})
    run = given(document, evaluates=True).then(EvaluationDue())
    assert run.log[-1].type is EventType.INSTANCE_COMPLETED
    assert "yes" in run.rows("NODE_COMPLETED")
    assert findings(run) == []


def test_a_loop_reads_the_time_of_its_own_dispatch_in_all_its_iterations() -> None:
    each = {"type": "loop", "config": {"while": "{{ctx.index < 2 and now == '" + BIRTH + "'}}", "yield": "{{now}}"}}
    document = drawn("start>each, each.loop>work, work>each", each=each, work=waits())
    run = given(document, evaluates=True).then(EvaluationDue())
    for index in range(2):
        run.now += 60_000
        run.then(completed(f"each[{index}]/work"))
    assert run.row("NODE_COMPLETED", "each") == [BIRTH, BIRTH]
    assert findings(run.crashed()) == []


def test_the_items_of_a_mapped_node_have_their_own_now() -> None:
    show = {
        "type": "set",
        "forEach": "{{ [now, ctx.run.id] }}",
        "config": {"values": {"item": "{{ctx.item}}", "at": "{{now}}"}},
    }
    run = given(drawn("start>show", show=show), evaluates=True).then(EvaluationDue())
    items = [{"item": BIRTH, "at": BIRTH}, {"item": INSTANCE_ID, "at": BIRTH}]
    assert run.row("NODE_COMPLETED", "show") == items
    assert findings(run) == []


# -- readers of recorded runs -------------------------------------------------------------
def test_a_replay_on_the_same_graph_has_the_times_of_the_recorded_run() -> None:
    document = drawn("start>show, show>end", show=shows(**ALL), end={"type": "end"})
    run = given(document, evaluates=True, available_in_ms=60_000)
    run.later(60_000)
    run.then(EvaluationDue())
    assert run.row("NODE_COMPLETED", "show")["at"] == "1970-01-01T01:01:00.000Z"
    assert replay_graph(run.plan, run.plan, run.head, run.log) == []


@pytest.mark.parametrize("config", ["{{now}}", "{{ctx.run.id}}", "{{ctx.input | default(now)}}"])
def test_a_fork_executes_again_what_reads_a_fact_that_is_another_one_there(config: str) -> None:
    call = {"type": "httpRequest", "config": {"url": "https://example.org/", "headers": {"X-At": config}}}
    document = drawn("start>call, call>after", call=call, after=waits())
    run = given(document, evaluates=True).then(EvaluationDue()).completed("call", "after")
    head = replace(run.head, instance_id="00000000-0000-7000-8000-0000000000ff")
    source = RecordedRun(run.plan, run.head, run.log)
    cut = ForkCut(chosen=[("after", None)])
    made = plan_fork(source, run.plan, head, Started(Payload.of(None)), cut=cut, now=run.now + 1)
    expected = [] if "input" in config else [("call", "/headers/X-At")]
    assert [(each["nodeID"], each.get("path")) for each in made.run if each["nodeID"] == "call"] == expected


def test_a_fact_beside_a_secret_counts_too() -> None:
    call = {"type": "httpRequest", "config": {"url": "https://example.org/", "headers": {"X": "{{secret.KEY ~ now}}"}}}
    run = given(drawn("start>call, call>after", call=call, after=waits())).completed("start", "call", "after")
    head = replace(run.head, instance_id="00000000-0000-7000-8000-0000000000ff")
    source = RecordedRun(run.plan, run.head, run.log)
    made = plan_fork(
        source, run.plan, head, Started(Payload.of(None)), cut=ForkCut(chosen=[("after", None)]), now=run.now + 1
    )
    assert [each["nodeID"] for each in made.run] == ["call"]
