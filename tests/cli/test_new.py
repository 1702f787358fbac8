"""`anabranch new` makes a project that works as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.gallery.gallery import COMMON, PROJECTS, all_templates
from anabranch.settings import Settings, environment_name
from tests.cli.conftest import Command
from tests.hardening.command_line import EXECUTABLE


def run_in(folder: Path, *command: str | Path) -> str:
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # a project needs none of our plugins
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_project_has_what_one_begins_with(anabranch: Command, folder: Path) -> None:
    made = anabranch("new", "my-project", "--json")

    assert made.code == 0
    assert made.document["files"] == [
        ".env.example",
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "app.py",
        "pytest.ini",
        "requirements.txt",
        "tests/test_app.py",
        "workflows/hello.json",
    ]
    assert (
        sorted(str(path.relative_to("my-project")) for path in Path("my-project").rglob("*") if path.is_file())
        == (made.document["files"])
    )
    assert Path("my-project/README.md").read_text().startswith("# my-project\n")


def test_the_answer_says_how_to_go_on(anabranch: Command, folder: Path) -> None:
    assert "cd shop && anabranch dev" in anabranch("new", "shop").out
    (folder / "here").mkdir()
    os.chdir(folder / "here")
    assert "go on with: anabranch dev" in anabranch("new", ".").out


def test_the_settings_to_begin_with_exist() -> None:
    text = (PROJECTS / COMMON / "dot-env.example.txt").read_text()
    assert set(re.findall(r"ANABRANCH_\w+", text)) <= {environment_name(name) for name in Settings.model_fields}


def test_a_project_of_a_template_passes_its_tests(folder: Path) -> None:
    run_in(folder, EXECUTABLE, "new", "project", "--template", "order-saga")
    assert "2 passed" in run_in(folder / "project", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_all_templates_are_listed(anabranch: Command) -> None:
    names = [template.name for template in all_templates()]

    assert [line.split()[0] for line in anabranch("new", "--list").out.splitlines()] == names
    listed = anabranch("new", "--list", "--json").document["items"]
    assert [item["name"] for item in listed] == names
    assert set(listed[0]) == {"name", "title", "description", "topic", "kind"}


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ([], "FOLDER is missing", "Name a new folder: anabranch new my-project"),
        (["full"], "the folder full is not empty", "Name a new or an empty folder."),
        (["file"], "file is a file", "Name a new or an empty folder."),
        (["file/below"], "file/below cannot be written: Not a directory", "Choose another folder."),
        (["my project"], "'my project' cannot name a project", "Use up to 64 letters"),
        ([".hidden"], "'.hidden' cannot name a project", "Use up to 64 letters"),
        (["new", "--template", "helo"], "there is no template 'helo'", "There are approval, approval-reminder, "),
        (["new", "--template", "common"], "there is no template 'common'", "There are approval, approval-reminder, "),
    ],
)
def test_what_cannot_become_a_project_is_refused(
    anabranch: Command, folder: Path, arguments: list[str], error: str, hint: str
) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "mine.txt").write_text("mine")
    (folder / "file").write_text("mine")

    refused = anabranch("new", *arguments)

    assert refused.code == 2
    assert error in refused.err
    assert hint in refused.err
    assert sorted(path.name for path in folder.rglob("*")) == ["file", "full", "mine.txt"]
