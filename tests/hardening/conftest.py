"""A folder of one's own, a database, and commands in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.entry import main
from tests.hardening.command_line import Command, Launched, Printed, logging_left_alone

Launch = Callable[..., Launched]
Write = Callable[[str, Any], Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory: its database is `.anabranch/anabranch.db`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database of each kind, which every command of the test uses."""
    url = f"sqlite:///{folder / 'runs.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", url)
    return url


@pytest.fixture
def anabranch(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Run one command in the folder, in this process; it never shows a traceback."""

    def run(*arguments: str | Path) -> Printed:
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = leaving.value.code
        assert isinstance(code, int)
        assert "Traceback" not in out + err
        return Printed(code, out, err)

    with logging_left_alone():
        yield run


@pytest.fixture
def launch(folder: Path) -> Iterator[Launch]:
    """Start a command as a process in the folder; what still runs at the end of the test is killed."""
    launched: list[Launched] = []

    def start(*arguments: str | Path, limit: Callable[[], None] | None = None) -> Launched:
        launched.append(Launched(arguments, folder, limit=limit))
        return launched[-1]

    yield start
    for process in launched:
        process.close()


@pytest.fixture
def write(folder: Path) -> Write:
    """Put a file into the folder: bytes as they are, anything else as JSON."""

    def write_file(name: str, content: Any) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write_file
