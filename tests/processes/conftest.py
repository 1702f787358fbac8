"""A folder, a database of each kind, and processes that stay in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hardening.command_line import EXECUTABLE
from tests.hardening.drawing import EFFECTS
from tests.processes.launching import Staying

Launch = Callable[..., Staying]


class Place:
    """What the processes of one test share: a folder (their ledger and gates) and a database."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.environment = {"ANABRANCH_DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"}

    def command(self, *arguments: str | Path) -> Any:
        """The JSON document that a short command prints."""
        done = subprocess.run(
            [EXECUTABLE, *arguments, "--json"],
            cwd=self.folder,
            env={**_environ(), **self.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def save(self, document: dict[str, Any]) -> None:
        path = self.folder / "workflow.json"
        path.write_text(json.dumps(document))
        self.command("workflows", "import", path, "--import", EFFECTS)

    def begun(self) -> list[dict[str, Any]]:
        """Every execution that ever began."""
        ledger = self.folder / "effects.jsonl"
        return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder and a database that is empty but for its schema."""
    if request.param == "postgresql":
        return Place(tmp_path, request.getfixturevalue("postgres_url"))
    return Place(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    """The same where the kind of database makes no difference."""
    return Place(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Starts a process that stays, in a place; what still runs at the end of the test is killed."""
    launched: list[Staying] = []

    def start(place: Place, *arguments: str | Path, **environment: str) -> Staying:
        launched.append(Staying(arguments, place.folder, {**place.environment, **environment}))
        return launched[-1]

    yield start
    for process in launched:
        process.close()


@pytest.fixture
def served(launch: Launch) -> Callable[..., Staying]:
    """Starts a server with a key of the default tenant, on a free port; ready."""

    def start(place: Place, *arguments: str | Path, **environment: str) -> Staying:
        key = place.command("keys", "create", "--tenant", "default", "--role", "admin")["key"]
        server = launch(place, "serve", "--port", "0", "--import", EFFECTS, *arguments, **environment).ready()
        server.key = key
        return server

    return start
