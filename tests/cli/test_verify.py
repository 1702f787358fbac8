"""`anabranch verify` and `replay`: logs checked against their definitions, recorded runs on drafts, also as files."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.bulk.bulk_actions import BULK_NAME
from anabranch.durable.definition import DECLARED, Workflow, WorkflowRegistry
from anabranch.durable.step_error import qualified_name
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.stimuli import Failed, FunctionBlocked, NodeResult
from anabranch.engine.rules.verify.finding import FindingCode
from anabranch.errors import RunError
from anabranch.forks.fork_check import check_name
from anabranch.handlers.registry import builtin_types
from anabranch.histories.recorded_history import RecordedHistory
from anabranch.histories.verification import verify_history
from tests.cli.conftest import Command, Write
from tests.spec.coded import Coded, done, function, raised, sleeps, suspended

BRANCH = {
    "name": "branch",
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "size",
            "type": "condition",
            "config": {"branches": [{"id": "big", "expression": "{{ctx.input.n > 5}}"}]},
        },
        {"id": "slow", "type": "delay", "config": {"duration": 1}},
        {"id": "quick", "type": "delay", "config": {"duration": 1}},
        {"id": "end", "type": "end", "joinMode": "any", "config": {"outputParameters": {"n": "{{ctx.input.n}}"}}},
    ],
    "edges": [
        {"upstreamNodeID": "start", "downstreamNodeID": "size"},
        {"upstreamNodeID": "size", "downstreamNodeID": "slow", "sourceHandle": "big"},
        {"upstreamNodeID": "size", "downstreamNodeID": "quick", "sourceHandle": "else"},
        {"upstreamNodeID": "slow", "downstreamNodeID": "end"},
        {"upstreamNodeID": "quick", "downstreamNodeID": "end"},
    ],
}

SHOP = """\
from pathlib import Path
from anabranch import workflow

def charge(amount):
    with Path("effects").open("a") as effects:
        effects.write("charged\\n")
    return amount

@workflow(name="shop")
async def shop(ctx, input):
    print("printed by the function")
    ctx.log.error("logged by the function")
    paid = await ctx.step.run("charge", charge, input["n"])
    await ctx.step.sleep("nap", "10ms")
    return {"paid": paid}
"""


def forget() -> None:
    """Each command stands for a process of its own."""
    DECLARED.clear()
    for name in ("app", "draft"):
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget()
    yield
    forget()


@pytest.fixture
def recorded(anabranch: Command, write: Write) -> list[str]:
    """Two runs of a drawn workflow, n = 3 and n = 8, and one of a coded one: their ids."""
    write("branch.json", BRANCH)
    Path("app.py").write_text(SHOP)
    ids = [
        anabranch("run", "branch.json", "--input", json.dumps({"n": n}), "--json").document["instanceID"]
        for n in (3, 8)
    ]
    shop = anabranch("run", "shop", "--import", "app.py", "--input", '{"n": 1}', "--json").document
    forget()
    return [*ids, shop["instanceID"]]


def change(statement: str, *values: Any) -> None:
    """Write to the database behind everybody's back."""
    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        changed = connection.execute(statement, values)
        assert changed.rowcount > 0
    connection.close()


def draft(**changes: Any) -> dict[str, Any]:
    """The workflow with other configs of some nodes."""
    nodes = [{**node, "config": changes[node["id"]]} if node["id"] in changes else node for node in BRANCH["nodes"]]
    return {**BRANCH, "nodes": nodes}


def test_logs_that_are_as_defined_exit_with_0(anabranch: Command, recorded: list[str]) -> None:
    one, every = anabranch("verify", recorded[0]), anabranch("verify", "--all", "--import", "app.py", "--json")

    assert (one.code, one.out) == (0, "1 run with 12 rows: all as defined\n")
    assert (every.code, every.document["runs"], every.document["faulty"]) == (0, 3, [])
    assert every.document["notes"] == []
    assert Path("effects").read_text() == "charged\n", "verifying has executed a step"


