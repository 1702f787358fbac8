"""Why a run is where it is, and how it stood at any row of its log, over REST."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from anabranch.engine.rules.graph.document import parse
from anabranch.engine.rules.stimuli import EvaluationDue
from anabranch.service.explanations.as_of import run_as_of
from tests.operations import growth
from tests.rest.conftest import Served
from tests.rest.drawing import echo
from tests.spec.scenario import TIMERS, Scenario, given

END = {"id": "end", "type": "end", "config": {"outputParameters": {"ok": True}}}


def edge(source: str, target: str, handle: str | None = None, **fields: Any) -> dict[str, Any]:
    """An edge of the wire."""
    by = {} if handle is None else {"sourceHandle": handle}
    return {"upstreamNodeID": source, "downstreamNodeID": target, **by, **fields}


def triage() -> dict[str, Any]:
    """A condition, a wait on one side, a chain that is skipped on the other, and a join of both."""
    branches = [{"id": "urgent", "expression": "{{ctx.input.level > 5}}"}]
    return {
        "name": "triage",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "pick", "type": "condition", "config": {"branches": branches}},
            {"id": "approve", "type": "waitForEvent", "config": {"event": "approve", "timeout": "1h"}},
            {"id": "page", "type": "set", "config": {"values": {"paged": True}}},
            {"id": "call", "type": "set", "config": {"values": {"called": True}}},
            {"id": "join", "type": "set", "config": {"values": {}}},
            END,
        ],
        "edges": [
            edge("start", "pick"),
            edge("pick", "page", "urgent", id="hot"),
            edge("page", "call"),
            edge("pick", "approve", "else"),
            edge("call", "join"),
            edge("approve", "join"),
            edge("approve", "join", "timeout"),
            edge("join", "end"),
        ],
    }


async def waiting_triage(served: Served) -> str:
    """A run of `triage` that waits for the signal."""
    await served.save(triage())
    run = await served.start("triage", input={"level": 3})
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    return run


async def why(served: Served, run: str, node: str = "", scope: str = "") -> dict[str, Any]:
    """The answer to why."""
    path = f"/v1/runs/{run}/nodes/{node}/why" if node else f"/v1/runs/{run}/why"
    answered = await served.ask("GET", path, role="viewer", params={"scope": scope} if scope else {})
    assert answered.status == 200, answered.text
    found: dict[str, Any] = answered.json
    return found


async def test_a_waiting_run_says_for_what_and_until_when(served: Served):
    run = await waiting_triage(served)
    found = await why(served, run)
    assert found["status"] == "WAITING"
    assert [(each["kind"], each["nodeID"], each["event"]) for each in found["waitsFor"]] == [
        ("signal", "approve", "approve")
    ]
    assert found["sentence"] == f"'approve' waits for the signal 'approve' until {found['waitsFor'][0]['dueAt']}."


async def test_a_node_that_was_not_reached_names_the_edges_that_are_open_and_what_they_wait_for(served: Served):
    run = await waiting_triage(served)
    found = await why(served, run, "join")
    assert (found["status"], found["since"]) == ("pending", None)
    assert [(each["from"], each["handle"], each["verdict"]) for each in found["edges"]] == [
        ("call", "default", "dead"), ("approve", "default", "open"), ("approve", "timeout", "open"),
    ]  # fmt: skip
    (reason,) = found["waitsFor"]
    assert (reason["kind"], reason["nodeID"], reason["status"]) == ("node", "approve", "waiting")
    assert [each["kind"] for each in reason["why"]] == ["signal"]
    assert found["sentence"] == "'join' has not run yet: it waits for 'approve' (edges: 0 live, 1 dead, 2 open)."
    further = await why(served, run, "end")
    assert further["waitsFor"][0]["nodeID"] == "join"
    assert further["waitsFor"][0]["why"][0]["nodeID"] == "approve"


async def test_a_skipped_node_names_the_condition_that_decided_with_its_expression_and_value(served: Served):
    run = await waiting_triage(served)
    for node in ("page", "call"):
        found = await why(served, run, node)
        assert found["status"] == "skipped"
        (decider,) = found["decidedBy"]
        assert (decider["nodeID"], decider["handle"]) == ("pick", "else")
        assert (decider["expression"], decider["value"]) == ("{{ctx.input.level > 5}}", False)
        assert "'pick' left by 'else', since {{ctx.input.level > 5}} was false" in found["sentence"]


async def test_an_ended_run_says_how_it_ended(served: Served):
    run = await waiting_triage(served)
    await served.ask("POST", f"/v1/runs/{run}/signals/approve", json={"by": "Ada"})
    await served.ended(run)
    found = await why(served, run)
    assert (found["status"], found["sentence"], found["waitsFor"]) == ("COMPLETED", "The run completed.", [])
    assert (await why(served, run, "join"))["decidedBy"][0]["nodeID"] == "approve"


async def test_a_failed_run_names_the_node_that_failed_it(served: Served):
    fails = {
        "id": "bad",
        "type": "javascript",
        "config": {"code": "throw new Error('no')"},
        "retry": {"maxAttempts": 1},
    }
    await served.save(
        {
            "name": "fails",
            "nodes": [{"id": "start", "type": "start"}, fails, END],
            "edges": [edge("start", "bad"), edge("bad", "end")],
        }
    )
    run = await served.start("fails")
    await served.ended(run)
    found = await why(served, run)
    assert found["status"] == "FAILED"
    assert found["sentence"].startswith("The run failed at 'bad': CODE_ERROR")
    assert [each["nodeID"] for each in found["decidedBy"]] == ["bad"]
    assert (await why(served, run, "end"))["sentence"] == "'end' was not reached: the run ended (FAILED) before."


async def test_nodes_in_iterations_are_asked_about_with_their_scope(served: Served):
    looped = {
        "name": "looped",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 2}},
            {"id": "ask", "type": "waitForEvent", "config": {"event": "go", "match": {"n": "{{ctx.item}}"}}},
            END,
        ],
        "edges": [edge("start", "each"), edge("each", "ask", "loop"), edge("each", "end", "done")],
    }
    await served.save(looped)
    run = await served.start("looped", input=[1, 2])
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    found = await why(served, run, "end")
    (loop,) = found["waitsFor"]
    assert (loop["nodeID"], [each["iteration"] for each in loop["why"]]) == ("each", ["each[0]", "each[1]"])
    assert loop["why"][0]["why"][0]["kind"] == "signal"
    assert (await why(served, run, "ask", "each[1]"))["status"] == "waiting"
    elsewhere = await why(served, run, "ask")
    assert elsewhere["sentence"] == "'ask' does not run in the scope '': it runs in the iterations of 'each'."
    assert {each["scope"] for each in (await why(served, run))["waitsFor"]} == {"each[0]", "each[1]"}


async def test_a_mapped_node_is_explained_as_a_whole_and_item_by_item(served: Served):
    ask = {"id": "ask", "type": "waitForEvent", "config": {"event": "go", "match": {"n": "{{ctx.item}}"}}}
    ask |= {"forEach": "{{ctx.input}}", "concurrency": 2, "outputVariable": "answers"}
    nodes = [{"id": "start", "type": "start"}, ask, {"id": "end", "type": "end"}]
    await served.save({"name": "mapped", "nodes": nodes, "edges": [edge("start", "ask"), edge("ask", "end")]})
    run = await served.start("mapped", input=[1, 2, 3])
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")

    (whole,) = (await why(served, run, "end"))["waitsFor"]
    assert (whole["nodeID"], [each["iteration"] for each in whole["why"]]) == ("ask", ["ask[0]", "ask[1]"])
    item = await why(served, run, "ask", "ask[1]")
    assert (item["status"], item["edges"], item["waitsFor"][0]["kind"]) == ("waiting", [], "signal")
    (limit,) = (await why(served, run, "ask", "ask[2]"))["waitsFor"]
    assert (limit["nodeID"], limit["limit"], limit["value"]) == ("ask", "concurrency", 2)
    assert {each["scope"] for each in (await why(served, run))["waitsFor"]} == {"ask[0]", "ask[1]"}

    for number in (2, 1, 3):
        await served.ask("POST", f"/v1/runs/{run}/signals/go", json={"n": number})
    ended = await served.ended(run)
    assert {(each["nodeID"], each["scope"]): each["handles"] for each in ended["nodes"]} == {
        ("start", ""): ["default"], ("ask", ""): ["default"], ("end", ""): [],
        **{("ask", f"ask[{index}]"): [] for index in range(3)},
    }  # fmt: skip
    for seq in range(1, ended_seq(await served.ask("GET", f"/v1/runs/{run}/log?limit=1000")) + 1):
        at = (await served.ask("GET", f"/v1/runs/{run}/at/{seq}")).json
    verdicts = {each["edgeID"]: each["verdict"] for each in at["edges"]}
    assert (set(verdicts.values()), at["ctx"]["answers"]) == ({"live"}, [{"n": 1}, {"n": 2}, {"n": 3}])


def ended_seq(log: Any) -> int:
    return int(log.json["items"][-1]["seq"])


async def test_a_run_is_shown_as_of_every_row_of_its_log(served: Served):
    run = await waiting_triage(served)
    await served.ask("POST", f"/v1/runs/{run}/signals/approve", json={"by": "Ada"})
    last = (await served.ended(run))["status"]
    rows = (await served.ask("GET", f"/v1/runs/{run}/log")).json["items"]
    seen: dict[str, str] = {}
    for row in rows:
        at = (await served.ask("GET", f"/v1/runs/{run}/at/{row['seq']}", role="viewer")).json
        assert (at["seq"], at["lastSeq"], at["createdAt"]) == (row["seq"], len(rows), row["createdAt"])
        nodes = {node["nodeID"]: node["status"] for node in at["nodes"]}
        assert seen.keys() <= nodes.keys()
        seen = nodes
        if row["eventType"] == "NODE_WAITING":
            assert at["waits"] == [{"nodeID": "approve", "scope": "", **at["waits"][0]}]
            verdicts = {each["edgeID"]: each["verdict"] for each in at["edges"]}
            assert (verdicts["hot"], verdicts["/edges/3"], verdicts["/edges/5"]) == ("dead", "live", "open")
    assert (at["status"], at["ctx"]["input"]) == (last, {"level": 3})
    assert seen == {
        "start": "success", "pick": "success", "page": "skipped", "call": "skipped", "approve": "success",
        "join": "success", "end": "success",
    }  # fmt: skip


async def test_a_large_value_is_named_by_its_size_and_fetched_by_its_path(served: Served):
    await served.save(echo())
    run = await served.start("echo", input={"text": "x" * 70_000, "rows": [{"n": 7}]})
    await served.ended(run)
    last = (await served.ask("GET", f"/v1/runs/{run}/log?limit=1000")).json["items"][-1]["seq"]
    at = (await served.ask("GET", f"/v1/runs/{run}/at/{last}")).json
    assert at["ctx"]["input"]["truncated"] is True
    assert at["ctx"]["input"]["bytes"] > 70_000
    assert (await served.ask("GET", f"/v1/runs/{run}/at/{last}?path=input.rows.0.n")).json["ctx"] == 7
    wrong = await served.ask("GET", f"/v1/runs/{run}/at/{last}?path=input.nothing")
    assert (wrong.status, wrong.code) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize("place", ["at/0", "at/99999", "at/x", "at/-1"])
async def test_a_row_that_the_log_does_not_have_is_refused(served: Served, place: str):
    run = await waiting_triage(served)
    answered = await served.ask("GET", f"/v1/runs/{run}/{place}")
    assert (answered.status, answered.code) == (422, "INVALID_REQUEST")


async def test_a_number_beyond_the_log_is_answered_with_the_rows_that_there_are(served: Served):
    run = await waiting_triage(served)
    rows = (await served.ask("GET", f"/v1/runs/{run}/log")).json["items"]
    error = (await served.ask("GET", f"/v1/runs/{run}/at/{'9' * 30}")).json["error"]
    assert (error["message"], error["hint"]) == (
        f"the log of run {run} has no row {'9' * 30}", f"Ask for 1 to {len(rows)}."
    )  # fmt: skip
    too_long = (await served.ask("GET", f"/v1/runs/{run}/at/{'9' * 1_001}")).json["error"]
    assert too_long["message"] == "a seq is a whole number of at most 1,000 digits"


async def test_an_unknown_node_is_not_found(served: Served):
    run = await waiting_triage(served)
    assert (await served.ask("GET", f"/v1/runs/{run}/nodes/nobody/why")).status == 404


def over(name: str, *middle: dict[str, Any], **config: Any) -> dict[str, Any]:
    """A loop over the input with these nodes in its body, one after the other."""
    loop = {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}", **config}}
    inside = [edge(before["id"], after["id"]) for before, after in pairwise(middle)]
    return {
        "name": name,
        "nodes": [{"id": "start", "type": "start"}, loop, *middle, END],
        "edges": [edge("start", "each"), edge("each", middle[0]["id"], "loop"), *inside, edge("each", "end", "done")],
    }


async def test_a_suspended_run_says_so_first_and_what_it_waited_for(served: Served):
    run = await waiting_triage(served)
    await served.ask("POST", f"/v1/runs/{run}/pause")
    for found in (await why(served, run), await why(served, run, "approve"), await why(served, run, "join")):
        first, further = found["waitsFor"]
        assert (first["kind"], first["reason"]) == ("paused", "PAUSED")
        assert {"message", "hint", "since"} <= first.keys()
        assert further["nodeID"] == "approve"
        assert "The run has been suspended since" in found["sentence"]


async def test_a_suspended_run_names_the_signal_that_it_takes_when_it_is_resumed(served: Served):
    run = await waiting_triage(served)
    await served.ask("POST", f"/v1/runs/{run}/pause")
    assert "waits for the signal 'approve'" in (await why(served, run))["sentence"]
    await served.ask("POST", f"/v1/runs/{run}/signals/approve", json={"by": "Ada"})
    seq = (await served.ask("GET", f"/v1/runs/{run}/log")).json["items"][-1]["seq"]
    for found in (await why(served, run), await why(served, run, "approve")):
        assert found["waitsFor"][1]["arrived"] == {"event": "approve", "seq": seq}
        told = f"The signal 'approve' for 'approve' has arrived (row {seq}): it is delivered when the run goes on."
        assert found["sentence"].endswith(told)


async def test_an_iteration_that_has_not_begun_waits_for_room_beside_the_open_ones(served: Served):
    await served.save(over("narrow", {"id": "ask", "type": "waitForEvent", "config": {"event": "go"}}, concurrency=2))
    run = await served.start("narrow", input=[1, 2, 3])
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    found = await why(served, run, "ask", "each[2]")
    (limit,) = found["waitsFor"]
    assert (limit["kind"], limit["nodeID"], limit["limit"], limit["value"]) == ("limit", "each", "concurrency", 2)
    assert [each["iteration"] for each in limit["why"]] == ["each[0]", "each[1]"]
    assert found["sentence"].startswith("'ask' has not run in each[2] yet: 'each' has as many iterations open")


async def test_what_was_skipped_with_its_iteration_names_the_failure(served: Served):
    bad = {"id": "bad", "type": "set", "config": {"values": {"x": "{{ctx.nothing}}"}}}
    await served.save(over("broken", bad, {"id": "after", "type": "set", "config": {"values": {}}}, onItemError="skip"))
    run = await served.start("broken", input=[1])
    await served.ended(run)
    found = await why(served, run, "after", "each[0]")
    (decider,) = found["decidedBy"]
    assert (found["status"], decider["nodeID"], decider["scope"]) == ("skipped", "bad", "each[0]")
    assert found["sentence"] == "'after' was skipped: 'bad' failed (TEMPLATE_PATH_MISSING)."


async def test_a_run_that_waits_for_a_child_says_how_the_child_is(served: Served):
    await served.save(triage())
    call = {"id": "call", "type": "workflow", "config": {"workflow": "triage", "input": {"level": 1}}}
    await served.save(
        {"name": "calls", "nodes": [{"id": "start", "type": "start"}, call], "edges": [edge("start", "call")]}
    )
    run = await served.start("calls")
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    (reason,) = (await why(served, run))["waitsFor"]
    await served.until(f"/v1/runs/{reason['childID']}", lambda found: found["status"] == "WAITING")
    (reason,) = (await why(served, run, "call"))["waitsFor"]
    assert (reason["kind"], reason["name"], reason["status"]) == ("child", "triage", "WAITING")


async def test_a_run_whose_time_has_not_come_waits_for_it(served: Served):
    await served.save(triage())
    run = await served.start("triage", input={"level": 1}, availableAt="2100-01-01T00:00:00Z")
    found = await why(served, run)
    assert (found["waitsFor"][0]["kind"], found["waitsFor"][0]["dueAt"][:10]) == ("timer", "2100-01-01")
    assert found["sentence"].startswith("The run waits until 2100-01-01")


async def test_reasons_go_eight_steps_back_and_are_a_hundred_at_most(served: Served):
    waits = [{"id": f"w{n}", "type": "waitForEvent", "config": {"event": "go"}} for n in range(120)]
    row = [{"id": f"n{n}", "type": "set", "config": {"values": {}}} for n in range(12)]
    edges = [*(edge("start", each["id"]) for each in waits), *(edge(each["id"], "n0") for each in waits)]
    edges += [edge(before["id"], after["id"]) for before, after in pairwise(row)]
    await served.save({"name": "wide", "nodes": [{"id": "start", "type": "start"}, *waits, *row], "edges": edges})
    run = await served.start("wide")
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    wide, deep = await why(served, run, "n0"), await why(served, run, "n11")
    assert sum(1 for _ in reasons_in(wide["waitsFor"])) == 100
    assert wide["omitted"] is True
    assert max(depth for depth, _ in reasons_in(deep["waitsFor"])) == 8


def reasons_in(reasons: list[dict[str, Any]], depth: int = 1) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every reason with how many steps back it is."""
    for reason in reasons:
        yield depth, reason
        yield from reasons_in(reason.get("why", []), depth + 1)


def test_twice_as_many_rows_are_folded_with_twice_as_many_operations():
    document = over("many", {"id": "work", "type": "set", "config": {"values": {"n": "{{ctx.item}}"}}})
    edges = parse(document).edges

    def ended(items: int) -> Scenario:
        run = given(document, list(range(items)), evaluates=True, checked=False)
        while not run.state.is_terminal:
            run.when(EvaluationDue() if run.state.unevaluated else TIMERS)
        return run

    small, large = ended(500), ended(1_000)
    seen = run_as_of(large.plan, large.head, large.log, edges)
    assert (seen.state.status, len(seen.activations)) == ("COMPLETED", 1_003)
    few, many = ((lambda run=run: run_as_of(run.plan, run.head, run.log, edges)) for run in (small, large))
    assert growth(few, many) < 2.2
