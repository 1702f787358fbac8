"""Why, and as of each row, in loops without a loop node, mapped nodes, runs that begin at a trigger, and coded runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import NewVersion
from anabranch.engine.rules.coded.names import StepKind
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.stimuli import StepCancelled
from anabranch.handlers.registry import builtin_types
from anabranch.service.definitions.checks import Checks
from anabranch.service.explanations.as_of import run_as_of
from anabranch.service.explanations.explanations import Explanations
from anabranch.service.explanations.why import why_node, why_run
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore
from tests.conformance.building import TENANT, new_run
from tests.spec.coded import Coded, blocked, done, report, sleeps, suspended
from tests.spec.drawings import condition, drawn, loop, writes
from tests.spec.scenario import Scenario, asks_for, completed, failed, given

SIGNAL = {"type": "waitForEvent", "config": {"event": "go"}}

POLL = drawn(
    "start>ask, ask>look, look.again>ask, look.else>done",
    ask={**SIGNAL, "outputVariable": "answer"},
    look=condition("again"),
)


@dataclass
class Asked:
    """A run whose log is stored, and what is asked about it."""

    run: Scenario
    explanations: Explanations

    async def why(self, node: str, scope: str = "") -> dict[str, Any]:
        return await self.explanations.why_node(self.run.head.instance_id, node, tenant_id=TENANT, scope=scope)

    async def at(self, seq: int, scope: str | None = None) -> dict[str, Any]:
        return await self.explanations.at(self.run.head.instance_id, seq, scope=scope, tenant_id=TENANT)

    async def rows(self) -> list[dict[str, Any]]:
        """The run as of each of its rows."""
        return [await self.at(seq) for seq in range(1, len(self.run.log) + 1)]


async def stored(document: Mapping[str, Any], run: Scenario) -> Asked:
    """The run in a store."""
    ticks = itertools.count(1_000)
    store = MemoryStore(MemoryDatabase(now=lambda: next(ticks)))
    await store.start()
    saved = await store.save_workflow(NewVersion(name="explained", definition=document), tenant_id=TENANT)
    head = replace(run.head, workflow_id=saved.workflow_id, workflow_name="explained")
    made = new_run(head, *run.log, worker_id=None, status=Status.WAITING, available_at=None)
    assert head.instance_id in (await store.commit([made])).won
    return Asked(run, Explanations(store, PlanCache(store, builtin_types()), Checks()))


def second_pass() -> Scenario:
    """A run that waits in the second pass of its loop."""
    run = given(POLL).then(completed("start"), completed("ask#1/ask", {"n": 1}))
    return run.then(completed("ask#1/look", handle="again"), asks_for("ask#2/ask", "go"))


async def test_what_follows_a_loop_waits_for_the_pass_that_is_open():
    asked = await stored(POLL, second_pass())
    done = await asked.why("done")
    assert done["status"] == "pending"
    assert [(edge["from"], edge["verdict"]) for edge in done["edges"]] == [("look", "open")]
    assert "ask#2" in str(done["waitsFor"])
    look = await asked.why("look", "ask#2")
    assert [(edge["from"], edge["verdict"]) for edge in look["edges"]] == [("ask", "open")]
    (waits,) = look["waitsFor"]
    assert (waits["nodeID"], waits["scope"], waits["why"][0]["kind"]) == ("ask", "ask#2", "signal")
    assert (await asked.why("ask", "ask#1"))["status"] == "success"


async def test_a_loop_as_a_whole_is_as_its_latest_pass():
    asked = await stored(POLL, second_pass())
    whole, latest = await asked.why("ask"), await asked.why("ask", "ask#2")
    assert whole["sentence"] == f"The latest pass is ask#2: {latest['sentence']}"
    assert (whole["scope"], whole["waitsFor"]) == ("", latest["waitsFor"])
    assert (whole["status"], whole["since"]) == ("waiting", latest["since"])
    failed_there = await stored(POLL, given(POLL).then(completed("start"), failed("ask#1/ask")))
    whole = await failed_there.why("ask")
    assert whole["sentence"].startswith("The latest pass is ask#1: 'ask' failed")
    assert (whole["status"], whole["since"]) == ("error", (await failed_there.why("ask", "ask#1"))["since"])


async def test_a_loop_is_shown_pass_by_pass_as_of_each_row():
    asked = await stored(POLL, second_pass())
    shown = await asked.rows()
    statuses = [{(node["nodeID"], node["scope"]): node["status"] for node in at["nodes"]} for at in shown]
    assert statuses[-1] == {
        ("start", ""): "success",
        ("ask", "ask#1"): "success",
        ("look", "ask#1"): "success",
        ("ask", "ask#2"): "waiting",
    }
    assert all(earlier.keys() <= later.keys() for earlier, later in itertools.pairwise(statuses))
    assert (shown[-1]["waits"][0]["nodeID"], shown[-1]["waits"][0]["scope"]) == ("ask", "ask#2")
    assert (await asked.at(len(shown), "ask#2"))["ctx"]["answer"] == {"n": 1}


LOOPED = drawn("start>each, each.loop>work, work>each, each.done>after", each=loop(), work=writes("x"))


async def test_a_node_of_an_iteration_was_decided_by_the_opening_of_its_loop_not_by_its_end():
    run = given(LOOPED, [7]).then(completed("start"), completed("each", [7]), completed("each[0]/work"))
    asked = await stored(LOOPED, run)
    (opening,) = [row.seq for row in run.log if row.type is EventType.LOOP_OPENED]
    work, after = await asked.why("work", "each[0]"), await asked.why("after")
    assert [(each["nodeID"], each["handle"], each["seq"]) for each in work["decidedBy"]] == [("each", "loop", opening)]
    assert [(edge["handle"], edge["seq"]) for edge in work["edges"]] == [("loop", opening)]
    assert [(edge["handle"], edge["verdict"]) for edge in after["edges"]] == [("done", "live")]
    assert after["edges"][0]["seq"] > opening


MAPPED = drawn("start>ask, ask>done", ask={**SIGNAL, "forEach": "{{ctx.input}}", "outputVariable": "answers"})


async def test_a_mapped_node_is_shown_item_by_item_as_of_each_row():
    run = given(MAPPED, [1, 2]).then(completed("start"), completed("ask", [1, 2]))
    run.then(completed("ask[0]/ask", "one"), asks_for("ask[1]/ask", "go"))
    asked = await stored(MAPPED, run)
    last = (await asked.rows())[-1]
    statuses = {(node["nodeID"], node["scope"]): node["status"] for node in last["nodes"]}
    assert (statuses["ask", "ask[0]"], statuses["ask", "ask[1]"]) == ("success", "waiting")
    assert "answers" not in last["ctx"]
    done = await asked.why("done")
    assert [reason["iteration"] for reason in done["waitsFor"][0]["why"]] == ["ask[1]"]


TRIGGERED = drawn(
    "start>other, hook>ask, other>join, ask>join",
    hook={"type": "topic", "config": {"topic": "orders.*"}},
    ask=SIGNAL,
    other=writes("x"),
)


async def test_a_run_that_began_at_a_trigger_says_that_the_others_have_not_fired():
    run = given(TRIGGERED, {"n": 7}, trigger="hook").then(completed("hook", {"n": 7}), asks_for("ask", "go"))
    asked = await stored(TRIGGERED, run)
    first, *_, last = await asked.rows()
    assert (first["ctx"]["input"], last["ctx"]["input"]) == ({"n": 7}, {"n": 7})
    statuses = {node["nodeID"]: node["status"] for node in last["nodes"]}
    assert statuses == {"start": "skipped", "hook": "success", "other": "skipped", "ask": "waiting"}
    join = await asked.why("join")
    assert [(edge["from"], edge["verdict"]) for edge in join["edges"]] == [("other", "dead"), ("ask", "open")]
    start = await asked.why("start")
    assert start["status"] == "skipped"
    assert "hook" in start["sentence"], start["sentence"]
    assert (await asked.why("other"))["sentence"] == "'other' was skipped: the run began at 'hook'."


async def test_a_coded_run_that_has_used_a_step_name_twice_waits_for_what_is_open():
    run = Coded().then(done("fetch"), done("fetch", scope="#2"), suspended(sleeps("nap", 1_000)))
    found = why_run(run_as_of(run.plan, run.head, run.log))
    assert [(each["kind"], each["nodeID"]) for each in found["waitsFor"]] == [("timer", "nap")]


async def test_a_step_that_the_function_has_cancelled_was_closed_by_it():
    run = Coded().then(sleeps("nap", 1_000), report("nap", StepCancelled(), kind=StepKind.SLEEP))
    found = why_node(run_as_of(run.plan, run.head, run.log), "nap", "")
    assert (found["status"], found["decidedBy"]) == ("skipped", [])
    assert found["sentence"] == "'nap' was closed: the function cancelled it, or ended before it did."


async def test_a_run_whose_code_has_changed_is_suspended_and_waits_for_no_worker_besides():
    run = Coded().then(done("fetch"), blocked())
    found = why_run(run_as_of(run.plan, run.head, run.log))
    assert [(each["kind"], each["reason"]) for each in found["waitsFor"]] == [("suspended", "NONDETERMINISM")]
    assert "(NONDETERMINISM): changed. Deploy code that does what its log says" in found["sentence"]
    assert "waits for a worker" not in found["sentence"]
