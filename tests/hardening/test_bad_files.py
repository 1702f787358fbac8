"""Files that are not what they should be: one line that names code and place, exit 2, and no run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.hardening.command_line import Command
from tests.hardening.conftest import Write
from tests.hardening.drawing import PLAIN, chain

MEGABYTE = 1_048_576

BAD_FILES = {
    "an empty file": (b"", "BAD_JSON", "expecting value at line 1, column 1"),
    "broken JSON": (b'{"nodes": [\n  {"id" 1}]}', "BAD_JSON", "at line 2, column 9"),
    "a binary file": (bytes(range(256)), "BAD_JSON", "not UTF-8 text: the byte 0x80"),
    "invalid UTF-8": (b'{"a":\n "\xff"}', "BAD_JSON", "the byte 0xff at line 2, column 3"),
    "UTF-16": (json.dumps(PLAIN).encode("utf-16"), "BAD_JSON", "the byte 0xff at line 1, column 1"),
    "a repeated key": (b'{"a": {"b": 1, "b": 2}}', "BAD_JSON", "the key 'b' twice at /a"),
    "NaN": (b'{"a": [NaN]}', "VALUE_NOT_STORABLE", "NaN, which is not JSON at /a/0"),
    "Infinity": (b'{"a": -Infinity}', "VALUE_NOT_STORABLE", "-Infinity, which is not JSON at /a"),
    "a number beyond a float": (b'{"a": 1e999}', "VALUE_NOT_STORABLE", "at /a"),
    "a NUL": (b'{"a": "\\u0000"}', "VALUE_NOT_STORABLE", "a NUL character at /a"),
    "a lone surrogate": (b'{"a": "\\ud800"}', "VALUE_NOT_STORABLE", "a lone surrogate at /a"),
    "a wide integer": (b'{"a": 18446744073709551616}', "VALUE_NOT_STORABLE", "more than 64 bits at /a"),
    "depth 65": (b"[" * 65 + b"]" * 65, "VALUE_NOT_STORABLE", "more than 64 levels"),
    "depth 100,000": (b"[" * 100_000, "VALUE_NOT_STORABLE", "more than 64 levels"),
}
COMMANDS = {
    "run": ("run", "bad.json"),
    "validate": ("validate", "bad.json"),
    "import": ("workflows", "import", "bad.json"),
    "input": ("run", "plain.json", "--input", "@bad.json"),
}


def assert_refused(anabranch: Command, arguments: tuple[str, ...], code: str, words: str) -> None:
    """One line for people, one document for programs, and exit 2 for both."""
    for_people, for_programs = anabranch(*arguments), anabranch(*arguments, "--json")
    assert (for_people.code, for_programs.code) == (2, 2)
    first, *others = for_people.err.splitlines()
    assert first.startswith(f"error {code}: ") and words in first, first
    assert all(line.startswith("hint: ") for line in others), others
    assert for_people.out == ""
    assert for_programs.document["error"]["code"] == code
    assert words in for_programs.document["error"]["message"]
    assert for_programs.err == ""


def runs_of(anabranch: Command) -> int:
    """How many runs there are."""
    return len(anabranch("runs", "list", "--json").document["items"])


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_is_refused_with_its_code_and_place_wherever_it_is_given(
    anabranch: Command, write: Write, content: tuple[bytes, str, str]
) -> None:
    anabranch("migrate")
    write("plain.json", PLAIN)
    write("bad.json", content[0])
    for arguments in COMMANDS.values():
        assert_refused(anabranch, arguments, *content[1:])
    assert runs_of(anabranch) == 0


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_file_of_100_mb_a_directory_and_an_absent_file_are_refused_unread(
    anabranch: Command, write: Write, folder: Path, arguments: tuple[str, ...]
) -> None:
    write("plain.json", PLAIN)
    assert_refused(anabranch, arguments, "INVALID_REQUEST", "bad.json cannot be read: no such file")
    (folder / "bad.json").mkdir()
    assert_refused(anabranch, arguments, "INVALID_REQUEST", "bad.json cannot be read: is a directory")
    (folder / "bad.json").rmdir()
    with (folder / "bad.json").open("wb") as file:
        os.truncate(file.fileno(), 100 * MEGABYTE)
    assert_refused(anabranch, arguments, "TOO_LARGE", "bad.json is larger than 16 MB")


def test_a_byte_order_mark_is_no_reason_to_refuse(anabranch: Command, write: Write) -> None:
    write("plain.json", b"\xef\xbb\xbf" + json.dumps(PLAIN).encode())
    write("input.json", b'\xef\xbb\xbf{"a": 1}')
    assert anabranch("run", "plain.json", "--input", "@input.json").code == 0


@pytest.mark.parametrize(("text", "kind"), [("[]", "a list"), ("null", "null"), ("7", "a number"), ('"x"', "text")])
def test_a_file_that_holds_no_object_is_no_workflow(anabranch: Command, write: Write, text: str, kind: str) -> None:
    write("bad.json", text.encode())
    for arguments in (COMMANDS["run"], COMMANDS["import"]):
        printed = anabranch(*arguments)
        assert printed.code == 2
        assert printed.err.startswith("error INVALID_WORKFLOW: ")
        assert f"  WRONG_TYPE: a workflow is an object, not {kind}" in printed.err.splitlines()
    report = anabranch("validate", "bad.json", "--json")
    assert (report.code, report.document["errors"][0]["code"]) == (2, "WRONG_TYPE")


@pytest.mark.parametrize(
    ("nodes", "edges", "code", "pointer"),
    [(2_001, 0, "TOO_MANY_NODES", "/nodes"), (2, 10_001, "TOO_MANY_EDGES", "/edges")],
)
def test_a_graph_beyond_the_limits_is_refused_with_its_place(
    anabranch: Command, write: Write, nodes: int, edges: int, code: str, pointer: str
) -> None:
    document = {
        "nodes": [{"id": "start", "type": "start"}, *({"id": f"n{n}", "type": "end"} for n in range(nodes - 1))],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "n0"}] * edges,
    }
    write("wide.json", document)
    report = anabranch("validate", "wide.json", "--json")
    assert report.code == 2
    assert [(error["code"], error["pointer"]) for error in report.document["errors"]] == [(code, pointer)]
    refused = anabranch("run", "wide.json", "--json")
    assert refused.code == 2
    assert [problem["code"] for problem in refused.document["error"]["details"]] == [code]
    assert runs_of(anabranch) == 0


def test_a_graph_at_the_limit_of_nodes_is_valid(anabranch: Command, write: Write) -> None:
    row = chain("long", *({"id": f"n{n}", "type": "set", "config": {"values": {}}} for n in range(1_998)))
    assert len(row["nodes"]) == 2_000
    assert anabranch("validate", write("long.json", row)).code == 0


def test_an_input_over_1_mb_is_refused_and_one_just_below_is_not(anabranch: Command, write: Write) -> None:
    write("plain.json", PLAIN)
    write("over.json", "x" * MEGABYTE)
    write("below.json", "x" * (MEGABYTE - 100))  # its start node repeats it, with some words around
    printed = anabranch("run", "plain.json", "--input", "@over.json", "--json")
    assert (printed.code, printed.document["error"]["code"]) == (2, "INVALID_INPUT")
    assert [detail["code"] for detail in printed.document["error"]["details"]] == ["VALUE_TOO_LARGE"]
    assert anabranch("run", "plain.json", "--input", "@below.json").code == 0


def test_an_input_that_does_not_fit_its_schema_is_refused_with_its_pointer(anabranch: Command, write: Write) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    write("typed.json", {**PLAIN, "workflowOptions": {"inputSchema": schema}})
    printed = anabranch("run", "typed.json", "--input", '{"n": "one"}', "--json")
    assert (printed.code, printed.document["error"]["code"]) == (2, "INVALID_INPUT")
    assert [detail["pointer"] for detail in printed.document["error"]["details"]] == ["/n"]
    assert anabranch("run", "typed.json", "--input", '{"n": 1}').code == 0
