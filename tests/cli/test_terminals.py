"""What `run --watch` draws depends on what the terminal can do."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import GREETING
from tests.hardening.command_line import EXECUTABLE


def printed_on_a_terminal(folder: Path, term: str) -> str:
    """What a run prints whose three streams are a terminal of this kind."""
    (folder / "greeting.json").write_text(json.dumps(GREETING))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [EXECUTABLE, "run", "greeting.json", "--input", '{"name": "Ada"}', "--watch"],
        cwd=folder,
        env={**os.environ, "TERM": term},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 65_536):
            printed += piece
    except OSError:
        pass  # how a terminal on Linux ends whose last user has gone
    finally:
        os.close(ours)
    assert process.wait() == 0, printed
    return printed.decode()


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(folder: Path, term: str) -> None:
    printed = printed_on_a_terminal(folder, term)

    assert "\x1b" not in printed
    assert [line.split()[1:] for line in printed.splitlines() if line.endswith("greet")] == [
        ["running", "greet"], ["success", "greet"]
    ]  # fmt: skip


def test_any_other_terminal_gets_a_table_that_is_drawn_over(folder: Path) -> None:
    assert "\x1b[" in printed_on_a_terminal(folder, "xterm")
