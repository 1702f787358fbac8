"""`workflows`, `runs`, `validate`, `migrate`, `doctor`, `version`: every command answers people and programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.activation_table import ActivationTable
from tests.cli.conftest import GREETING, WAITING, Command, chain

Write = Callable[[str, Any], Path]
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def greeted(anabranch: Command, write: Write) -> str:
    """The id of a run of `greeting` that COMPLETED."""
    run = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}', "--json")
    return str(run.document["instanceID"])


@pytest.fixture
def waiting(anabranch: Command, write: Write) -> str:
    """The id of a PENDING run of `waiting`."""
    anabranch("workflows", "import", write("waiting.json", WAITING))
    return str(anabranch("runs", "start", "waiting", "--json").document["instanceID"])


def test_a_run_is_shown_with_its_nodes(anabranch: Command, greeted: str) -> None:
    run = anabranch("runs", "show", greeted, "--json").document

    assert run["input"] == {"name": "Ada"}
    assert [(node["nodeID"], node["status"]) for node in run["nodes"]] == [
        ("start", "success"), ("greet", "success"), ("end", "success")
    ]  # fmt: skip
    assert "COMPLETED" in anabranch("runs", "show", greeted).out


def test_the_log_ascends_by_seq(anabranch: Command, greeted: str) -> None:
    events = anabranch("runs", "log", greeted, "--json").document["items"]

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["eventType"], events[-1]["eventType"]) == ("INPUT_SET", "INSTANCE_COMPLETED")
    assert anabranch("runs", "log", greeted, "--after", "2", "--json").document["items"] == events[2:]
    assert "INSTANCE_COMPLETED" in anabranch("runs", "log", greeted).out


def test_paging_shows_every_run_once_newest_first(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    started = [anabranch("runs", "start", "greeting", "--json").document["instanceID"] for _ in range(3)]

    pages: list[str] = []
    cursor = None
    while True:
        further = () if cursor is None else ("--cursor", cursor)
        page = anabranch("runs", "list", "--limit", "1", "--json", *further).document
        pages.extend([item["instanceID"] for item in page["items"]])
        cursor = page["nextCursor"]
        if cursor is None:
            break

    assert pages == sorted(started, reverse=True)


def test_runs_are_listed_by_workflow_and_status(anabranch: Command, greeted: str, waiting: str) -> None:
    def listed(*options: str) -> list[str]:
        return [item["instanceID"] for item in anabranch("runs", "list", "--json", *options).document["items"]]

    assert listed("--workflow", "greeting") == [greeted]
    assert listed("--status", "PENDING") == [waiting]
    assert listed("--status", "PENDING", "--status", "COMPLETED") == [waiting, greeted]
    assert listed("--since", "2999-01-01T00:00:00Z") == []
    assert listed("--tenant", "somebody-else") == []


def test_a_repeated_key_starts_no_second_run(anabranch: Command, waiting: str) -> None:
    first = anabranch("runs", "start", "waiting", "--key", "k", "--json").document["instanceID"]

    assert anabranch("runs", "start", "waiting", "--key", "k", "--json").document["instanceID"] == first != waiting


def test_cancelling_twice_is_harmless_and_an_ended_run_cannot_be(
    anabranch: Command, waiting: str, greeted: str
) -> None:
    for _ in range(2):
        assert anabranch("runs", "cancel", waiting, "--json").document["status"] == "CANCELLED"

    refused = anabranch("runs", "cancel", greeted)
    assert (refused.code, refused.err.split(":")[0]) == (1, "error RUN_IS_TERMINAL")
    assert anabranch("runs", "signal", waiting, "go").code == 1
    assert anabranch("runs", "watch", waiting).code == 1
    assert anabranch("runs", "watch", greeted).code == 0


def test_a_run_is_paused_and_resumed_by_hand(anabranch: Command, waiting: str, greeted: str) -> None:
    for _ in range(2):
        assert anabranch("runs", "pause", waiting, "--json").document["status"] == "SUSPENDED"
    (listed,) = anabranch("runs", "list", "--status", "SUSPENDED", "--json").document["items"]
    assert (listed["instanceID"], listed["suspendedFor"]) == (waiting, "PAUSED")
    shown = anabranch("runs", "show", waiting)
    assert "SUSPENDED" in shown.out and "PAUSED" in shown.out
    assert anabranch("runs", "signal", waiting, "go", "--payload", "1").code == 0

    assert anabranch("runs", "resume", waiting, "--json").document["status"] == "PENDING"
    assert anabranch("run", "--resume", waiting, "--json").document["output"] == {"last": 1}
    for verb in ("pause", "resume"):
        refused = anabranch("runs", verb, greeted)
        assert (refused.code, refused.err.split(":")[0]) == (1, "error RUN_IS_TERMINAL")


def test_a_signal_is_kept_until_something_waits(anabranch: Command, waiting: str) -> None:
    assert anabranch("runs", "signal", waiting, "go", "--payload", "1", "--json").document == {"delivered": False}
    assert anabranch("run", "--resume", waiting, "--json").document["output"] == {"last": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "show", NOBODY), ("runs", "log", NOBODY), ("runs", "cancel", NOBODY), ("runs", "watch", NOBODY),
        ("runs", "show", "no uuid"), ("runs", "signal", NOBODY, "go"), ("runs", "start", "absent"),
        ("workflows", "show", "absent"), ("workflows", "export", "absent"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_to_be_absent(anabranch: Command, arguments: tuple[str, ...]) -> None:
    anabranch("migrate")
    assert anabranch(*arguments, "--json").document["error"]["code"] == "NOT_FOUND"
    assert anabranch(*arguments).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "list", "--limit", "0"), ("runs", "list", "--status", "SLEEPING"), ("runs", "list", "--cursor", "x"),
        ("runs", "list", "--since", "yesterday"), ("runs", "start", "w", "--available-at", "2030-01-01T00:00:00"),
        ("runs",), ("workflows",), ("nonsense",), (), ("runs", "list", "--tenant", ""),
    ],
)  # fmt: skip
def test_misuse_is_refused_with_a_hint(anabranch: Command, arguments: tuple[str, ...]) -> None:
    anabranch("migrate")
    refused = anabranch(*arguments)

    assert refused.code == 2
    assert "error INVALID_REQUEST: " in refused.err
    assert "hint: " in refused.err or "--tenant" in refused.err


def test_what_is_exported_can_be_imported_again(anabranch: Command, greeted: str, folder: Path) -> None:
    assert anabranch("workflows", "export", "greeting").document == GREETING
    assert anabranch("workflows", "export", "greeting", "--output", "copy.json").code == 0

    again = anabranch("workflows", "import", "copy.json", "--json").document["items"]

    assert [(item["name"], item["version"]) for item in again] == [("greeting", 1)]
    assert anabranch("workflows", "show", "greeting", "--json").document["nodes"] == GREETING["nodes"]


def test_what_is_shown_as_json_can_be_imported_again(anabranch: Command, write: Write) -> None:
    rich = {**GREETING, "title": "Greeting", "viewport": {"x": 1}, "x-team": ["blue", 1]}
    anabranch("workflows", "import", write("rich.json", rich))
    shown = write("shown.json", anabranch("workflows", "show", "greeting", "--json").document)

    again = anabranch("workflows", "import", shown)

    assert (again.code, again.out, again.err) == (0, "greeting is saved as version 1\n", "")
    assert anabranch("workflows", "export", "greeting").document == rich


def test_a_file_is_the_whole_workflow(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("rich.json", {**GREETING, "title": "Greeting", "x-team": "blue"}))

    assert anabranch("run", write("plain.json", GREETING), "--input", '{"name": "Ada"}').code == 0

    assert anabranch("workflows", "export", "greeting").document == GREETING


def test_an_export_of_n8n_is_recognised(anabranch: Command, write: Write) -> None:
    node = {"parameters": {}, "id": "1", "name": "Set", "type": "n8n-nodes-base.set", "position": [0, 0]}
    file = write("n8n.json", {"name": "Mine", "nodes": [node], "connections": {}})
    for command in (("validate", file), ("workflows", "import", file), ("run", file)):
        refused = anabranch(*command)
        assert refused.code == 2, command
        assert "N8N_WORKFLOW" in refused.out + refused.err, command


def test_nothing_is_imported_if_one_file_is_invalid(anabranch: Command, write: Write) -> None:
    refused = anabranch("workflows", "import", write("a.json", GREETING), write("b.json", {"nodes": [], "edges": []}))

    assert refused.code == 2
    assert "b.json" in refused.err
    assert anabranch("workflows", "list", "--json").document["items"] == []


def test_validation_lists_every_problem_with_its_place(anabranch: Command, write: Write, folder: Path) -> None:
    assert anabranch("validate", write("greeting.json", GREETING)).code == 0
    assert not (folder / ".anabranch").exists(), "validation needs no database"
    nodes = [{"id": "a", "type": "nonsense"}, {"id": "b", "type": "nonsense"}]

    refused = anabranch("validate", write("bad.json", {"nodes": nodes, "edges": []}), "--json")

    assert refused.code == 2
    assert refused.document["valid"] is False
    assert {(error["code"], error.get("nodeID")) for error in refused.document["errors"]} >= {
        ("UNKNOWN_TYPE", "a"), ("UNKNOWN_TYPE", "b"), ("NO_START", None)
    }  # fmt: skip
    assert "error UNKNOWN_TYPE in node a: " in anabranch("validate", "bad.json").out


def test_an_empty_database_is_migrated_once(anabranch: Command) -> None:
    assert anabranch("doctor", "--json").document["database"]["schema"] is None

    first, second = anabranch("migrate", "--json").document, anabranch("migrate", "--json").document

    assert first["before"] is None
    assert second == {"before": first["after"], "after": first["after"]}
    assert anabranch("doctor", "--json").document["database"]["schema"] == first["after"]


def test_doctor_tells_what_seals_code_nodes(anabranch: Command) -> None:
    assert {"seccomp", "landlock", "rlimits"} <= set(anabranch("doctor", "--json").document["sandbox"])
    assert "code nodes are sealed by" in anabranch("doctor").out


def test_doctor_hides_passwords_and_tells_that_the_database_is_away(anabranch: Command) -> None:
    printed = anabranch("doctor", "--database-url", "postgresql://u:hunter2@127.0.0.1:1/x", "--json")

    assert printed.code == 1
    assert printed.document["database"]["error"]["code"] == "STORE_UNAVAILABLE"
    assert "hunter2" not in printed.out


def test_a_database_that_is_away_exits_1(anabranch: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_WAIT", "0")

    printed = anabranch("runs", "list", "--database-url", "postgresql://127.0.0.1:1/x")

    assert printed.code == 1
    assert printed.err.startswith("error STORE_UNAVAILABLE: ")


def test_a_deadline_of_a_retry_is_text_with_a_unit_above_zero(anabranch: Command, write: Write) -> None:
    fails = {"id": "call", "type": "workflow", "config": {"workflow": "later"}}
    run_id = anabranch("run", write("fails.json", chain("fails", fails)), "--json").document["instanceID"]

    number, zero = (anabranch("runs", "retry", run_id, "--dry-run", "--deadline", given) for given in ("5000", "0s"))

    assert (number.code, zero.code) == (2, 2)
    assert "error INVALID_REQUEST: --deadline: '5000' is not a duration: write `500ms`, `5s`" in number.err
    assert "error INVALID_REQUEST: the deadline of a retry must be longer than 0" in zero.err
    assert anabranch("runs", "retry", run_id, "--dry-run", "--deadline", "2h").code == 0


def test_version(anabranch: Command) -> None:
    assert anabranch("version").out.startswith("anabranch 0.1.0 ")
    assert anabranch("version", "--json").document["version"] == "0.1.0"


def test_somebodys_text_cannot_move_the_cursor(anabranch: Command, write: Write) -> None:
    sly = {**GREETING, "title": "\x1b[2J gone"}
    assert anabranch("workflows", "import", write("sly.json", sly)).code == 0

    listed = anabranch("workflows", "list").out
    assert "[2J gone" in listed
    assert "\x1b" not in listed


def test_a_refused_input_is_told_with_its_place(anabranch: Command, write: Write) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["id"]}
    file = write("strict.json", {**GREETING, "workflowOptions": {"inputSchema": schema}})
    anabranch("workflows", "import", file)
    for command in (("run", file), ("run", "greeting"), ("runs", "start", "greeting")):
        refused = anabranch(*command, "--input", '{"name": 7}')
        assert refused.code == 2
        assert refused.err.startswith("error INVALID_INPUT: the input does not fit the workflow's inputSchema")
        assert "  at /name: 7 is not of type 'string'" in refused.err
        assert "  at the root: 'id' is a required property" in refused.err


def test_a_lone_problem_is_told_once(anabranch: Command, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write("strict.json", {**GREETING, "workflowOptions": {"inputSchema": {"required": ["id"]}}})
    strange = write("strange.json", chain("strange", {"id": "a", "type": "zzzzzz"}))

    refused = anabranch("run", file, "--input", "{}").err.splitlines()
    unknown = anabranch("workflows", "import", strange).err.splitlines()
    monkeypatch.setenv("ANABRANCH_LEASE", "1ms")
    one_setting = anabranch("runs", "list").err.splitlines()
    monkeypatch.setenv("ANABRANCH_CONCURRENCY", "0")
    two_settings = anabranch("runs", "list").err.splitlines()

    assert [line.split(" ")[0] for line in refused] == ["error", "hint:"]
    assert unknown[1].startswith("  UNKNOWN_TYPE in node a: ")
    assert [line.split(" ")[0] for line in one_setting] == ["error", "hint:"]
    assert [line.split(":")[0] for line in two_settings[1:3]] == ["  ANABRANCH_LEASE", "  ANABRANCH_CONCURRENCY"]


def test_a_problem_is_told_with_what_to_do(anabranch: Command, write: Write) -> None:
    document = {**GREETING, "inputSchema": {}}
    document["nodes"] = [{**GREETING["nodes"][1], "type": "sett"}, *GREETING["nodes"][::2]]
    told = anabranch("validate", write("near.json", document)).out
    assert "UNKNOWN_TYPE in node greet: " in told and "(Did you mean 'set'?)" in told
    assert "UNKNOWN_FIELD at /inputSchema: " in told and "('inputSchema' belongs in workflowOptions.)" in told


def test_an_unknown_type_is_told_with_how_to_import_it(anabranch: Command, write: Write) -> None:
    known = {**GREETING, "nodes": [{**GREETING["nodes"][1], "type": "sett"}, *GREETING["nodes"][::2]]}
    strange = chain("strange", {"id": "a", "type": "zzzzzz"}, {"id": "b", "type": "zzzzzz"})
    hint = "hint: Pass `--import FILE` with the file that declares it; a server takes that"

    near, far = anabranch("validate", write("near.json", known)), anabranch("validate", write("far.json", strange))
    anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}')
    replayed = anabranch("replay", "--graph", "far.json")
    saved = anabranch("workflows", "import", "far.json")

    assert "'sett', which is not registered (Did you mean 'set'?)" in near.out
    for told in (far.out, replayed.err, saved.err):
        assert told.count("registered types is similar: import this one.") == 2
        assert "waitForEvent" not in told, "the types are not listed"
    for told in (near.out, far.out, replayed.err, saved.err):
        assert told.count(hint) == 1
    assert "--import" not in anabranch("validate", "greeting.json").out


def test_iterations_are_folded_and_failures_come_first(anabranch: Command, write: Write) -> None:
    each = {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}", "onItemError": "collect"}}
    body = {"id": "divide", "type": "set", "config": {"values": {"q": "{{1 / ctx.item}}"}}, "retry": {"maxAttempts": 1}}
    edges = [("start", None, "each"), ("each", "loop", "divide"), ("divide", None, "each")]
    document = {
        "name": "divide",
        "nodes": [{"id": "start", "type": "start"}, each, body],
        "edges": [
            {"upstreamNodeID": source, "sourceHandle": handle, "downstreamNodeID": target}
            for source, handle, target in edges
        ],
    }
    numbers = [number % 10 for number in range(25)]
    run = anabranch("run", write("divide.json", document), "--input", json.dumps(numbers), "--json").document
    shown = anabranch("runs", "show", run["instanceID"]).out
    failures, nodes = shown[shown.index("3 failed:") :].split("\n\n")
    assert [line.split()[:4] for line in failures.splitlines()[2:]] == [
        ["divide", f"each[{number}]", "1", "TEMPLATE_ERROR"] for number in (0, 10, 20)
    ]
    assert [line.split()[:4] for line in nodes.splitlines()[1:]] == [
        ["start", "-", "success", "1"],
        ["each", "-", "success", "1"],
        ["divide", "each[*]", "3", "error,"],
    ]
    assert "3 error, 22 success" in nodes


def test_failures_late_in_a_long_loop_are_listed(anabranch: Command, write: Write) -> None:
    nodes = [
        {"id": "start", "type": "start"},
        {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 50, "onItemError": "skip"}},
        {"id": "divide", "type": "set", "config": {"values": {"part": "{{12 / ctx.item}}"}}},
    ]
    edges = [
        {"upstreamNodeID": "start", "downstreamNodeID": "each"},
        {"upstreamNodeID": "each", "sourceHandle": "loop", "downstreamNodeID": "divide"},
        {"upstreamNodeID": "divide", "downstreamNodeID": "each"},
    ]
    file = write("divide.json", {"name": "divide", "nodes": nodes, "edges": edges})
    run = anabranch("run", file, "--input", json.dumps([1] * 1_100 + [0]), "--json").document

    shown = anabranch("runs", "show", run["instanceID"]).out

    told = [line.split() for line in shown[shown.index("1 failed:") :].splitlines()]
    assert ["divide", "each[1100]", "1", "TEMPLATE_ERROR"] in [words[:4] for words in told]
    assert ["divide", "each[*]", "1100", "success,", "1", "error", "1"] in [words[:7] for words in told]


def test_repeats_of_a_coded_step_are_folded_beside_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    def step(scope: str) -> dict[str, Any]:
        told = {"startedAt": "t1", "endedAt": "t2", "waitsFor": None}
        return {"nodeID": "fetch", "scope": scope, "status": "success", "attempt": 1, "error": None, **told}

    table = ActivationTable()
    table.add([step(scope) for scope in ("", "#2")])
    table.print_out()
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["fetch", "-", "success"],
        ["fetch", "#2", "success"],
    ]
    table.add([step("#3")])
    table.print_out()
    assert "fetch   #*     2 success" in capsys.readouterr().out
