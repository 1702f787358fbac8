"""What `make demo` and `make dev` start shows what README says of it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hardening.command_line import PATIENCE_S, Launched
from tests.processes.launching import Staying

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def arguments_of(target: str) -> list[str]:
    """What the Makefile gives to `anabranch`, with paths that lead there from anywhere."""
    found = re.search(rf"^{target}:.*\n\t\$\(ANABRANCH\) (.*)$", MAKEFILE, re.MULTILINE)
    assert found, f"the Makefile has no {target}"
    return found[1].replace("$(EXAMPLE)", str(ROOT / "examples" / "dependencies")).split()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Launched]:
    """The demo, in a folder of its own."""
    launched = Launched(arguments_of("demo"), tmp_path)
    yield launched
    launched.close()


def test_the_demo_tells_its_run_first_and_takes_the_signal_that_it_shows(demo: Launched, tmp_path: Path) -> None:
    begun = demo.saw("has begun")
    assert demo.lines[-1] == demo.lines[0] == begun
    (run_id,) = re.findall(r"^run (\S+) has begun$", begun)
    shown = shlex.split(demo.saw("approval waits for a signal; to send it: ").split("to send it: ")[1])

    assert shown[1:] == ["runs", "signal", run_id, "approve"]
    sent = subprocess.run(
        [*shown, "--payload", '{"by": "Ada"}'], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert (sent.returncode, sent.stdout) == (0, "approve is delivered to a wait\n"), sent.stderr
    assert demo.ended() == 0
    verified = subprocess.run([shown[0], "verify", "--all"], cwd=tmp_path, capture_output=True, text=True)
    assert verified.returncode == 0
    assert re.fullmatch(r"1 run with 2,\d\d\d rows: all as defined", verified.stdout.splitlines()[-1])
    assert '"by": "Ada"' in demo.text and "300 packages as of 2026-11" in demo.text


def test_a_person_has_time_to_answer_and_the_demo_ends_without() -> None:
    document = json.loads((ROOT / "examples" / "dependencies" / "workflow.json").read_text())
    (approval,) = [node for node in document["nodes"] if node["id"] == "approval"]

    assert approval["config"]["timeout"] == "20s"


def test_what_the_form_of_the_page_offers_runs_on_the_server_of_make_dev(tmp_path: Path) -> None:
    server = Staying([*arguments_of("dev"), "--port", "0"], tmp_path, {"PYTHONUNBUFFERED": "1"})
    try:
        server.ready()
        for name in ("hello", "dependency-review"):
            saved = server.ask("GET", f"/v1/workflows/{name}").body
            (offered,) = saved["workflowOptions"]["inputSchema"]["examples"]
            run_id = server.start(name, offered)
            if name == "dependency-review":
                server.ask("POST", f"/v1/runs/{run_id}/signals/approve", {"by": "Ada"})

            run = server.ended_run(run_id)

            assert run["status"] == "COMPLETED", run
        assert run["output"]["decision"] == {"by": "Ada", "decision": "published"}
        assert set(run["output"]["verdicts"]) == {"keep", "replace", "unknown", "watch"}
    finally:
        server.close()
