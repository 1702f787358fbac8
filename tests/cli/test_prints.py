"""With `--json` standard output has the document alone, whatever the code of users prints, and how."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import chain
from tests.hardening.command_line import EXECUTABLE, PATIENCE_S

# Prints in every way there is, at import, in a node, in a step: through Python, past Python, and left in C's buffer.
CHATTY = """
import ctypes, os, subprocess, sys
from anabranch import HandlerResult, node_type, workflow

def chatter(where):
    print(f"python {where}")
    sys.__stdout__.write(f"original {where}\\n")
    os.write(1, f"descriptor {where}\\n".encode())
    ctypes.CDLL(None).puts(f"library {where}".encode())
    subprocess.run(["echo", f"program {where}"], check=True)

chatter("import")

@node_type("chatty")
class Chatty:
    async def execute(self, config, context, helpers):
        chatter("node")
        return HandlerResult({"done": True})

async def talk():
    chatter("step")

@workflow(name="talks")
async def talks(ctx, input):
    await ctx.step.run("talk", talk)
    return "done"
"""

WAYS = ("python", "original", "descriptor", "library", "program")


@pytest.fixture
def chatty(folder: Path) -> Path:
    """A folder with code that prints, and a workflow that runs it."""
    (folder / "chatty.py").write_text(CHATTY)
    (folder / "flow.json").write_text(json.dumps(chain("flow", {"id": "node", "type": "chatty"})))
    return folder


def given(folder: Path, *arguments: str) -> tuple[Any, str]:
    """The document on standard output, and all of standard error."""
    done = subprocess.run(
        [EXECUTABLE, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("command", "places"),
    [
        (("run", "flow.json"), ("import", "node")),
        (("run", "flow.json", "--watch"), ("import", "node")),
        (("run", "talks"), ("import", "step")),
        (("validate", "flow.json"), ("import",)),
        (("workflows", "import", "flow.json"), ("import",)),
    ],
    ids=" ".join,
)
def test_the_document_is_alone(chatty: Path, command: tuple[str, ...], places: tuple[str, ...]) -> None:
    document, beside = given(chatty, *command, "--import", "chatty.py", "--json")

    assert isinstance(document, dict) and "error" not in {key for key, value in document.items() if value}
    for place in places:
        for way in WAYS:
            assert f"{way} {place}\n" in beside


def test_an_error_is_alone_too(chatty: Path) -> None:
    (chatty / "chatty.py").write_text(CHATTY + "\n1 / 0\n")

    document, beside = given(chatty, "run", "flow.json", "--import", "chatty.py", "--json")

    assert document["error"]["code"] == "INVALID_REQUEST"
    assert "library import\n" in beside


def test_a_long_running_process_prints_its_one_line_and_nothing_of_its_nodes(chatty: Path) -> None:
    given(chatty, "workflows", "import", "flow.json", "--import", "chatty.py", "--json")
    given(chatty, "runs", "start", "flow", "--json")
    worker = subprocess.Popen(
        [EXECUTABLE, "worker", "--import", "chatty.py", "--json"],
        cwd=chatty,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    for line in worker.stderr:
        if line == "program node\n":
            break
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=PATIENCE_S)

    assert list(json.loads(out)) == ["worker"]


def test_without_json_what_code_prints_is_where_it_was_sent(chatty: Path) -> None:
    done = subprocess.run(
        [EXECUTABLE, "run", "flow.json", "--import", "chatty.py"],
        cwd=chatty,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "python node\n" in done.stdout


def test_a_reader_who_has_seen_enough_is_no_fault(chatty: Path) -> None:
    given(chatty, "workflows", "import", "flow.json", "--import", "chatty.py", "--json")

    done = subprocess.run(
        ["bash", "-c", f"{EXECUTABLE} workflows show flow --json | head -c 1; exit ${{PIPESTATUS[0]}}"],
        cwd=chatty,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("{", "")
    assert done.returncode in (0, 1)
