"""Password files that libpq does not use: it prints nothing about them, and one that is a mistake is named once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from anabranch.engine.store.opening import open_hint_line, open_store


class _Listening(logging.Logger):
    """A log of its own: what other tests have done to that of the process does not matter here."""

    def __init__(self, told: list[str]) -> None:
        super().__init__("password files")
        self._told = told

    def handle(self, record: logging.LogRecord) -> None:
        self._told.append(record.getMessage())


async def connected(url: str) -> None:
    """Open every kind of connection."""
    store = open_store(url)
    await store.start()
    line = open_hint_line(store)
    assert line is not None
    await line.send({})
    await line.close()
    await store.stop()


@pytest.mark.parametrize("kind", ["device", "readable", "absent", "fine"])
async def test_a_password_file_that_is_not_used_is_no_warning_of_libpq(
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    told: list[str] = []
    monkeypatch.setattr("anabranch.engine.store.postgresql.password_file.log", _Listening(told))
    file = tmp_path / "passwords"
    if kind in ("readable", "fine"):
        file.write_text("*:*:*:*:none\n")
        file.chmod(0o644 if kind == "readable" else 0o600)
    monkeypatch.setenv("PGPASSFILE", "/dev/null" if kind == "device" else str(file))

    await connected(postgres_url)
    await connected(postgres_url)

    assert "password file" not in capfd.readouterr().err
    assert len(told) == (kind == "readable")
    assert all(str(file) in line and "chmod 600" in line for line in told)
