"""`anabranch run`: from a file to an output and an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import GREETING, WAITING, Command, chain
from tests.hardening.command_line import PATIENCE_S

WAITING_SHORTLY = chain("waiting-shortly", {"id": "wait", "type": "delay", "config": {"duration": "1ms"}})

Write = Callable[[str, Any], Path]


def test_a_run_ends_with_its_output_and_how_to_read_it_again(anabranch: Command, write: Write) -> None:
    printed = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}')

    assert printed.code == 0
    assert '"text": "Hello Ada"' in printed.out
    instance_id = printed.out.split("read it again: anabranch runs show ")[1].strip()
    assert anabranch("runs", "show", instance_id, "--json").document["status"] == "COMPLETED"


def test_runs_that_the_command_line_begins_name_it_and_no_key(anabranch: Command, write: Write) -> None:
    started = anabranch("run", write("waiting.json", WAITING_SHORTLY), "--json").document["instanceID"]
    forked = anabranch("runs", "fork", started, "--node", "wait", "--json").document["instanceID"]

    for instance_id in (started, forked):
        assert anabranch("runs", "show", instance_id, "--json").document["startedBy"] == {"kind": "cli"}


def test_json_is_one_document(anabranch: Command, write: Write) -> None:
    printed = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}', "--json", "--watch")

    assert printed.document["output"] == {"last": {"text": "Hello Ada"}}
    assert (printed.document["status"], printed.document["error"]) == ("COMPLETED", None)


def test_the_input_may_be_in_a_file(anabranch: Command, write: Write) -> None:
    write("input.json", {"name": "Bo"})

    printed = anabranch("run", write("greeting.json", GREETING), "--input", "@input.json", "--json")

    assert printed.document["output"] == {"last": {"text": "Hello Bo"}}


def test_a_file_is_saved_under_its_name_and_again_only_if_it_changed(anabranch: Command, write: Write) -> None:
    file = write("greeting.json", GREETING)
    for _ in range(2):
        anabranch("run", file, "--input", '{"name": "Ada"}')
    assert [item["version"] for item in anabranch("workflows", "list", "--json").document["items"]] == [1]

    anabranch("run", write("greeting.json", {**GREETING, "title": "New"}), "--input", '{"name": "Ada"}')

    assert [item["version"] for item in anabranch("workflows", "list", "--json").document["items"]] == [2]
    assert anabranch("run", "greeting", "--input", '{"name": "Ada"}').code == 0


def test_a_run_begins_at_the_only_trigger_or_at_the_one_that_is_named(anabranch: Command, write: Write) -> None:
    end = {"id": "end", "type": "end", "config": {"outputParameters": {"id": "{{ctx.input.json.id}}"}}}
    hook = {"id": "hook", "type": "webhook", "config": {"path": "run-at-hook"}}
    told = {"id": "told", "type": "failure"}
    only = {
        "name": "run-at-only",
        "nodes": [hook, end],
        "edges": [{"upstreamNodeID": "hook", "downstreamNodeID": "end"}],
    }
    several = {**only, "nodes": [hook, told, end]}
    several["edges"] = [*only["edges"], {"upstreamNodeID": "told", "downstreamNodeID": "end"}]
    payload = ("--input", '{"json": {"id": 7}}', "--json")

    assert anabranch("run", write("only.json", only), *payload).document["output"] == {"id": 7}
    unclear = anabranch("run", write("several.json", several), *payload)
    assert (unclear.code, unclear.document["error"]["code"]) == (2, "NO_MANUAL_START")
    assert "hook (webhook), told (failure)" in unclear.document["error"]["message"]
    assert "--trigger hook" in unclear.document["error"]["hint"]
    shown = anabranch("workflows", "show", "run-at-only").out
    assert "begins by requests to /hooks/TENANT/run-at-hook (node hook)" in shown
    assert "begins by failed runs of any workflow (node told)" in shown
    named = anabranch("run", "run-at-only", "--trigger", "hook", *payload)
    assert named.document["output"] == {"id": 7}
    wrong = anabranch("run", "run-at-only", "--trigger", "end", *payload)
    assert wrong.document["error"]["code"] == "UNKNOWN_TRIGGER"
    assert anabranch("run", "--resume", "x", "--trigger", "hook").code == 2


def test_a_run_that_fails_exits_1_and_says_where(anabranch: Command, write: Write) -> None:
    printed = anabranch("run", write("greeting.json", GREETING))

    assert printed.code == 1
    assert printed.err.startswith("error TEMPLATE_PATH_MISSING: ")
    assert "(node greet, attempt 1)" in printed.err
    assert "FAILED" in printed.out


def test_without_a_terminal_watching_prints_a_line_for_each_step(anabranch: Command, write: Write) -> None:
    printed = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}', "--watch")

    shown = [line.split()[1:] for line in printed.out.splitlines() if line.startswith("20")]
    assert shown == [[state, node] for node in ("start", "greet", "end") for state in ("running", "success")]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run"], "INVALID_REQUEST", "nothing to run"),
        (["run", "absent.json"], "INVALID_REQUEST", "no such file"),
        (["run", "absent"], "NOT_FOUND", "no workflow 'absent'"),
        (["run", "broken.json"], "BAD_JSON", "line 1, column 2"),
        (["run", "invalid.json"], "INVALID_WORKFLOW", "start"),
        (["run", "greeting.json", "--input", "{"], "BAD_JSON", "--input"),
        (["run", "greeting.json", "--input", "@absent.json"], "INVALID_REQUEST", "absent.json cannot be read"),
        (["run", "greeting.json", "--unknown"], "INVALID_REQUEST", "--unknown"),
        (["run", "--resume", "x", "--input", "{}"], "INVALID_REQUEST", "keeps its input"),
        (["run", "--resume", "00000000-0000-7000-8000-000000000000"], "NOT_FOUND", "no run"),
        (["run", "greeting.json", "--import", "absent.py"], "INVALID_REQUEST", "--import absent.py"),
        (["replay", "--code", "absent.py"], "INVALID_REQUEST", "--code absent.py"),
        (["run", "greeting.json", "--database-url", "mysql://x/y"], "INVALID_SETTING", "--database-url"),
        (["runs", "list", "--status", "ended"], "INVALID_REQUEST", "'--status': 'ended' is not one of 'pending'"),
    ],
)
def test_what_must_be_corrected_exits_2_in_one_line(
    anabranch: Command, write: Write, arguments: list[str], code: str, message: str
) -> None:
    anabranch("migrate")
    write("greeting.json", GREETING)
    write("invalid.json", {"nodes": [], "edges": []})
    Path("broken.json").write_text("{")

    for_people, for_programs = anabranch(*arguments), anabranch(*arguments, "--json")

    assert (for_people.code, for_programs.code) == (2, 2)
    assert for_people.err.splitlines()[0].startswith(f"error {code}: ")
    assert message in for_people.err.splitlines()[0]
    assert "Traceback" not in for_people.err
    assert for_people.out == ""
    assert for_programs.document["error"]["code"] == code


def test_ctrl_c_gives_the_run_back_and_resume_takes_it_up(anabranch: Command, write: Write, folder: Path) -> None:
    file = write("waiting.json", WAITING)
    command = [sys.executable, "-m", "anabranch", "run", str(file), "--watch"]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while "waiting" not in (line := process.stdout.readline()):
            assert line, "the run ended before it waited"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    instance_id = err.split("resume it: anabranch run --resume ")[1].strip()
    assert anabranch("runs", "signal", instance_id, "go", "--payload", "7", "--json").document == {"delivered": True}
    resumed = anabranch("run", "--resume", instance_id, "--json")
    assert resumed.document == {
        "instanceID": instance_id, "status": "COMPLETED", "output": {"last": 7}, "error": None
    }  # fmt: skip


def test_resuming_an_ended_run_tells_how_it_ended(anabranch: Command, write: Write) -> None:
    first = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}', "--json")

    again = anabranch("run", "greeting.json", "--resume", first.document["instanceID"], "--json")

    assert again.document == first.document
    write("other.json", chain("other"))
    assert "not of other" in anabranch("run", "other.json", "--resume", first.document["instanceID"]).err


def test_only_its_own_run_is_advanced(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    other = anabranch("runs", "start", "greeting", "--input", '{"name": "Bo"}', "--json").document["instanceID"]

    anabranch("run", "greeting", "--input", '{"name": "Ada"}')

    assert anabranch("runs", "show", other, "--json").document["status"] == "PENDING"


def test_a_run_advances_the_runs_that_it_starts(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    config = {"workflow": "greeting", "input": {"name": "{{ctx.input.name}}"}}
    calls = chain("calls", {"id": "call", "type": "workflow", "config": config, "outputVariable": "last"})

    printed = anabranch("run", write("calls.json", calls), "--input", '{"name": "Ada"}', "--json")

    assert printed.document["output"] == {"last": {"last": {"text": "Hello Ada"}}}
    child, parent = anabranch("runs", "list", "--json").document["items"]
    assert (child["parentID"], parent["parentID"]) == (printed.document["instanceID"], None)
    assert (child["name"], child["status"]) == ("greeting", "COMPLETED")
    alone = anabranch("run", "--resume", child["instanceID"])
    assert (alone.code, parent["instanceID"] in alone.err) == (2, True)


def test_node_types_of_ones_own_are_imported(anabranch: Command, write: Write) -> None:
    Path("whispering.py").write_text(
        "from anabranch import HandlerResult, node_type\n"
        "@node_type('whisper')\n"
        "class Whisper:\n"
        "    async def execute(self, config, context, helpers):\n"
        "        return HandlerResult(config['text'].lower())\n"
    )
    whisper = {"id": "whisper", "type": "whisper", "config": {"text": "HEY"}, "outputVariable": "last"}

    printed = anabranch("run", write("whisper.json", chain("whisper", whisper)), "--import", "whispering.py", "--json")

    assert printed.document["output"] == {"last": "hey"}


def test_a_fork_on_another_graph_imports_node_types_of_ones_own(anabranch: Command, write: Write) -> None:
    Path("mine.py").write_text(
        "from anabranch import HandlerResult, node_type\n"
        "@node_type('mutter')\n"
        "class Mutter:\n"
        "    async def execute(self, config, context, helpers):\n"
        "        return HandlerResult('mm')\n"
    )
    started = anabranch("run", write("waiting.json", WAITING_SHORTLY), "--json").document["instanceID"]
    graph = write("muttering.json", chain("muttering", {"id": "say", "type": "mutter"}))
    fork = ("runs", "fork", started, "--graph", f"@{graph}", "--dry-run")

    unknown, planned = anabranch(*fork), anabranch(*fork, "--import", "mine.py")

    assert unknown.code == 2 and "UNKNOWN_TYPE" in unknown.err
    assert planned.code == 0 and "  runs: say (" in planned.out


def test_a_failed_handler_is_told_with_the_line_of_its_author(anabranch: Command, write: Write) -> None:
    Path("breaking.py").write_text(
        "from anabranch import node_type\n"
        "@node_type('breaks')\n"
        "class Breaks:\n"
        "    async def execute(self, config, context, helpers):\n"
        "        return 1 / 0\n"
    )
    node = {"id": "breaks", "type": "breaks", "retry": {"maxAttempts": 1}}

    printed = anabranch("run", write("breaks.json", chain("breaks", node)), "--import", "breaking.py")
    (listed,) = anabranch("runs", "list", "--json").document["items"]
    shown = anabranch("runs", "show", listed["instanceID"])

    for text in (printed.err, shown.out):
        assert 'breaking.py", line 5, in execute\n    return 1 / 0\n' in text
    document = anabranch("runs", "show", listed["instanceID"], "--json").document
    assert document["nodes"][1]["error"]["traceback"] == document["error"]["traceback"]


def test_a_run_that_is_suspended_says_why_while_it_is_waited_for(anabranch: Command) -> None:
    Path("naps.py").write_text(
        "from anabranch import workflow\n"
        "@workflow(name='naps', deadline='1s')\n"
        "async def naps(ctx, input):\n"
        "    await ctx.step.sleep('nap', 'soon')\n"
    )

    printed = anabranch("run", "naps", "--import", "naps.py")

    told, hint = printed.err.splitlines()[:2]
    assert "is SUSPENDED: DEFINITION_ERROR: " in told and "'soon'" in told
    assert hint.startswith("hint: ")
    assert (printed.code, "DEADLINE_EXCEEDED" in printed.err) == (1, True)


def test_a_suspended_run_that_is_resumed_says_why_it_waits(anabranch: Command, write: Write, folder: Path) -> None:
    anabranch("workflows", "import", write("waiting.json", WAITING))
    run_id = anabranch("runs", "start", "waiting", "--json").document["instanceID"]
    anabranch("runs", "pause", run_id)
    command = [sys.executable, "-m", "anabranch", "run", "--resume", run_id]

    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told, hint = process.stderr.readline(), process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)

    assert told.startswith(f"run {run_id} is SUSPENDED: PAUSED: ")
    assert hint.startswith("hint: ")
    assert process.returncode == 130


def test_ctrl_c_works_while_an_absent_database_is_waited_for(write: Write, folder: Path) -> None:
    command = [sys.executable, "-m", "anabranch", "run", str(write("greeting.json", GREETING)), "--database-url"]
    with subprocess.Popen(
        [*command, "postgresql://127.0.0.1:1/x"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "waiting for the database" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130


def test_a_wait_is_told_with_the_command_that_ends_it_unless_its_signal_is_there(
    anabranch: Command, write: Write
) -> None:
    anabranch("workflows", "import", write("waiting.json", WAITING))
    run_id = anabranch("runs", "start", "waiting", "--json").document["instanceID"]
    anabranch("runs", "signal", run_id, "go")

    printed = anabranch("run", "--resume", run_id, "--watch")

    assert printed.code == 0
    assert "to send it" not in printed.out
