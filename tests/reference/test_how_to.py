"""Every tutorial and how-to page is followed as it is written: its files, its commands, and what they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [*HOW_TO, *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]

# All pages together: some seconds, and a minute on a machine that does eight other things.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was wrong on each page, or None."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH_", "PYTEST_"))}
    command = [sys.executable, "-m", "tests.reference.how_to_runner", tmp_path_factory.mktemp("pages"), *PAGES]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {each["page"]: each["wrong"] for each in map(json.loads, done.stdout.splitlines())}


def test_every_page_does_what_it_says(followed: dict[str, Any]) -> None:
    assert list(followed) == [page.stem for page in PAGES]
    wrong = {page: found for page, found in followed.items() if found is not None}
    assert not wrong, "\n\n".join(f"{page}.md: {found}" for page, found in wrong.items())


def test_there_are_thirty_of_them_and_each_is_short() -> None:
    assert len(HOW_TO) >= 30
    for page in HOW_TO:
        text = page.read_text(encoding="utf-8")
        assert text.startswith("# How to "), page
        assert len(text.split()) <= 400, page
