"""Several entry points: a run begins at the one that fired, the others are skipped with it."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.event_payloads import read_input, read_trigger
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.evolve import new_state
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.repair.fork_plan import ForkCut, RecordedRun, plan_fork
from anabranch.engine.rules.stimuli import Completed as CompletedOutcome
from anabranch.engine.rules.stimuli import NodeResult, Started, TimersDue
from anabranch.engine.rules.test_runs import TestRunPlan
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.histories.graph_replay import replay_graph
from tests.spec.drawings import TYPES, drawn, errors, reads, warnings, writes
from tests.spec.scenario import HANDED_OVER, failed, given

NOW = 3_600_000

TOPIC = {"type": "topic", "config": {"topic": "orders.*"}}
CALL = {"type": "workflowCall"}


def head_of(available_at: int = NOW) -> InstanceHead:
    return InstanceHead("00000000-0000-7000-8000-000000000001", "default", None, "w", 1, NOW, available_at)


class Begun:
    """A run of a document that begins at a trigger."""

    def __init__(self, document: Any, trigger: str | None, *, available_at: int = NOW, **differs: Any) -> None:
        self.plan = compile_plan(document, TYPES, TestRunPlan(**differs), evaluates=False)
        self.state = new_state(self.plan, head_of(available_at))
        self.log = list(decide(self.state, Started(Payload.of({"n": 7}), trigger), NOW).events)

    @property
    def rows(self) -> list[str]:
        return [f"{event.type.removeprefix('NODE_')} {event.node_id}".strip() for event in self.log]

    def complete(self, *nodes: str) -> Begun:
        for node in nodes:
            result = NodeResult(node, "", 1, CompletedOutcome(Payload.of({"from": node})))
            self.log += decide(self.state, result, NOW).events
        return self


def test_a_run_begins_at_the_trigger_that_fired_and_skips_the_others_at_once():
    begun = Begun(drawn("start>a, hook>a, hook>b, call>c", hook=TOPIC, call=CALL), "hook")
    assert begun.rows == ["INPUT_SET", "DISPATCHED hook", "SKIPPED start", "SKIPPED call", "SKIPPED c"]
    assert (read_input(begun.log[0].payload), read_trigger(begun.log[0].payload)) == ({"n": 7}, "hook")
    begun.complete("hook", "a", "b")
    assert begun.rows[-1] == "INSTANCE_COMPLETED"
    assert check_log(begun.plan, head_of(), begun.log) == []


def test_a_run_that_begins_at_start_has_the_log_that_it_always_had():
    begun = Begun(drawn("start>a"), None)
    assert begun.rows == ["INPUT_SET", "DISPATCHED start"]
    assert begun.log[0].payload.value == {"input": {"n": 7}}


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize("trigger", [None, "hook", "call"])
def test_a_join_behind_several_entry_points_goes_on_whichever_of_them_fired(mode: str, trigger: str | None):
    document = drawn("start>a, hook>b, call>j, a>j, b>j", hook=TOPIC, call=CALL, j={"joinMode": mode})
    begun = Begun(document, trigger)
    begun.complete(*{None: ("start", "a"), "hook": ("hook", "b"), "call": ("call",)}[trigger], "j")
    assert begun.rows[-1] == "INSTANCE_COMPLETED"
    assert begun.rows.count("DISPATCHED j") == 1
    assert check_log(begun.plan, head_of(), begun.log) == []


def test_a_run_that_is_not_due_begins_at_its_trigger_once_it_is():
    begun = Begun(drawn("start>a, hook>b", hook=TOPIC), "hook", available_at=NOW + 1_000)
    assert begun.rows == ["INPUT_SET"]
    begun.log += decide(begun.state, TimersDue(), NOW + 1_000).events
    assert begun.rows[1:] == ["DISPATCHED hook", "SKIPPED start", "SKIPPED a"]


def test_a_loop_that_is_drawn_with_edges_may_be_entered_from_several_entry_points_at_one_node():
    document = drawn("start>ask, hook>ask, ask>look, look.again>ask, look.else>out", hook=TOPIC, look=LOOK)
    assert errors(document) == []
    begun = Begun(document, "hook").complete("hook")
    assert begun.rows[-1] == "DISPATCHED ask"
    assert begun.log[-1].scope == "ask#1"


def test_a_loop_that_two_entry_points_enter_at_two_nodes_is_refused_naming_both():
    document = drawn("start>ask, hook>look, ask>look, look.again>ask, look.else>out", hook=TOPIC, look=LOOK)
    assert errors(document) == [("CYCLE", "e3")]


def test_a_region_that_the_trigger_does_not_lead_to_is_skipped_with_one_row():
    document = drawn("start>ask, ask>look, look.again>ask, look.else>out, hook>b", hook=TOPIC, look=LOOK)
    assert Begun(document, "hook").rows[2:] == ["SKIPPED start", "SKIPPED ask", "SKIPPED out"]


def test_a_trigger_may_not_lead_into_the_body_of_a_loop():
    document = drawn("start>each, each.loop>work, hook>work, each.done>out", hook=TOPIC,
                     each={"type": "loop", "config": {"source": []}})  # fmt: skip
    assert [code for code, _ in errors(document)] == ["LOOP_BORDER"]


def test_the_replay_on_another_graph_and_the_fork_begin_where_the_run_began():
    document = drawn("start>a, hook>b", hook=TOPIC)
    begun = Begun(document, "hook").complete("hook", "b")
    other = compile_plan(drawn("start>a, hook>b, b>c", hook=TOPIC), TYPES, evaluates=False)
    different = replay_graph(other, begun.plan, head_of(), begun.log)
    assert (different[0].kind, different[0].node_id) == ("ONLY_NOW", "c")
    source = RecordedRun(begun.plan, head_of(), begun.log)
    started = Started(Payload.of({"n": 7}), "hook")
    fork = plan_fork(source, other, head_of(), started, cut=ForkCut(), now=NOW)
    assert [each["nodeID"] for each in fork.run] == ["c"]
    assert {event.node_id for event in fork.events if event.type is EventType.NODE_SKIPPED} == {"start", "a"}


def test_a_crash_and_a_retry_leave_a_run_at_its_trigger():
    run = given(drawn("start>a, hook>a, a>b", hook=TOPIC), {"n": 7}, trigger="hook").crashed().completed("hook")
    run.then(failed("a"))
    assert run.status == "FAILED"
    run.reopened().when(HANDED_OVER)
    assert run.owed == {"a#2"}
    run.completed("a#2", "b")
    assert run.status == "COMPLETED"
    assert run.rows("NODE_SKIPPED") == ["start"]


def test_a_row_that_skips_another_entry_point_is_missed_by_verify():
    begun = Begun(drawn("start>a, hook>b", hook=TOPIC), "hook").complete("hook")
    without = [event for event in begun.log if event.node_id != "start"]
    for seq, event in enumerate(without, start=1):
        event.seq = seq
    assert "SKIP_MISSING" in {finding.code for finding in check_log(begun.plan, head_of(), without)}


# -- what is refused and warned about -------------------------------------------------------
def test_a_workflow_needs_an_entry_point_but_no_start():
    assert errors({"nodes": [{"id": "a", "type": "set", "config": {"values": {}}}], "edges": []}) == [
        ("NO_START", None)
    ]
    assert errors({"nodes": [{"id": "hook", **TOPIC}], "edges": []}) == []


def test_a_second_start_and_a_second_workflow_call_are_refused():
    assert errors(drawn("start>a", other={"type": "start"})) == [("SEVERAL_STARTS", "other")]
    assert errors(drawn("start>a", call=CALL, other=CALL)) == [("SEVERAL_WORKFLOW_CALLS", "other")]
    assert errors(drawn("start>a", one=TOPIC, other=TOPIC)) == []


def test_no_edge_leads_into_a_trigger():
    assert errors(drawn("start>hook", hook=TOPIC)) == [("EDGE_INTO_START", "e0")]


def test_all_that_any_entry_point_leads_to_is_reachable():
    assert warnings(drawn("start>a, hook>b, lost>c", hook=TOPIC)) == [
        ("UNREACHABLE_NODE", "lost"),
        ("UNREACHABLE_NODE", "c"),
    ]


def test_two_nodes_that_no_run_has_together_may_write_one_variable():
    nodes = {"a": writes("v"), "b": writes("v")}
    assert warnings(drawn("start>a, hook>b", hook=TOPIC, **nodes)) == []
    assert warnings(drawn("start>a, start>b, hook>b", hook=TOPIC, **nodes)) == [("PARALLEL_WRITERS", "b")]
    assert warnings(drawn("start>a, hook>b, a>c, b>c", hook=TOPIC, c=reads("v"), **nodes)) == []


def test_configs_of_triggers_are_checked_and_hold_no_templates():
    assert errors(drawn("start>a", t={"type": "schedule"})) == [("BAD_TIMING", "t")]
    assert errors(drawn("start>a", t={"type": "schedule", "config": {"cron": "61 * * * *"}})) == [("BAD_CRON", "t")]
    assert errors(drawn("start>a", t={"type": "schedule", "config": {"every": "10ms"}})) == [("CONFIG_INVALID", "t")]
    assert errors(drawn("start>a", t={"type": "schedule", "config": {"every": "1h", "timezone": "Mars"}})) == [
        ("BAD_TIMEZONE", "t")
    ]
    assert errors(drawn("start>a", t={"type": "topic", "config": {"topic": "a..b"}})) == [("BAD_TOPIC", "t")]
    assert errors(drawn("start>a", t={"type": "topic", "config": {"topic": "{{ctx.input}}"}}))[0] == (
        "TEMPLATE_NOT_ALLOWED",
        "t",
    )
    schema = {"inputSchema": {"type": "nothing"}}
    assert errors(drawn("start>a", t={"type": "workflowCall", "config": schema})) == [("BAD_INPUT_SCHEMA", "t")]


def test_a_disabled_trigger_begins_nothing_and_is_skipped():
    document = drawn("start>a, hook>b", hook={**TOPIC, "disabled": True})
    assert errors(document) == []
    begun = Begun(document, None)
    assert "hook" not in begun.plan.entry_point_by_trigger
    assert begun.rows == ["INPUT_SET", "DISPATCHED start", "SKIPPED hook", "SKIPPED b"]
    assert begun.plan.needs == ("topic",)


def test_a_called_run_begins_at_the_workflow_call_else_at_the_start():
    assert compile_plan(drawn("start>a, call>a", call=CALL), TYPES).called.id == "call"  # type: ignore[union-attr]
    assert compile_plan(drawn("start>a, hook>a", hook=TOPIC), TYPES).called.id == "start"  # type: ignore[union-attr]
    assert compile_plan({"nodes": [{"id": "hook", **TOPIC}], "edges": []}, TYPES).called is None


LOOK = {"type": "condition", "config": {"branches": [{"id": "again", "expression": "{{ctx.input.n > 9}}"}]}}
