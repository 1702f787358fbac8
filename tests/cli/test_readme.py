"""What the README shows is run as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.settings import Settings, environment_name
from tests.cli.conftest import Command

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first code block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"the README shows no {language}"
    return found[1]


def test_the_first_workflow_does_what_is_shown(anabranch: Command, folder: Path) -> None:
    (folder / "hello.json").write_text(block("json"))
    assert anabranch("validate", "hello.json").code == 0
    anabranch("workflows", "import", "hello.json")
    instance_id = anabranch("runs", "start", "hello", "--input", '{"name": "Ada"}', "--json").document["instanceID"]

    anabranch("runs", "signal", instance_id, "approve", "--payload", '{"by": "Grace"}')
    printed = anabranch("run", "--resume", instance_id, "--watch")

    assert '{\n  "said": "Hello Ada",\n  "by": "Grace"\n}\n' in printed.out
    assert '{\n  "said": "Hello Ada",\n  "by": "Grace"\n}\n' in README


def test_the_node_type_that_is_shown_can_be_imported(anabranch: Command, folder: Path) -> None:
    (folder / "shout.py").write_text(block("python"))
    (folder / "hello.json").write_text(block("json"))

    assert anabranch("validate", "hello.json", "--import", "shout.py").code == 0


def test_the_settings_that_are_listed_exist(folder: Path) -> None:
    listed = set(re.findall(r"^\| `(ANABRANCH_[A-Z_]+)`", README, re.MULTILINE))

    assert listed
    assert listed <= {environment_name(field) for field in Settings.model_fields}
