"""A folder, a database of each kind, and processes that stay in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.app import build
from anabranch.keys.access import Role
from anabranch.settings import Settings
from tests.hardening.drawing import EFFECTS
from tests.processes.launching import Staying

Launch = Callable[..., Staying]


class Installation:
    """What the processes of one test share: a folder (their ledger and gates) and a database."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.environment = {"ANABRANCH_DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"}

    def make_key(self) -> str:
        """A new key of the default tenant; brings an empty database to its schema, as every command does."""

        async def make() -> str:
            async with build(Settings(database_url=self.environment["ANABRANCH_DATABASE_URL"])).open_access() as access:
                return (await access.create_key(tenant_id="default", role=Role.ADMIN, actor="test")).key

        return asyncio.run(make())

    def begun(self) -> list[dict[str, Any]]:
        """Every execution that ever began."""
        ledger = self.folder / "effects.jsonl"
        return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """A folder and a database that is empty but for its schema."""
    if request.param == "postgresql":
        return Installation(tmp_path, request.getfixturevalue("postgres_url"))
    return Installation(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")


@pytest.fixture
def sqlite_installation(tmp_path: Path) -> Installation:
    """The same where the kind of database makes no difference."""
    return Installation(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Starts a process that stays, in an installation; what still runs at the end of the test is killed."""
    launched: list[Staying] = []

    def start(installation: Installation, *arguments: str | Path, **environment: str) -> Staying:
        launched.append(Staying(arguments, installation.folder, {**installation.environment, **environment}))
        return launched[-1]

    yield start
    for process in launched:
        process.close()


@pytest.fixture
def served(launch: Launch) -> Callable[..., Staying]:
    """Starts a server with a key of the default tenant, on a free port; ready."""

    def start(installation: Installation, *arguments: str | Path, **environment: str) -> Staying:
        key = installation.make_key()
        server = launch(installation, "serve", "--port", "0", "--import", EFFECTS, *arguments, **environment).ready()
        server.key = key
        return server

    return start
