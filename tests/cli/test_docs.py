"""`anabranch docs`: pages in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.cli.commands import docs_command
from hatch_build import documentation
from tests.cli.conftest import Command
from tests.hardening.command_line import printed_on_a_terminal

DOCS = Path(__file__).parents[2] / "docs"


def test_all_topics_are_listed_by_section(anabranch: Command) -> None:
    listed = anabranch("docs").out
    assert listed.index("Tutorials") < listed.index("  tutorial ") < listed.index("How-to") < listed.index("  secrets ")

    items = anabranch("docs", "--json").document["items"]
    assert {"name": "secrets", "section": "How-to"}.items() <= next(x for x in items if x["name"] == "secrets").items()


def test_a_topic_is_printed_as_it_is_written(anabranch: Command) -> None:
    text = (DOCS / "secrets.md").read_text()

    assert anabranch("docs", "secrets").out == text
    assert anabranch("docs", "Secrets.md").out == text
    assert anabranch("docs", "secrets", "--json").document["text"] == text


def test_two_pages_of_one_name_are_told_apart(anabranch: Command) -> None:
    assert anabranch("docs", "n8n").out == (DOCS / "n8n.md").read_text()
    compared = (DOCS / "compare" / "n8n.md").read_text()
    assert anabranch("docs", "compare-n8n").out == anabranch("docs", "compare/n8n").out == compared


def test_comments_of_the_generator_are_left_out(anabranch: Command) -> None:
    printed = anabranch("docs", "reference/templates").out
    assert printed.startswith("# Templates\n")
    assert "<!--" not in printed


@pytest.mark.parametrize(("asked", "hint"), [
    ("sekrets", "hint: Did you mean secrets or "),
    ("coded", "hint: Did you mean coded-workflows or "),
    ("xyz", "hint: `anabranch docs` lists the topics."),
    ("", "hint: `anabranch docs` lists the topics."),
])  # fmt: skip
def test_an_unknown_topic_names_the_nearest(anabranch: Command, asked: str, hint: str) -> None:
    printed = anabranch("docs", asked)
    assert printed.code == 2
    assert printed.err.splitlines()[0] == f"error NOT_FOUND: no topic {asked!r}"
    assert printed.err.splitlines()[1].startswith(hint)


@pytest.mark.parametrize("place", ["in the package", "beside the package"])
def test_pages_are_found_in_the_package_and_beside_it(
    anabranch: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (folder / "pages").mkdir()
    (folder / "pages" / "index.md").write_text("## Part\n\n* [A page](page.md): about it\n")
    (folder / "pages" / "page.md").write_text("# A page\n")
    ours = folder / "pages"
    monkeypatch.setattr(
        docs_command, "FOLDERS", (ours, DOCS) if place == "in the package" else (folder / "nothing", ours)
    )
    assert anabranch("docs", "page").out == "# A page\n"


def test_the_wheel_gets_every_page() -> None:
    inside = documentation(DOCS)
    assert inside[str(DOCS / "index.md")] == "anabranch/documentation/index.md"
    assert inside[str(DOCS / "reference" / "settings.md")] == "anabranch/documentation/reference/settings.md"
    assert len(inside) == len(list(DOCS.rglob("*.md")))


@pytest.fixture
def on_a_terminal(tmp_path: Path) -> Callable[..., str]:
    """What a page prints on a terminal, through this pager."""

    def shown(pager: str, topic: str = "widgets") -> str:
        return printed_on_a_terminal("docs", topic, folder=tmp_path, environment={"TERM": "xterm", "PAGER": pager})

    return shown


def test_a_terminal_gets_colours_through_the_pager_of_the_user(on_a_terminal: Callable[..., str]) -> None:
    printed = on_a_terminal("sed s/^/paged:/")
    assert "paged:" in printed
    assert "\x1b[" in printed
    assert "# Widgets" not in printed


def test_a_terminal_shows_what_a_block_is_saved_as(on_a_terminal: Callable[..., str]) -> None:
    assert "order.json\x1b[0m:" in on_a_terminal("cat", "start-a-run")


def test_a_pager_that_does_not_exist_is_no_reason_to_show_nothing(on_a_terminal: Callable[..., str]) -> None:
    assert "Widgets" in on_a_terminal("no-such-pager")
