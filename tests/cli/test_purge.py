"""`anabranch purge`: ended runs go when a person says so, and the file gets smaller."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command, Write

DRAWING = {
    "name": "big",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "fill", "type": "set", "config": {"values": {"text": "{{ctx.input}}"}}},
    ],
    "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "fill"}],
}
SIZE = 400_000


def test_ended_runs_are_removed_and_the_file_gets_smaller(anabranch: Command, write: Write, folder: Path) -> None:
    file = write("big.json", DRAWING)
    value = folder / "input.json"
    for number in range(3):
        value.write_text(json.dumps("x" * (SIZE + number)))
        assert anabranch("run", file, "--input", f"@{value}").code == 0
    dry = anabranch("purge", "--older-than", "0s", "--status", "completed", "--workflow", "big", "--dry-run", "--json")
    assert dry.document["dryRun"] is True and dry.document["runs"] == 3
    assert len(anabranch("runs", "list", "--json").document["items"]) == 3
    done = anabranch("purge", "--older-than", "0s", "--json").document
    assert (done["runs"], done["orphanedLogs"], done["orphanedVersions"]) == (3, 0, 0)
    assert done["bytesBefore"] > 3 * SIZE and done["bytesAfter"] < 800_000
    files = (folder / ".anabranch").glob("anabranch.db*")
    assert sum(each.stat().st_size for each in files) < 1_000_000
    assert anabranch("runs", "list", "--json").document["items"] == []
    assert "runs.purged" in anabranch("audit").out


def test_without_conditions_what_is_to_be_kept_stays(anabranch: Command, write: Write) -> None:
    assert anabranch("run", write("big.json", DRAWING), "--input", "1").code == 0
    printed = anabranch("purge")
    assert printed.code == 0
    assert "removed: 0 runs with 0 events, 0 deleted workflows" in printed.out
    assert len(anabranch("runs", "list", "--json").document["items"]) == 1


def test_one_of_a_thing_is_told_in_the_singular(anabranch: Command, write: Write) -> None:
    assert anabranch("run", write("big.json", DRAWING), "--input", "1").code == 0
    assert anabranch("workflows", "delete", "big").code == 0
    assert "removed: 1 run with " in anabranch("purge", "--older-than", "0s", "--dry-run").out
    assert ", 1 deleted workflow\n" in anabranch("purge", "--older-than", "0s").out


def test_mistakes_are_told(anabranch: Command, write: Write) -> None:
    assert anabranch("run", write("big.json", DRAWING), "--input", "1").code == 0
    for arguments, said in (
        (("--status", "RUNNING"), "RUNNING is not an end status"),
        (("--older-than", "soon"), "is not a duration"),
        (("--workflow", "nobody"), "there is no workflow nobody"),
    ):
        printed = anabranch("purge", *arguments)
        assert printed.code == 2 and said in printed.err, printed