def test_a_log_that_is_not_is_named_with_its_row_and_exits_with_1(anabranch: Command, recorded: list[str]) -> None:
    where = "instance_id = ? AND node_id = 'size' AND event_type = 'NODE_COMPLETED'"
    change(f"UPDATE workflow_instance_logs SET next_handle = 'big' WHERE {where}", recorded[0])

    printed, document = anabranch("verify", "--all"), anabranch("verify", recorded[0], "--json")

    assert printed.code == document.code == 1
    assert f"run {recorded[0]} (branch 1, COMPLETED):" in printed.out
    assert "HANDLE_DIFFERS: 'size' is recorded as leaving by 'big', and leaves by 'else'" in printed.out
    (faulty,) = document.document["faulty"]
    assert {"HANDLE_DIFFERS", "SKIP_UNEXPECTED", "DISPATCH_UNEXPECTED"} <= {each["code"] for each in faulty["findings"]}


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_verified(
    anabranch: Command, recorded: list[str]
) -> None:
    change("UPDATE workflow_instance_logs SET payload = 'xx' WHERE instance_id = ? AND seq = 3", recorded[0])

    one, every = anabranch("verify", recorded[0]), anabranch("verify", "--all", "--json")

    assert (one.code, every.code, every.document["runs"]) == (1, 1, 3)
    assert f"row 3: ROW_UNREADABLE: row 3 of the log of run {recorded[0]} cannot be read: JSONDecodeError" in one.out
    assert [each["instanceID"] for each in every.document["faulty"]] == [recorded[0]]

    change("UPDATE workflow_instance_logs SET event_type = 'OF_ANOTHER_PROGRAM' WHERE instance_id = ? AND seq = 3",
           recorded[0])  # fmt: skip
    every = anabranch("verify", "--all", "--json")
    assert (every.code, every.document["runs"]) == (1, 3), (
        "a run whose row of a log is of no known type cannot be shown"
    )
    assert [each["instanceID"] for each in every.document["faulty"]] == [recorded[0]]


def test_a_coded_run_is_held_against_its_function(anabranch: Command, recorded: list[str]) -> None:
    Path("app.py").write_text(SHOP.replace('"charge", charge', '"pay", charge'))

    without = anabranch("verify", recorded[2])
    with_code = anabranch("verify", recorded[2], "--import", "app.py", "--json")

    assert without.code == 0
    assert "not checked in 1 run: the function of version 1 of 'shop' is not here" in without.out
    assert with_code.code == 1
    (finding,) = with_code.document["faulty"][0]["findings"]
    assert (finding["code"], finding["nodeID"]) == ("STEP_DIFFERS", "charge")
    assert Path("effects").read_text() == "charged\n"


async def renamed(ctx: Any, input: Any) -> None:
    await ctx.step.run("pay", print)


async def misspelled(ctx: Any, input: Any) -> None:
    await ctx.step.run("charge", print)
    await ctx.step.sleep("nap", "soon")


async def raises(ctx: Any, input: Any) -> None:
    await ctx.step.run("charge", print)
    raise ValueError("no")


async def returns(ctx: Any, input: Any) -> None:
    await ctx.step.run("charge", print)


def function_blocked(reason: SuspendReason) -> NodeResult:
    return function(FunctionBlocked(reason, "why", refused_by="digest"))


def failed_for_good() -> NodeResult:
    failure = RunError("HANDLER_ERROR", "ValueError", "no")
    return function(Failed(failure, retryable=False, suspends=True))


RETRIED = {"retry": {"maxAttempts": 3}}


