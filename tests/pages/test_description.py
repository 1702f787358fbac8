"""The description of the package is README, with links that work where there is no repository around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_build import description

ROOT = Path(__file__).parents[2]
README = (
    "Read [the tutorial](docs/tutorial.md#start), [PyPI](https://pypi.org) and [below](#below).\n\n"
    '<picture>\n<img alt="A run" src="docs/run.png">\n</picture>\n\n![A run](docs/run.png)\n\n## Below\n'
)


def test_links_lead_to_the_source_where_pyproject_names_it() -> None:
    made = description(README, "https://example.com/anabranch/")

    assert "[the tutorial](https://example.com/anabranch/blob/HEAD/docs/tutorial.md#start)" in made
    assert 'src="https://example.com/anabranch/raw/HEAD/docs/run.png"' in made
    assert "![A run](https://example.com/anabranch/raw/HEAD/docs/run.png)" in made
    assert "[PyPI](https://pypi.org) and [below](#below)" in made


def test_links_are_plain_text_without_a_source() -> None:
    assert description(README, None) == (
        "Read the tutorial, [PyPI](https://pypi.org) and [below](#below).\n\n\n\n## Below\n"
    )


@pytest.mark.parametrize("source", [None, "https://example.com/anabranch"])
def test_nothing_in_our_readme_stays_relative(source: str | None) -> None:
    made = description((ROOT / "README.md").read_text("utf-8"), source)

    assert "](docs/" not in made
    assert '="docs/' not in made
    assert made.startswith("# anabranch\n")
