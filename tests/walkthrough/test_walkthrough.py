"""The walk-through is done as it is written, in a real shell against real processes, and prints what it shows."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ports import lasting_port
from tests.tools import Kind, found_or_skip, node, node_packages
from tests.walkthrough.page import Step, files_of, steps_of
from tests.walkthrough.terminal import Terminal

ROOT = Path(__file__).parents[2]
ONE_MACHINE, SEVERAL_PROCESSES = (
    (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8").split("\n## Several processes on PostgreSQL\n")
)

Open = Callable[..., Terminal]

# Some fifty short commands, of which many start a Python, on a machine that does four other things.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def port() -> int:
    """A free one; the page shows the default."""
    return lasting_port()


@pytest.fixture
def open_terminal(port: int, tmp_path: Path) -> Iterator[Open]:
    """Opens terminals in the clone that are closed at the end, with all that runs in them."""
    opened: list[Terminal] = []
    outside = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": path, "TMPDIR": str(tmp_path), "ANABRANCH_PORT": str(port), "PYTHONUNBUFFERED": "1"}

    def open_one(folder: Path = ROOT, **variables: str) -> Terminal:
        opened.append(Terminal(folder, {**outside, **ours, **variables}))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


def assert_prints_what_the_page_shows(steps: Sequence[Step], terminal: Terminal, port: int) -> None:
    """Type every command, and compare."""
    for step in steps:
        printed = [line.replace(f":{port}", ":8321") for line in terminal.type(step.command, lines=len(step.shown))]
        left = list(printed)
        for shown, pattern in zip(step.shown, step.compared, strict=True):
            found = next((line for line in left if pattern.fullmatch(line)), None)
            assert found is not None, f"$ {step.command}\nshould print\n{shown}\nand printed\n" + "\n".join(printed)
            left.remove(found)
        assert not left, f"$ {step.command}\nprinted what the page does not show:\n" + "\n".join(left)


def test_on_one_machine(open_terminal: Open, port: int) -> None:
    assert_prints_what_the_page_shows(steps_of(ONE_MACHINE), open_terminal(), port)


def test_with_several_processes(open_terminal: Open, port: int, tmp_path: Path, empty_postgres_url: str) -> None:
    terminal = open_terminal(tmp_path, ANABRANCH_DATABASE_URL=empty_postgres_url)
    assert_prints_what_the_page_shows([*files_of(ONE_MACHINE), *steps_of(SEVERAL_PROCESSES)], terminal, port)


def test_both_watchers_tell_the_same(open_terminal: Open, port: int, tmp_path: Path) -> None:
    program = found_or_skip(Kind.JAVASCRIPT, node)
    (tmp_path / "node_modules").symlink_to(found_or_skip(Kind.JAVASCRIPT, node_packages) / "node_modules")
    shutil.copy(ROOT / "examples" / "watch" / "watch.mjs", tmp_path)
    server = {"ANABRANCH_URL": f"http://127.0.0.1:{port}", "ANABRANCH_TOKEN": "k", "ANABRANCH_API_KEY": "k"}
    terminal = open_terminal(tmp_path, **server)
    terminal.type("anabranch dev 2> /dev/null &", lines=1)
    run_id = json.loads("".join(terminal.type("anabranch runs start hello --json")))["instanceID"]

    by_python = told(terminal.type(f"python {ROOT}/examples/watch/watch.py {run_id}"))
    by_node = told(terminal.type(f"{program} watch.mjs {run_id}"))

    assert by_python == by_node
    assert by_python[-1][:2] == ("run", "COMPLETED")


def told(lines: Sequence[str]) -> list[tuple[str, str, Any]]:
    """Who, how it is, and its output."""
    parts = [line.split(" ", 2) for line in lines]
    return [(who, status, json.loads(output)) for who, status, output in parts]
