"""A node type of one's own beside a server that lacks it: the example of `docs/node-types.md`, with `anabranch dev`."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.hardening.drawing import chain
from tests.processes.conftest import Installation, Launch
from tests.processes.launching import Staying, until

PAGE = Path(__file__).parents[2] / "docs" / "node-types.md"

# Longer than a run keeps its worker for a delay: it is given back meanwhile, and claimed when the delay is over.
PAUSE = {"id": "pause", "type": "delay", "config": {"duration": "1500ms"}}

TEXT = {"text": "to be or not to be"}
WITH_TYPE = ("--import", "nodes.py")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def example(sqlite_installation: Installation) -> Installation:
    """A folder with the page's node type, and its workflow with a pause before that."""
    page = PAGE.read_text(encoding="utf-8")
    for name, language in (("nodes.py", "python"), ("workflow.json", "json")):
        shown = re.search(rf"^```{language}(?: [^\n]*)?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        assert shown, f"the page shows no {language}"
        (sqlite_installation.folder / name).write_text(shown[1])
    file = sqlite_installation.folder / "workflow.json"
    document: dict[str, Any] = json.loads(file.read_text())
    for edge in document["edges"]:
        if edge["downstreamNodeID"] == "count":
            edge["downstreamNodeID"] = "pause"
    document["nodes"].append(PAUSE)
    document["edges"].append({"upstreamNodeID": "pause", "downstreamNodeID": "count"})
    file.write_text(json.dumps(document))
    return sqlite_installation


def test_a_run_that_is_stopped_in_a_delay_is_left_by_dev_to_whoever_has_its_node_type(
    launch: Launch, example: Installation
) -> None:
    dev = launch(example, "dev", "--port", "0").ready()
    process = launch(example, "run", "workflow.json", *WITH_TYPE, "--input", json.dumps(TEXT))
    until(lambda: statuses(dev) == ["WAITING"])

    assert process.stop(signal.SIGINT) == 128 + signal.SIGINT
    assert_left_alone(dev, only_run(dev))
    again = next(line for line in process.text.splitlines() if line.startswith("resume it: "))
    assert launch(example, *shlex.split(again.removeprefix("resume it: "))[1:]).ended() == 0

    assert dev.ask("GET", f"/v1/runs/{only_run(dev)}").body["status"] == "COMPLETED"
    assert dev.ended_run(only_run(dev))["output"] == {"words": 6}


def test_beside_dev_a_new_node_type_is_rolled_out(launch: Launch, example: Installation) -> None:
    dev = launch(example, "dev", "--port", "0").ready()
    assert launch(example, "run", "workflow.json", *WITH_TYPE, "--input", json.dumps(TEXT)).ended() == 0

    run_id = dev.start("count", TEXT)
    assert_left_alone(dev, run_id)
    launch(example, "worker", *WITH_TYPE).ready()

    assert (dev.ended_run(run_id)["status"], statuses(dev)) == ("COMPLETED", ["COMPLETED", "COMPLETED"])


def assert_left_alone(dev: Staying, run_id: str) -> None:
    """It stays open and nobody's, although `dev` works, and has taken what became due later."""
    dev.save(chain("later", PAUSE))
    assert dev.ended_run(dev.start("later"))["status"] == "COMPLETED"
    run = dev.ask("GET", f"/v1/runs/{run_id}").body
    assert (run["status"] in ("PENDING", "WAITING"), run["error"]) == (True, None), run


def runs(dev: Staying) -> list[dict[str, Any]]:
    answer = dev.ask("GET", "/v1/workflows/count/runs")
    items: list[dict[str, Any]] = answer.body["items"] if answer.status == 200 else []
    return items


def statuses(dev: Staying) -> list[str]:
    return [run["status"] for run in runs(dev)]


def only_run(dev: Staying) -> str:
    (run,) = runs(dev)
    instance_id: str = run["instanceID"]
    return instance_id
