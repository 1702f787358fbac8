"""What `run --watch` draws depends on what the terminal can do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import GREETING
from tests.hardening.command_line import printed_on_a_terminal


def watched_on_a_terminal(folder: Path, term: str) -> str:
    """What a run prints whose three streams are a terminal of this kind."""
    (folder / "greeting.json").write_text(json.dumps(GREETING))
    run = ("run", "greeting.json", "--input", '{"name": "Ada"}', "--watch")
    return printed_on_a_terminal(*run, folder=folder, environment={"TERM": term})


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(folder: Path, term: str) -> None:
    printed = watched_on_a_terminal(folder, term)

    assert "\x1b" not in printed
    assert [line.split()[1:] for line in printed.splitlines() if line.endswith("greet")] == [
        ["running", "greet"], ["success", "greet"]
    ]  # fmt: skip


def test_any_other_terminal_gets_a_table_that_is_drawn_over(folder: Path) -> None:
    assert "\x1b[" in watched_on_a_terminal(folder, "xterm")
