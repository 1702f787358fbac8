"""The key is given, or made for a person at work on the embedded database; never in anybody else's place."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from anabranch.app import build
from anabranch.errors import SecretKeyMissing, SettingsError
from anabranch.secrets.key import KEY_FILE, find_key
from anabranch.settings import Settings

GIVEN = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_given_key_is_used_and_none_is_made() -> None:
    assert find_key(GIVEN, embedded=True, makes=True) == bytes(range(32))
    assert not KEY_FILE.exists()


def test_one_is_made_once_for_the_embedded_database_and_kept_for_its_owner() -> None:
    made = find_key(None, embedded=True, makes=True)
    assert made is not None and len(made) == 32
    assert find_key(None, embedded=True, makes=True) == find_key(None, embedded=True, makes=False) == made
    assert KEY_FILE.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in KEY_FILE.parent.iterdir()] == ["secret.key"]


def test_none_is_made_for_reading_or_for_another_database() -> None:
    assert find_key(None, embedded=True, makes=False) is None
    assert find_key(None, embedded=False, makes=True) is None
    assert not KEY_FILE.exists()


def test_the_file_beside_the_embedded_database_is_not_for_another_one() -> None:
    find_key(None, embedded=True, makes=True)
    assert find_key(None, embedded=False, makes=False) is None


def test_a_damaged_key_file_stops_clearly_and_is_not_replaced() -> None:
    find_key(None, embedded=True, makes=True)
    KEY_FILE.write_text("half a k")
    with pytest.raises(SettingsError, match=r"secret\.key"):
        find_key(None, embedded=True, makes=True)
    assert KEY_FILE.read_text() == "half a k"


def test_a_key_file_that_others_may_read_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    find_key(None, embedded=True, makes=True)
    KEY_FILE.chmod(0o644)
    find_key(None, embedded=True, makes=False)
    assert "chmod 600" in caplog.text


@pytest.mark.parametrize("text", ["", "short", GIVEN[:-4]])
def test_a_given_key_that_is_none_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        find_key(text, embedded=True, makes=True)
    assert not text or text not in refusal.value.message


async def test_who_started_without_a_key_finds_the_one_that_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANABRANCH_DATABASE_URL", raising=False)
    async with build(Settings()).open_secrets(makes_key=False) as secrets:
        with pytest.raises(SecretKeyMissing):
            await secrets.set(tenant_id="a", name="TOKEN", value="1")
        find_key(None, embedded=True, makes=True)
        await secrets.set(tenant_id="a", name="TOKEN", value="1")
        assert await secrets.read("a", ["TOKEN"]) == {"TOKEN": "1"}