@pytest.mark.parametrize(
    ("options", "stimuli", "code", "notes"),
    [
        ({}, [function_blocked(SuspendReason.NONDETERMINISM)], renamed, ["its code does not match its log"]),
        ({}, [function_blocked(SuspendReason.DEFINITION_ERROR)], misspelled, ["calls a step in an invalid way"]),
        ({}, [failed_for_good()], raises, []),
        (RETRIED, [raised()], raises, []),
        (RETRIED, [raised()], returns, []),
        ({}, [], returns, []),
    ],
    ids=["changed code", "an invalid call", "suspended by its error", "to be retried", "repaired", "about to return"],
)
async def test_an_open_run_may_be_about_to_end_or_wait_for_other_code(
    options: dict[str, Any], stimuli: list[NodeResult], code: Any, notes: list[str]
) -> None:
    run = Coded(**options).then(done("charge"), *stimuli)
    history = RecordedHistory(run.head, run.status.value, {"workflowOptions": options}, run.log)

    verified = await verify_history(history, builtin_types(), WorkflowRegistry([Workflow("spec", 1, code, {})]))

    assert verified.findings == ()
    assert len(verified.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, verified.notes, strict=True))


@pytest.mark.parametrize("interruption", [asyncio.CancelledError, SystemExit, GeneratorExit])
async def test_a_function_that_raises_an_interruption_is_held_against_its_log(
    interruption: type[BaseException],
) -> None:
    async def interrupts(ctx: Any, input: Any) -> None:
        await ctx.step.run("charge", print)
        raise interruption("mine")

    failure = RunError("HANDLER_ERROR", qualified_name(interruption), "mine")
    run = Coded().then(done("charge"), function(Failed(failure, retryable=False)))
    history = RecordedHistory(run.head, run.status.value, {"workflowOptions": {}}, run.log)

    verified = await verify_history(history, builtin_types(), WorkflowRegistry([Workflow("spec", 1, interrupts, {})]))
    otherwise = await verify_history(history, builtin_types(), WorkflowRegistry([Workflow("spec", 1, returns, {})]))

    assert (verified.findings, verified.notes) == ((), ())
    assert [finding.code for finding in otherwise.findings] == [FindingCode.STEP_DIFFERS]


async def test_an_error_whose_cause_cannot_be_read_is_held_against_its_log() -> None:
    class Fragile(Exception):
        @property
        def __cause__(self) -> BaseException | None:
            raise RuntimeError("no cause")

    async def fragile(ctx: Any, input: Any) -> None:
        await ctx.step.run("charge", print)
        raise Fragile("mine")

    failure = RunError("HANDLER_ERROR", qualified_name(Fragile), "mine")
    run = Coded().then(done("charge"), function(Failed(failure, retryable=False)))
    history = RecordedHistory(run.head, run.status.value, {"workflowOptions": {}}, run.log)

    verified = await verify_history(history, builtin_types(), WorkflowRegistry([Workflow("spec", 1, fragile, {})]))

    assert (verified.findings, verified.notes) == ((), ())


async def test_an_open_run_that_waits_is_not_about_to_end() -> None:
    run = Coded().then(done("charge"), suspended(sleeps("nap", 1_000)))
    history = RecordedHistory(run.head, run.status.value, {"workflowOptions": {}}, run.log)

    verified = await verify_history(history, builtin_types(), WorkflowRegistry([Workflow("spec", 1, returns, {})]))

    assert [finding.code for finding in verified.findings] == [FindingCode.STEP_DIFFERS]


@pytest.mark.parametrize("arguments", [[], ["--all", "--history", "x.json"], ["an-id", "--all"]])
def test_one_thing_is_verified(anabranch: Command, arguments: list[str]) -> None:
    printed = anabranch("verify", *arguments)
    assert (printed.code, "name one run, or --all, or --history" in printed.err) == (2, True)


def test_runs_that_would_go_another_way_on_a_draft_are_named_with_the_node(
    anabranch: Command, write: Write, recorded: list[str]
) -> None:
    write("draft.json", draft(size={"branches": [{"id": "big", "expression": "{{ctx.input.n > 2}}"}]}))

    printed = anabranch("replay", "--graph", "draft.json", "--json")

    found = printed.document
    assert (printed.code, found["runs"], found["same"], found["different"], found["unknown"]) == (1, 2, 1, 1, 0)
    (run,) = found["listed"]
    assert run["instanceID"] == recorded[0]
    assert [(each["kind"], each["nodeID"]) for each in run["differences"]] == [
        ("OUTCOME", "size"),
        ("ONLY_NOW", "slow"),
        ("ONLY_THEN", "quick"),
    ]
    assert "it completed by 'else', and would complete by 'big'" in anabranch("replay", "--graph", "draft.json").out


