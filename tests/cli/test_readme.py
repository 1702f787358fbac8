"""What README, tutorial and reference show is run as it is written, and complete."""

from __future__ import annotations

import re
from pathlib import Path

from typer.core import TyperGroup

from anabranch.cli.entry import application
from anabranch.settings import Settings, environment_name
from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
README, TUTORIAL, COMMANDS, SETTINGS = (
    (ROOT / page).read_text(encoding="utf-8")
    for page in (
        "README.md",
        "docs/tutorial.md",
        "docs/reference/commands.md",
        "docs/reference/settings.md",
    )
)

# What a reader takes in before they decide; the rest is in docs.
README_WORDS_MAX = 900

FAMILIES = {name: set(found.commands) for name, found in application.commands.items() if isinstance(found, TyperGroup)}
ALONE = set(application.commands) - set(FAMILIES)


def block(language: str, page: str) -> str:
    """The first code block of a language on a page."""
    found = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert found, f"the page shows no {language}"
    return found[1]


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= README_WORDS_MAX


def test_the_workflow_of_the_tutorial_does_what_is_shown(anabranch: Command, folder: Path) -> None:
    (folder / "greeting.json").write_text(block("json", TUTORIAL))
    assert anabranch("validate", "greeting.json").code == 0
    anabranch("workflows", "import", "greeting.json")
    instance_id = anabranch("runs", "start", "greeting", "--input", '{"name": "Ada"}', "--json").document["instanceID"]

    anabranch("runs", "signal", instance_id, "approve", "--payload", '{"by": "Grace"}')
    printed = anabranch("run", "--resume", instance_id, "--watch")

    assert '{\n  "said": "Hello Ada",\n  "by": "Grace"\n}\n' in printed.out
    assert '{\n  "said": "Hello Ada",\n  "by": "Grace"\n}\n' in TUTORIAL


def test_every_setting_is_listed_and_no_other() -> None:
    rows = re.findall(r"^\| (`ANABRANCH_[^|]+) \|", SETTINGS, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"ANABRANCH_[A-Z_]+", row)]

    assert sorted(listed) == sorted(environment_name(field) for field in Settings.model_fields)


def test_every_command_is_listed_and_no_other() -> None:
    table = COMMANDS.partition("\n\n")[2].partition("\n\n")[0].replace("\\|", "")
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    listed = {name for cell in cells for group in cell.split(" · ") for name in commands_of(group)}

    assert listed == ALONE | {f"{family} {name}" for family, names in FAMILIES.items() for name in names}


def commands_of(group: str) -> list[str]:
    """The commands in "`keys create`, `list`": a family is named once, with its first command."""
    first, *others = [words.split(" [")[0].split() for words in re.findall(r"`([a-z][^`]*)`", group)]
    if first[0] in FAMILIES:
        return [f"{first[0]} {name}" for name in (first[1], *(words[0] for words in others))]
    return [words[0] for words in (first, *others)]
