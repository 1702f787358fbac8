"""Databases that are not there, not ours or broken: one line that names them, the right exit code, nothing lost."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.engine.store.schema import SCHEMA_REVISION
from anabranch.migrations import upgrade
from tests.hardening.command_line import Command
from tests.hardening.conftest import Write
from tests.hardening.drawing import PLAIN

SECRET = "s3cret"

# The user that owns nothing, on every system that we know.
NOBODY = 65_534


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{SECRET}@h/d",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///x.db?mode=memory",
        f"postgresql://u:{SECRET}@h:port/d",
        f"postgresql://u:{SECRET}@h:99999/d",
        "postgresqlx://h/d",
    ],
)
def test_a_url_of_no_database_of_ours_is_refused_at_once(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    by_flag = anabranch("runs", "list", "--database-url", url)
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", url)
    by_variable = anabranch("runs", "list")
    for printed in (by_flag, by_variable):
        assert printed.code == 2
        assert printed.err.startswith("error INVALID_SETTING: ")
        assert "postgresql://" in printed.err
        assert SECRET not in printed.err


def test_an_empty_variable_chooses_nothing_and_an_empty_flag_is_refused(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", "")
    assert anabranch("migrate").code == 0
    assert (folder / ".anabranch" / "anabranch.db").exists()
    assert anabranch("migrate", "--database-url", "").code == 2


def test_an_unknown_variable_is_refused_with_the_nearest_name(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_DATABASE_URI", "sqlite:///x.db")
    printed = anabranch("runs", "list", "--json")
    assert (printed.code, printed.document["error"]["code"]) == (2, "INVALID_SETTING")
    assert printed.document["error"]["details"] == {
        "name": "ANABRANCH_DATABASE_URI", "nearest": "ANABRANCH_DATABASE_URL"
    }  # fmt: skip


def test_a_server_that_is_not_there_is_waited_for_no_longer_than_asked(
    anabranch: Command, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer there
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("ANABRANCH_DATABASE_URL", f"postgresql://someone:{SECRET}@{address}/runs")
        monkeypatch.setenv("ANABRANCH_DATABASE_WAIT", "0")
        for_people = anabranch("run", write("plain.json", PLAIN))
        for_programs = anabranch("runs", "list", "--json")
    assert (for_people.code, for_programs.code) == (1, 1)
    assert for_people.err.startswith("error STORE_UNAVAILABLE: ") and address in for_people.err
    assert len(for_people.err.splitlines()) == 2
    assert for_programs.document["error"]["code"] == "STORE_UNAVAILABLE"
    assert SECRET not in for_people.err + for_programs.out


def _pages(path: Path) -> bytes:
    """What is in a file, but for SQLite's header, where it counts who has opened it."""
    return path.read_bytes()[100:] if path.is_file() else b""


def _corrupt(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(b"Dear Sir or Madam, " * 500), "file is not a database"),
        (_corrupt, "database disk image is malformed"),
        (lambda path: path.write_bytes(path.read_bytes()[:6_000]), "database disk image is malformed"),
    ],
    ids=["another file", "overwritten", "cut off"],
)
def test_a_broken_sqlite_file_is_named_and_left_as_it_is(
    anabranch: Command, write: Write, folder: Path, spoil: Callable[[Path], object], words: str
) -> None:
    path = folder / ".anabranch" / "anabranch.db"
    write("plain.json", PLAIN)
    assert anabranch("run", "plain.json").code == 0
    spoil(path)
    before = _pages(path)
    for arguments in (("run", "plain.json"), ("runs", "list"), ("migrate",)):
        printed = anabranch(*arguments)
        assert printed.code == 1
        first = printed.err.splitlines()[0]
        assert first == f"error STORE_UNAVAILABLE: SQLite database {path}: {words}"
    assert _pages(path) == before


def test_a_directory_where_the_sqlite_file_should_be_is_named(anabranch: Command, write: Write, folder: Path) -> None:
    path = folder / ".anabranch" / "anabranch.db"
    path.mkdir(parents=True)
    write("plain.json", PLAIN)
    for arguments in (("run", "plain.json"), ("migrate",)):
        printed = anabranch(*arguments)
        assert printed.code == 1
        assert printed.err.startswith(f"error STORE_UNAVAILABLE: SQLite database {path}: unable to open database file")
    printed = anabranch("runs", "list")  # it only reads: a database that is not there is what was typed
    assert printed.code == 2
    assert printed.err.startswith(f"error DATABASE_NOT_FOUND: there is no SQLite database {path}")


@pytest.mark.parametrize("place", ["file/x.db", "/proc/anabranch/x.db"], ids=["below a file", "in a read-only place"])
def test_a_directory_that_cannot_be_made_is_named(anabranch: Command, write: Write, place: str) -> None:
    write("file", b"in the way")
    printed = anabranch("run", write("plain.json", PLAIN), "--database-url", f"sqlite:///{place}")
    assert printed.code == 1
    assert printed.err.startswith("error STORE_UNAVAILABLE: the directory ")
    assert len(printed.err.splitlines()) == 2


@pytest.fixture
def plain_user() -> Iterator[None]:
    """Permissions do not hold root back: for the time of the test it is nobody."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


@pytest.fixture
def closed_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with a workflow and an empty database, in which nobody may write."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "plain.json").write_text(json.dumps(PLAIN))
        upgrade(f"sqlite:///{directory / 'closed.db'}")
        (directory / "closed.db").chmod(0o444)
        directory.chmod(0o555)
        monkeypatch.chdir(directory)
        yield directory
        directory.chmod(0o755)


@pytest.mark.parametrize("name", ["new.db", "closed.db", ".anabranch/new.db"])
def test_a_database_that_may_not_be_written_is_named(
    anabranch: Command, closed_folder: Path, plain_user: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(closed_folder)
    printed = anabranch("run", "plain.json", "--database-url", f"sqlite:///{name}")
    assert printed.code == 1
    assert printed.err.startswith("error STORE_UNAVAILABLE: ") and str(closed_folder) in printed.err
    assert len(printed.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("version", "words"), [("9999", "which is newer"), ("0000", f"works with version {SCHEMA_REVISION}")]
)
def test_another_schema_version_is_refused_with_both_versions_and_nothing_is_touched(
    anabranch: Command, write: Write, folder: Path, version: str, words: str
) -> None:
    path = folder / ".anabranch" / "anabranch.db"
    write("plain.json", PLAIN)
    assert anabranch("run", "plain.json").code == 0
    _set_version(path, version)
    for arguments in (("run", "plain.json"), ("runs", "list")):
        printed = anabranch(*arguments)
        first = printed.err.splitlines()[0]
        assert printed.code == 1
        assert first.startswith("error SCHEMA_MISMATCH: ") and words in first
        assert version in first and SCHEMA_REVISION in first
    migrated = anabranch("migrate")
    assert migrated.code == 1
    assert migrated.err.startswith("error SCHEMA_MISMATCH: ") and version in migrated.err

    _set_version(path, SCHEMA_REVISION)
    assert len(anabranch("runs", "list", "--json").document["items"]) == 1


def _set_version(path: Path, version: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