def test_a_run_that_has_not_begun_takes_no_other_path(anabranch: Command, write: Write, recorded: list[str]) -> None:
    anabranch("runs", "start", "branch", "--input", '{"n": 1}')

    found = anabranch("replay", "--graph", write("draft.json", draft()), "--last", "1", "--json")

    assert (found.code, found.document["runs"], found.document["same"]) == (0, 1, 1)


def test_where_the_log_cannot_tell_is_said(anabranch: Command, write: Write, recorded: list[str]) -> None:
    write("draft.json", draft(quick={"duration": 2}))

    told, strict = (
        anabranch("replay", "--graph", "draft.json"),
        anabranch("replay", "--graph", "draft.json", "--strict"),
    )

    assert (told.code, strict.code) == (0, 1)
    assert "UNKNOWN at quick: its config is another one" in told.out
    assert told.out.endswith("2 runs: 1 would take the same path, 0 would take another path, 1 undecided\n")


def test_other_outputs_on_the_same_way_are_listed(anabranch: Command, write: Write, recorded: list[str]) -> None:
    write("draft.json", draft(end={"outputParameters": {"n": "{{ctx.input.n + 1}}"}}))

    found = anabranch("replay", "--graph", "draft.json", "--json").document

    assert (found["same"], found["different"]) == (2, 0)
    assert [(each["kind"], each["nodeID"]) for each in found["listed"][0]["differences"]] == [("VALUE", "end")]


def test_runs_are_replayed_on_a_saved_version(anabranch: Command, write: Write, recorded: list[str]) -> None:
    write("draft.json", draft(size={"branches": [{"id": "big", "expression": "{{false}}"}]}))
    anabranch("workflows", "import", "draft.json")

    first, second = (anabranch("replay", "--workflow", "branch", "--version", n, "--json") for n in ("1", "2"))

    assert (first.code, first.document["same"]) == (0, 2)
    assert (second.code, second.document["different"], second.document["listed"][0]["instanceID"]) == (
        1,
        1,
        recorded[1],
    )


@pytest.mark.parametrize(
    ("old", "new", "step", "message"),
    [
        ('"charge", charge', '"pay", charge', "charge", "without having asked for charge"),
        (
            "return {",
            'await ctx.step.run("ship", charge, 1)\n    return {',
            "ship",
            "it asks for 'ship', which the log",
        ),
        (
            '"nap", "10ms")',
            '"nap", "10ms")\n    raise ValueError("no")',
            "",
            "it raises ValueError (no), and its log has",
        ),
        ('{"paid": paid}', '{"paid": 7}', "", 'it returns {"paid":7}, and its log has {"paid":1}'),
        ('charge, input["n"]', 'charge, input["n"] + 1', "charge", "charge"),
    ],
    ids=["another step", "one step more", "an exception", "another output", "other arguments"],
)
def test_coded_runs_are_replayed_with_other_code(
    anabranch: Command, recorded: list[str], old: str, new: str, step: str, message: str
) -> None:
    Path("draft.py").write_text(SHOP.replace(old, new))

    printed = anabranch("replay", "--code", "draft.py", "--workflow", "shop", "--json")

    (run,) = printed.document["listed"]
    assert (printed.code, run["agreement"]) == (1, "different")
    assert run["differences"][0]["nodeID"] == step
    assert message in run["message"]
    assert Path("effects").read_text() == "charged\n", "a replay has executed a step"


def test_the_same_code_goes_the_same_way(anabranch: Command, recorded: list[str]) -> None:
    printed = anabranch("replay", "--code", "app.py", "--workflow", "shop")
    assert (printed.code, printed.out) == (
        0,
        "1 run: 1 would take the same path, 0 would take another path, 0 undecided\n",
    )


