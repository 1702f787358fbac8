"""What the README shows is run as it is written."""

from __future__ import annotations

import re
from pathlib import Path

from typer.core import TyperGroup

from anabranch.cli.entry import application
from anabranch.settings import Settings, environment_name
from tests.cli.conftest import Command

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


FAMILIES = {name: set(found.commands) for name, found in application.commands.items() if isinstance(found, TyperGroup)}
ALONE = set(application.commands) - set(FAMILIES)


def block(language: str) -> str:
    """The first code block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"the README shows no {language}"
    return found[1]


def test_the_first_workflow_does_what_is_shown(anabranch: Command, folder: Path) -> None:
    (folder / "greeting.json").write_text(block("json"))
    assert anabranch("validate", "greeting.json").code == 0
    anabranch("workflows", "import", "greeting.json")
    instance_id = anabranch("runs", "start", "greeting", "--input", '{"name": "Ada"}', "--json").document["instanceID"]

    anabranch("runs", "signal", instance_id, "approve", "--payload", '{"by": "Grace"}')
    printed = anabranch("run", "--resume", instance_id, "--watch")

    assert '{\n  "said": "Hello Ada",\n  "by": "Grace"\n}\n' in printed.out
    assert '{\n  "said": "Hello Ada",\n  "by": "Grace"\n}\n' in README


def test_the_node_type_that_is_shown_can_be_imported(anabranch: Command, folder: Path) -> None:
    (folder / "shout.py").write_text(block("python"))
    (folder / "greeting.json").write_text(block("json"))

    assert anabranch("validate", "greeting.json", "--import", "shout.py").code == 0


def test_every_setting_is_listed_and_no_other() -> None:
    rows = re.findall(r"^\| (`ANABRANCH_[^|]+) \|", README, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"ANABRANCH_[A-Z_]+", row)]

    assert sorted(listed) == sorted(environment_name(field) for field in Settings.model_fields)


def test_every_command_is_listed_and_no_other() -> None:
    table = README.split("\n## Commands\n", 1)[1].strip().split("\n\n", 1)[0].replace("\\|", "")
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    listed = {name for cell in cells for group in cell.split(" · ") for name in commands_of(group)}

    assert listed == ALONE | {f"{family} {name}" for family, names in FAMILIES.items() for name in names}


def commands_of(group: str) -> list[str]:
    """The commands in "`keys create`, `list`": a family is named once, with its first command."""
    first, *others = [words.split(" [")[0].split() for words in re.findall(r"`([a-z][^`]*)`", group)]
    if first[0] in FAMILIES:
        return [f"{first[0]} {name}" for name in (first[1], *(words[0] for words in others))]
    return [words[0] for words in (first, *others)]
