"""The pages that compare us with others: all are there, dated, with versions and sources, and found from README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "compare"
PEERS = ("n8n", "temporal", "dbos", "prefect", "airflow", "windmill")


def test_there_is_one_page_for_each_and_one_for_all() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {"README.md", *(f"{peer}.md" for peer in PEERS)}


@pytest.mark.parametrize("peer", PEERS)
def test_a_page_says_what_was_looked_at_and_when_to_choose_which(peer: str) -> None:
    text = (FOLDER / f"{peer}.md").read_text()

    assert re.search(r"\d+\.\d+.*, looked at on 20\d\d-\d\d-\d\d\.", text)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[:2] == ["Concepts", "Features"]
    chosen = [heading for heading in headings if heading.startswith("When to choose")]
    assert len(chosen) == 2
    assert chosen[1] == "When to choose anabranch"
    assert headings[-1] == "Sources"
    assert re.findall(r"<https://[^>]+>", text.partition("## Sources")[2])


def test_speed_is_only_claimed_where_a_script_measures_it() -> None:
    for peer in PEERS:
        text = (FOLDER / f"{peer}.md").read_text()
        assert ("benchmarks.peers" in text) != ("Speed: not measured" in text), peer


@pytest.mark.parametrize("peer", PEERS)
def test_the_page_is_found_from_readme_and_from_the_index(peer: str) -> None:
    assert f"](docs/compare/{peer}.md)" in (ROOT / "README.md").read_text()
    assert f"](compare/{peer}.md)" in (ROOT / "docs" / "index.md").read_text()