def test_histories_are_files(anabranch: Command, write: Write, recorded: list[str]) -> None:
    exported = anabranch("runs", "export", "--workflow", "branch", "--output", "histories", "--json").document["files"]
    Path("one.json").write_text(anabranch("runs", "export", recorded[2]).out)
    Path(".anabranch").rename("gone")
    write("draft.json", draft(size={"branches": [{"id": "big", "expression": "{{ctx.input.n > 2}}"}]}))
    files = [argument for file in exported for argument in ("--history", file)]

    assert sorted(Path(file).stem for file in exported) == sorted(recorded[:2])
    assert anabranch("verify", *files).code == 0
    assert anabranch("replay", "--graph", "draft.json", *files, "--json").document["different"] == 1
    assert anabranch("replay", "--code", "app.py", "--history", "one.json", "--json").document["same"] == 1


@pytest.mark.parametrize(
    ("change_log", "verified", "replayed"),
    [
        (lambda log: log.pop(1), (1, "SEQ_BROKEN"), (0, "its log is not as defined (row ")),
        (lambda log: log[0].update(payload=7), (1, "ROW_UNREADABLE"), (0, "its log is not as defined (row 1")),
        (lambda log: log[1].update(seq="2"), (2, "/log/1: seq is '2'"), (2, "/log/1: seq is '2'")),
        (lambda log: log[1].pop("scope"), (2, "/log/1: 'scope' is missing"), (2, "/log/1: 'scope' is missing")),
    ],
)
def test_a_history_that_somebody_changed_is_named_and_no_defect_of_ours(
    anabranch: Command,
    recorded: list[str],
    change_log: Callable[[list[Any]], object],
    verified: tuple[int, str],
    replayed: tuple[int, str],
) -> None:
    document = json.loads(anabranch("runs", "export", recorded[2]).out)
    change_log(document["log"])
    Path("changed.json").write_text(json.dumps(document))
    of_verify = anabranch("verify", "--history", "changed.json", "--import", "app.py")
    of_replay = anabranch("replay", "--code", "app.py", "--history", "changed.json")
    for told, (code, words) in ((of_verify, verified), (of_replay, replayed)):
        assert told.code == code
        assert words in told.out + told.err


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"run": {}, "definition": {}, "log": []}'])
def test_a_file_that_is_no_history_is_refused(anabranch: Command, folder: Path, content: str) -> None:
    (folder / "x.json").write_text(content)
    printed = anabranch("verify", "--history", "x.json")
    assert printed.code == 2
    assert "x.json" in printed.err and len(printed.err.splitlines()) <= 2


def test_a_function_that_is_called_with_its_log_is_silent(anabranch: Command, recorded: list[str]) -> None:
    for command in (("verify", recorded[2], "--import", "app.py"), ("replay", recorded[2], "--code", "app.py")):
        printed = anabranch(*command)
        forget()
        assert printed.code == 0
        assert "the function" not in printed.out + printed.err


def test_functions_of_the_engine_itself_are_not_asked_for(anabranch: Command, recorded: list[str]) -> None:
    for name in (BULK_NAME, check_name("shop")):
        change("UPDATE workflow_instances SET workflow_name = ? WHERE instance_id = ?", name, recorded[2])
        assert anabranch("verify", "--all", "--json").document["notes"] == []
        strict = anabranch("replay", "--code", "app.py", "--strict", "--json")
        forget()
        assert (strict.code, strict.document["runs"], strict.document["unknown"]) == (0, 0, 0)


def test_a_workflow_whose_name_begins_like_that_of_bulk_runs_is_asked_for(
    anabranch: Command, recorded: list[str]
) -> None:
    name = f"{BULK_NAME}-mailing"
    change("UPDATE workflow_instances SET workflow_name = ? WHERE instance_id = ?", name, recorded[2])
    assert len(anabranch("verify", "--all", "--json").document["notes"]) == 1
    strict = anabranch("replay", "--code", "app.py", "--strict", "--json")
    assert (strict.code, strict.document["runs"], strict.document["unknown"]) == (1, 1, 1)
