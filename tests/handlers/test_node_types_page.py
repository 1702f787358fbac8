"""What `docs/node-types.md` shows works as it stands there, and `docs/nodes.md` has every built-in type."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.handlers import builtin_types

ROOT = Path(__file__).parents[2]


def blocks(language: str) -> list[str]:
    """The page's blocks of one language, in order."""
    page = (ROOT / "docs" / "node-types.md").read_text()
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(folder)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    declared, tested, _ = blocks("python")
    (tmp_path / "nodes.py").write_text(declared)
    (tmp_path / "test_nodes.py").write_text(tested)
    (tmp_path / "workflow.json").write_text(blocks("json")[0])
    return tmp_path


def test_the_complete_example_runs(folder: Path) -> None:
    text = json.dumps({"text": "to be or not to be"})
    done = run(folder, "anabranch", "run", "workflow.json", "--import", "nodes.py", "--input", text, "--json")
    assert json.loads(done.stdout)["output"] == {"words": 6}, done.stderr


def test_the_tests_on_the_page_pass(folder: Path) -> None:
    done = run(folder, "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder), ".")
    assert done.returncode == 0, done.stdout


def test_the_page_of_the_built_in_types_has_a_section_for_each_and_a_row_for_each_field() -> None:
    page = (ROOT / "docs" / "nodes.md").read_text()
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    types = builtin_types()
    assert sections.keys() == set(types.names())
    for name, section in sections.items():
        found = types.get(name)
        assert found is not None
        assert found.description.docs == f"#{name.lower()}", "the anchor of its heading"
        assert found.description.description in section
        fields = dict(re.findall(r"^\| `(\w+)`(?: \(required\))? \| (.*) \|$", section, re.MULTILINE))
        expected = {field: each["description"] for field, each in found.config_schema.get("properties", {}).items()}
        assert fields == expected, name
