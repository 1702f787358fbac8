"""`fmt` and `schema`: workflow files in one layout, and what editors complete them by."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command, Write

SCATTERED = {
    "edges": [{"downstreamNodeID": "greet", "upstreamNodeID": "start"}],
    "x-tool": {"b": 1, "a": 2},
    "nodes": [
        {"type": "start", "id": "start"},
        {
            "retry": {"backoff": {"max": "5s", "base": "1s"}, "maxAttempts": 2},
            "config": {"timeout": "1h", "match": {"z": 1, "a": 2}, "event": "go"},
            "type": "waitForEvent",
            "x-colour": "red",
            "id": "greet",
        },
    ],
    "name": "scattered",
}


def test_fields_are_put_into_their_order_and_values_stay(anabranch: Command, folder: Path, write: Write) -> None:
    write("scattered.json", SCATTERED)

    printed = anabranch("fmt", "scattered.json")

    text = (folder / "scattered.json").read_text()
    laid_out = json.loads(text)
    assert (printed.code, printed.out) == (0, "scattered.json is changed\n")
    assert laid_out == SCATTERED
    assert [*laid_out] == ["name", "nodes", "edges", "x-tool"]
    node = laid_out["nodes"][1]
    assert [*node] == ["id", "type", "config", "retry", "x-colour"]
    assert [*node["config"]] == ["event", "match", "timeout"]
    assert [*node["config"]["match"]] == ["z", "a"], "values are the author's"
    assert [*node["retry"]["backoff"]] == ["base", "max"]
    assert [*laid_out["edges"][0]] == ["upstreamNodeID", "downstreamNodeID"]
    assert anabranch("fmt", "scattered.json").out == "", "what is in order is left alone"


def test_check_changes_nothing_and_exits_with_1(anabranch: Command, folder: Path, write: Write) -> None:
    before = write("scattered.json", SCATTERED).read_text()

    printed = anabranch("fmt", "--check", "scattered.json", "--json")

    assert (printed.code, printed.document) == (1, {"changed": ["scattered.json"], "checked": 1})
    assert (folder / "scattered.json").read_text() == before


def test_a_file_that_is_no_workflow_is_refused_before_it_is_touched(
    anabranch: Command, folder: Path, write: Write
) -> None:
    write("list.json", [1])
    (folder / "broken.json").write_text('{"nodes": ')

    assert anabranch("fmt", "list.json").code == 2
    assert anabranch("fmt", "broken.json").code == 2
    assert (folder / "broken.json").read_text() == '{"nodes": '


def test_the_schema_has_node_types_of_ones_own(anabranch: Command, folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from anabranch import node_type\n\n"
        "@node_type('mineOfSchema')\n"
        "class Mine:\n"
        "    async def execute(self, config, context, helpers):\n"
        "        return config\n"
    )

    printed = anabranch("schema", "--import", "mine.py", "--output", "workflow.schema.json")
    schema = json.loads((folder / "workflow.schema.json").read_text())

    assert (printed.code, printed.out) == (0, "the schema of workflow files is in workflow.schema.json\n")
    assert {"mineOfSchema", "httpRequest"} <= set(schema["$defs"]["node"]["properties"]["type"]["enum"])
    assert anabranch("schema").document["title"] == "Workflow"
