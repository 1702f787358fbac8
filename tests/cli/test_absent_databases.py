"""Only what begins something makes a database; every other command names the databases that there are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.core import TyperGroup

from anabranch.cli.entry import application
from anabranch.migrations import upgrade
from tests.cli.conftest import GREETING, Command, Write

# A command that reads, or changes what is there → arguments with which it would succeed.
NEEDS_A_DATABASE: dict[str, tuple[str, ...]] = {
    "workflows list": (),
    "workflows activate": ("a-workflow", "1"),
    "workflows pause": ("a-workflow",),
    "workflows resume": ("a-workflow",),
    "pause": (),
    "resume": (),
    "workflows show": ("greeting",),
    "workflows export": ("greeting",),
    "workflows delete": ("greeting",),
    "runs list": (),
    "runs show": ("an-id",),
    "runs log": ("an-id",),
    "runs start": ("greeting",),
    "runs rerun": ("an-id",),
    "runs retry": ("an-id",),
    "runs fork": ("an-id",),
    "runs bulk": ("retry", "--workflow", "greeting"),
    "runs pause": ("an-id",),
    "runs resume": ("an-id",),
    "runs cancel": ("an-id",),
    "runs signal": ("an-id", "approve"),
    "runs watch": ("an-id",),
    "explain": ("an-id",),
    "replay": ("--workflow", "greeting", "--version", "1"),
    "verify": ("an-id",),
    "runs export": ("an-id",),
    "runs console": ("an-id",),
    "secrets list": (),
    "secrets delete": ("TOKEN",),
    "sources list": (),
    "sources delete": ("shop",),
    "queries add": ("orders", "--source", "shop", "--sql", "SELECT 1"),
    "queries list": (),
    "queries show": ("orders",),
    "queries delete": ("orders",),
    "queries run": ("orders",),
    "schedules create": ("nightly", "greeting", "--every", "1h"),
    "schedules list": (),
    "schedules trigger": ("nightly",),
    "schedules backfill": ("nightly", "--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z"),
    "schedules delete": ("nightly",),
    "topics subscribe": ("orders.*", "greeting"),
    "topics list": (),
    "topics unsubscribe": ("an-id",),
    "topics publish": ("orders.new", "{}"),
    "keys list": (),
    "keys revoke": ("an-id",),
    "audit": (),
    "dead-letters": (),
    "variables list": (),
    "variables get": ("REGION",),
    "variables delete": ("REGION",),
    "purge": (),
    "backup": ("copy.db",),
    "restore-check": (),
}
MAKES_ONE = {
    *("dev", "serve", "worker", "run", "migrate", "workflows import"),
    *("import n8n", "keys create", "secrets set", "variables set", "sources add"),
}
OPENS_NONE = {"new", "validate", "fmt", "schema", "openapi", "version", "doctor", "docs", "executor"}


def test_every_command_is_one_of_the_three_kinds() -> None:
    every = set()
    for name, found in application.commands.items():
        every |= {f"{name} {verb}" for verb in found.commands} if isinstance(found, TyperGroup) else {name}

    assert every == {*NEEDS_A_DATABASE, *MAKES_ONE, *OPENS_NONE}


@pytest.mark.parametrize("command", NEEDS_A_DATABASE)
def test_a_mistyped_path_is_told_with_the_databases_that_there_are(
    anabranch: Command, folder: Path, command: str
) -> None:
    upgrade(f"sqlite:///{folder / 'data' / 'shop.db'}")
    arguments = (*command.split(), *NEEDS_A_DATABASE[command])

    printed = anabranch(*arguments, "--database-url", f"sqlite:///{folder}/data/shpo.db")

    assert printed.code == 2
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"error DATABASE_NOT_FOUND: there is no SQLite database {folder}/data/shpo.db",
        f"hint: There is sqlite:///{folder}/data/shop.db: name one with --database-url.",
    ]
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*")) == ["data", "data/shop.db"]


@pytest.mark.parametrize("command", NEEDS_A_DATABASE)
def test_in_a_folder_without_a_database_nothing_is_made(anabranch: Command, folder: Path, command: str) -> None:
    printed = anabranch(*command.split(), *NEEDS_A_DATABASE[command])

    assert (printed.code, printed.err.split(":")[0]) == (2, "error DATABASE_NOT_FOUND")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [("run", "greeting"), ("run", "--resume", "an-id"), ("run", "absent.json")])
def test_a_run_that_begins_nothing_makes_no_database(
    anabranch: Command, folder: Path, arguments: tuple[str, ...]
) -> None:
    assert anabranch(*arguments).code == 2
    assert list(folder.iterdir()) == []


def test_a_folder_below_the_database_is_told_of_it(
    anabranch: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anabranch("migrate").code == 0
    (folder / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "down")

    printed = anabranch("runs", "list")

    assert printed.code == 2
    assert f"sqlite:///{folder}/.anabranch/anabranch.db" in printed.err


def test_three_slashes_before_an_absolute_path_are_noticed(anabranch: Command, folder: Path) -> None:
    upgrade(f"sqlite:///{folder}/data/shop.db")

    printed = anabranch("runs", "list", "--database-url", f"sqlite://{folder}/data/shop.db")

    assert printed.code == 2
    assert f"There is sqlite:///{folder}/data/shop.db" in printed.err


def test_files_of_others_stay_as_they_are(anabranch: Command, folder: Path) -> None:
    (folder / "empty.db").touch()
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (number INTEGER)")
    (folder / "notes.db").write_text("no database at all\n" * 1_000)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    for name in ("empty.db", "shop.db"):
        printed = anabranch("runs", "list", "--database-url", f"sqlite:///{name}")
        assert (printed.code, printed.err.split(":")[0]) == (2, "error DATABASE_NOT_FOUND")
        assert f"{name} has no tables of anabranch" in printed.err
    for name in (*before, "."):
        assert anabranch("doctor", "--database-url", f"sqlite:///{folder}/{name}").code != 0
    assert anabranch("runs", "list", "--database-url", "sqlite:///notes.db").code == 1

    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_folder_is_no_database(anabranch: Command, folder: Path) -> None:
    assert anabranch("migrate").code == 0

    printed = anabranch("runs", "list", "--database-url", "sqlite:///.anabranch")

    assert (printed.code, printed.err.split(":")[0]) == (2, "error DATABASE_NOT_FOUND")
    assert "There is sqlite:///.anabranch/anabranch.db" in printed.err


def test_a_name_that_no_file_can_have_is_told_like_any_other(anabranch: Command, folder: Path) -> None:
    printed = anabranch("runs", "list", "--database-url", f"sqlite:///{'long' * 100}.db")

    assert (printed.code, printed.err.split(":")[0]) == (2, "error DATABASE_NOT_FOUND")


def test_an_empty_postgresql_database_stays_empty(anabranch: Command, empty_postgres_url: str) -> None:
    for _ in range(2):
        printed = anabranch("runs", "list", "--database-url", empty_postgres_url)

        assert (printed.code, printed.err.split(":")[0]) == (2, "error DATABASE_NOT_FOUND")


def test_what_begins_something_makes_the_database(
    anabranch: Command, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeting = write("greeting.json", GREETING)
    begins: dict[str, tuple[str | Path, ...]] = {
        "run": (greeting, "--input", '{"name": "Ada"}'),
        "migrate": (),
        "workflows import": (greeting,),
        "keys create": (),
        "secrets set": ("TOKEN", "--value", "x"),
        "sources add": ("shop", "sqlite:///shop.sqlite"),
    }
    for number, (command, arguments) in enumerate(begins.items()):
        directory = folder / str(number)
        directory.mkdir()
        (directory / "shop.sqlite").touch()
        monkeypatch.chdir(directory)

        assert anabranch(*command.split(), *arguments).code == 0
        assert (directory / ".anabranch" / "anabranch.db").exists()
