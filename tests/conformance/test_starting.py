"""Starting: what a SQL store says about a database that is absent, strange or not its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.engine.store.opening import open_store
from anabranch.errors import SchemaMismatch, SettingsError, StoreUnavailable


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without any table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    return str(request.getfixturevalue("empty_postgres_url"))


async def test_a_database_without_tables_is_refused_with_the_way_out(empty_url: str) -> None:
    store = open_store(empty_url)
    with pytest.raises(SchemaMismatch) as refusal:
        await store.start()
    assert "migrate" in refusal.value.advice
    await store.stop()


async def test_an_absent_server_is_named_and_its_password_is_not() -> None:
    # Port 9 (discard) of this machine: nobody answers, and at once.
    store = open_store("postgresql://somebody:s3cret@127.0.0.1:9/orders", connect_wait_s=0)
    with pytest.raises(StoreUnavailable) as outage:
        await store.start()
    assert "127.0.0.1" in outage.value.message
    assert "9" in outage.value.message
    assert "s3cret" not in str(outage.value.as_json())


async def test_a_file_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("not a directory")
    store = open_store(f"sqlite:///{tmp_path / 'a-file' / 'orders.db'}")
    with pytest.raises(StoreUnavailable, match="a-file"):
        await store.start()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "orders.db").write_text("this is a text, and long enough to be looked at as a database header" * 100)
    store = open_store(f"sqlite:///{tmp_path / 'orders.db'}")
    with pytest.raises(StoreUnavailable, match=r"orders\.db"):
        await store.start()


@pytest.mark.parametrize("url", ["mysql://localhost/orders", "orders.db", "", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        open_store(url)


async def test_a_store_may_be_stopped_before_it_starts_and_leaves_nothing(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'orders.db'}")
    await store.stop()
    await store.stop()
    assert not any(os.scandir(tmp_path))
