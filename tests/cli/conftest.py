"""The command line as a person has it: a directory of one's own, commands, what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.entry import main


@dataclass(frozen=True)
class Printed:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Command = Callable[..., Printed]
Write = Callable[[str, Any], Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory: its database is `.anabranch/anabranch.db`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def anabranch(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run one command in the folder, in this process."""

    def run(*arguments: str | Path) -> Printed:
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = leaving.value.code
        assert isinstance(code, int)
        return Printed(code, out, err)

    return run


@pytest.fixture
def write(folder: Path) -> Callable[[str, Any], Path]:
    """Put a JSON file into the folder."""

    def write_file(name: str, document: Any) -> Path:
        path = folder / name
        path.write_text(json.dumps(document))
        return path

    return write_file


def chain(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    """A workflow of these nodes one after the other, between a start and an end that gives `ctx.last` back."""
    last = {"id": "end", "type": "end", "config": {"outputParameters": {"last": "{{ctx.last | default(none)}}"}}}
    row = [{"id": "start", "type": "start"}, *nodes, last]
    edges = [{"upstreamNodeID": before["id"], "downstreamNodeID": after["id"]} for before, after in pairwise(row)]
    return {"name": name, "nodes": row, "edges": edges}


HELLO = {"values": {"text": "Hello {{ctx.input.name}}"}}
GREETING = chain("greeting", {"id": "greet", "type": "set", "config": HELLO, "outputVariable": "last"})
WAITING = chain("waiting", {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}, "outputVariable": "last"})
