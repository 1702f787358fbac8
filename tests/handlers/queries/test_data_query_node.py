"""The node type `dataQuery`, from the command line to the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.entry import main
from tests.handlers.queries.conftest import make_shop_file
from tests.handlers.running import problems


class Shell:
    """The command line in a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, Any]:
        """Exit code and the JSON document of one command."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main([*arguments, "--json"])
        return int(str(leaving.value.code)), json.loads(self._capsys.readouterr().out)

    def run(self, config: dict[str, Any], input_: Any = None, **node: Any) -> dict[str, Any]:
        """What a run of one `dataQuery` node prints."""
        ask = {"id": "ask", "type": "dataQuery", "config": config, "outputVariable": "answer", **node}
        end = {"id": "end", "type": "end", "config": {"outputParameters": {"answer": "{{ctx.answer}}"}}}
        document = {
            "name": "asking",
            "nodes": [{"id": "start", "type": "start"}, ask, end],
            "edges": [
                {"upstreamNodeID": "start", "downstreamNodeID": "ask"},
                {"upstreamNodeID": "ask", "downstreamNodeID": "end"},
                *([{"upstreamNodeID": "ask", "downstreamNodeID": "end", "sourceHandle": "error"}] if node else []),
            ],
        }
        (self._folder / "asking.json").write_text(json.dumps(document))
        return dict(self("run", "asking.json", "--input", json.dumps(input_))[1])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    make_shop_file(tmp_path / "shop.db")
    shell = Shell(tmp_path, capsys)
    assert shell("sources", "add", "shop", "sqlite:///shop.db")[0] == 0
    sql = "SELECT id, customer FROM orders WHERE customer = :customer"
    assert (
        shell("queries", "add", "by-customer", "--source", "shop", "--sql", sql, "--params", '{"customer": "string"}')[
            0
        ]
        == 0
    )
    return shell


def test_rows_of_a_saved_query_are_the_output(shell: Shell) -> None:
    run = shell.run({"dataQueryID": "by-customer", "args": {"customer": "{{ctx.input.who}}"}}, {"who": "Ada"})
    assert run["output"] == {"answer": {"rows": [{"id": 1, "customer": "Ada"}], "rowCount": 1}}


def test_what_a_template_gives_is_a_value_and_no_sql(shell: Shell) -> None:
    run = shell.run({"dataQueryID": "by-customer", "args": {"customer": "{{ctx.input}}"}}, "' OR '1'='1")
    assert run["output"] == {"answer": {"rows": [], "rowCount": 0}}


def test_a_failure_leaves_by_the_error_handle(shell: Shell) -> None:
    run = shell.run({"dataQueryID": "by-customer", "args": {"customer": 7}}, errorHandling="continue")
    error = run["output"]["answer"]["error"]
    assert (error["code"], error["attempt"]) == ("QUERY_ARGS_INVALID", 1)
    assert "the argument customer is an integer, not text" in error["message"]


def test_another_tenants_query_is_absent(shell: Shell) -> None:
    shell.run({"dataQueryID": "by-customer", "args": {"customer": "Ada"}})
    code, run = shell("run", "asking.json", "--tenant", "globex")
    assert code == 1
    assert run["error"]["code"] == "QUERY_NOT_FOUND"


def test_an_answer_beyond_what_an_output_may_hold_says_so(shell: Shell) -> None:
    shell("queries", "add", "wide", "--source", "shop", "--sql", "SELECT hex(zeroblob(600000)) AS x")
    assert shell.run({"dataQueryID": "wide"})["error"]["code"] == "VALUE_TOO_LARGE"


def test_which_query_it_is_cannot_be_a_template() -> None:
    assert problems("dataQuery", {"dataQueryID": "{{ctx.which}}"}) == [("TEMPLATE_NOT_ALLOWED", "/dataQueryID")]


def test_args_are_an_object_and_the_query_is_named() -> None:
    assert problems("dataQuery", {"dataQueryID": "q", "args": {"a": "{{ctx.a}}"}}) == []
    assert problems("dataQuery", {"args": {}}) != []
    assert problems("dataQuery", {"dataQueryID": "q", "args": []}) != []
    assert problems("dataQuery", {"dataQueryID": "q", "sql": "SELECT 1"}) != []


def test_the_command_line_keeps_sources_and_queries(shell: Shell) -> None:
    assert [item["name"] for item in shell("sources", "list")[1]["items"]] == ["shop"]
    assert [item["name"] for item in shell("queries", "list")[1]["items"]] == ["by-customer"]
    assert shell("queries", "show", "by-customer")[1]["params"] == {"customer": {"type": "string"}}
    assert shell("queries", "run", "by-customer", "--args", '{"customer": "Ada"}')[1]["rowCount"] == 1
    refused = shell("queries", "run", "by-customer")[1]["error"]
    assert (refused["code"], refused["details"]) == ("QUERY_FAILED", {"code": "QUERY_ARGS_INVALID"})
    assert "QUERY_" not in refused["message"]
    assert shell("sources", "delete", "shop")[1]["error"]["code"] == "DATA_SOURCE_IN_USE"
    assert shell("queries", "delete", "by-customer")[0] == 0
    assert shell("sources", "delete", "shop")[0] == 0
    for family, name in (("queries", "by-customer"), ("sources", "shop")):
        assert f"`anabranch {family} list`" in shell(family, "delete", name)[1]["error"]["hint"]
    assert "url" not in json.dumps(shell("sources", "list")[1])
