"""`anabranch variables`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import GREETING, Command

Write = Callable[[str, Any], Path]


def test_variables_are_set_listed_and_deleted(anabranch: Command) -> None:
    text = anabranch("variables", "set", "REGION", "--value", "EU", "--json")
    value = anabranch("variables", "set", "LIMITS", "--value-json", '{"orders": 50}')
    listed = anabranch("variables", "list", "--json").document["items"]

    assert (text.document["value"], value.out) == ("EU", "variable LIMITS is set, version 1\n")
    assert [(each["name"], each["value"]) for each in listed] == [("LIMITS", {"orders": 50}), ("REGION", "EU")]
    assert '  {"orders": 50}  ' in anabranch("variables", "list").out
    assert anabranch("variables", "get", "LIMITS").out == '{"orders": 50}\n'
    absent = anabranch("variables", "get", "ABSENT")
    assert (absent.code, absent.err.splitlines()[1][:6]) == (2, "hint: ")
    assert anabranch("variables", "delete", "REGION", "--json").document == {"name": "REGION", "deleted": True}
    missing = anabranch("variables", "delete", "REGION")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "error NOT_FOUND: there is no variable REGION")
    assert anabranch("variables", "set", "X").code == 2


def test_variables_of_a_workflow_are_its_own(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    anabranch("variables", "set", "last", "--value-json", "7", "--workflow", "greeting")
    own = anabranch("variables", "list", "--workflow", "greeting", "--json").document["items"]
    assert [(each["name"], each["value"]) for each in own] == [("last", 7)]
    assert anabranch("variables", "list", "--json").document["items"] == []
