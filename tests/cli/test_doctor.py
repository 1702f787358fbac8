"""`anabranch doctor` tells what is in force and where each value comes from, and never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.migrations import upgrade
from anabranch.settings import Settings, environment_name
from tests.cli.conftest import Command


def test_each_value_is_told_with_its_source(anabranch: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "anabranch.toml").write_text('lease = "11s"\nport = 1\n')
    (folder / ".env").write_text("ANABRANCH_PORT=1234\nANABRANCH_HELD_MAX=5\n")
    (folder / "key").write_text("hush")
    monkeypatch.setenv("ANABRANCH_HELD_MAX", "7")
    monkeypatch.setenv("ANABRANCH_API_KEY_FILE", "key")
    upgrade(f"sqlite:///{folder / 'x.db'}")

    document = anabranch("doctor", "--database-url", "sqlite:///x.db", "--json").document
    rows = {line.split()[0]: line.split(maxsplit=2) for line in anabranch("doctor").out.splitlines()}

    values = {
        name: (document["settings"][f"ANABRANCH_{name}"], document["sources"][f"ANABRANCH_{name}"])
        for name in ("DATABASE_URL", "HELD_MAX", "PORT", "LEASE", "GRACE", "API_KEY")
    }
    assert values == {
        "DATABASE_URL": ("sqlite:///x.db", {"kind": "flag", "name": "--database-url", "path": None}),
        "HELD_MAX": (7, {"kind": "environment", "name": "ANABRANCH_HELD_MAX", "path": None}),
        "PORT": (1234, {"kind": "file", "name": "ANABRANCH_PORT", "path": str(folder / ".env")}),
        "LEASE": ("11s", {"kind": "file", "name": "lease", "path": str(folder / "anabranch.toml")}),
        "GRACE": ("30s", {"kind": "default", "name": None, "path": None}),
        "API_KEY": ("***", {"kind": "environment", "name": "ANABRANCH_API_KEY_FILE", "path": None}),
    }
    assert set(document["sources"]) == {environment_name(field) for field in Settings.model_fields}
    assert rows["ANABRANCH_LEASE"][1:] == ["11s", f"lease in {folder / 'anabranch.toml'}"]
    assert rows["ANABRANCH_PORT"][1:] == ["1234", f"ANABRANCH_PORT in {folder / '.env'}"]
    assert rows["ANABRANCH_HELD_MAX"][1:] == ["7", "ANABRANCH_HELD_MAX in the environment"]
    assert rows["ANABRANCH_GRACE"][1:] == ["30s", "default"]


@pytest.mark.parametrize(
    "url", ["postgresql://u:hunter2@127.0.0.1:1/x", "postgresql://u@127.0.0.1:1/x?password=hunter2"]
)
def test_no_password_is_shown(anabranch: Command, url: str) -> None:
    for printed in (anabranch("doctor", "--database-url", url), anabranch("doctor", "--database-url", url, "--json")):
        assert "hunter2" not in printed.out + printed.err
        assert "***" in printed.out


def test_before_the_first_database_is_made_nothing_is_wrong(anabranch: Command, folder: Path) -> None:
    printed = anabranch("doctor")

    assert printed.code == 0
    assert "there is no database yet" in printed.out
    assert list(folder.iterdir()) == []


def test_a_mistyped_path_is_told_with_the_databases_that_there_are(anabranch: Command, folder: Path) -> None:
    upgrade(f"sqlite:///{folder / 'shop.db'}")

    printed = anabranch("doctor", "--database-url", "sqlite:///shpo.db")

    assert printed.code == 2
    assert "there is no database at sqlite:///shpo.db" in printed.out
    assert "hint: There is sqlite:///shop.db" in printed.out
    assert [file.name for file in folder.iterdir()] == ["shop.db"]
