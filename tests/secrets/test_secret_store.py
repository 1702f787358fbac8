"""A tenant's secrets: stored sealed, listed without values, read by nodes, on both databases."""

from __future__ import annotations

import asyncio
import os

import pytest
from sqlalchemy import text

from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import InvalidRequest, SecretKeyMissing, SecretKeyWrong, SecretUnknown
from anabranch.secrets.cipher import SecretCipher
from anabranch.secrets.secret_store import SecretStore
from anabranch.secrets.secret_table import SecretTable

KEY = bytes(range(32))
OTHER_KEY = os.urandom(32)


@pytest.fixture
def secrets(store: SqlStore) -> SecretStore:
    return SecretStore(SecretTable(store), lambda: SecretCipher(KEY))


async def test_a_stored_secret_can_be_read_by_nodes(secrets: SecretStore) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="ü t0ken\n")
    await secrets.set(tenant_id="a", name="OTHER", value="x")
    assert await secrets.read("a", {"TOKEN", "OTHER"}) == {"TOKEN": "ü t0ken\n", "OTHER": "x"}
    assert await secrets.read("a", set()) == {}


async def test_setting_it_again_replaces_it_and_counts(secrets: SecretStore) -> None:
    first = await secrets.set(tenant_id="a", name="TOKEN", value="1")
    second = await secrets.set(tenant_id="a", name="TOKEN", value="2")
    assert (first.version, second.version) == (1, 2)
    assert second.created_at == first.created_at <= second.updated_at
    assert await secrets.read("a", ["TOKEN"]) == {"TOKEN": "2"}


async def test_the_list_has_names_and_times_and_no_values(secrets: SecretStore) -> None:
    for name in ("b", "A", "_c"):
        await secrets.set(tenant_id="a", name=name, value="v4lue")
    entries = await secrets.list(tenant_id="a")
    assert [entry.name for entry in entries] == ["A", "_c", "b"]
    assert "v4lue" not in repr(entries)


async def test_another_tenants_secrets_are_not_there(secrets: SecretStore) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="1")
    assert await secrets.list(tenant_id="b") == []
    with pytest.raises(SecretUnknown, match="TOKEN"):
        await secrets.read("b", ["TOKEN"])
    with pytest.raises(SecretUnknown):
        await secrets.delete(tenant_id="b", name="TOKEN")
    await secrets.set(tenant_id="b", name="TOKEN", value="2")
    assert (await secrets.read("a", ["TOKEN"]), await secrets.read("b", ["TOKEN"])) == ({"TOKEN": "1"}, {"TOKEN": "2"})


async def test_a_deleted_secret_is_unknown_and_its_name_is_free(secrets: SecretStore) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="1")
    await secrets.delete(tenant_id="a", name="TOKEN")
    with pytest.raises(SecretUnknown, match="no secret TOKEN"):
        await secrets.read("a", ["TOKEN"])
    assert (await secrets.set(tenant_id="a", name="TOKEN", value="2")).version == 1


async def test_every_missing_secret_is_named(secrets: SecretStore) -> None:
    with pytest.raises(SecretUnknown, match="no secrets A, B"):
        await secrets.read("a", ["B", "A"])


@pytest.mark.parametrize("name", ["", "9a", "a-b", "a.b", "a b", "ü", "a" * 65, "a\n", "{{x}}"])
async def test_a_name_that_no_template_could_write_is_refused(secrets: SecretStore, name: str) -> None:
    with pytest.raises(InvalidRequest, match="not a valid name of a secret"):
        await secrets.set(tenant_id="a", name=name, value="x")


@pytest.mark.parametrize("value", ["", "a\x00b", "\ud800", "x" * 65_537])
async def test_a_value_that_cannot_be_kept_is_refused_and_not_repeated(secrets: SecretStore, value: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await secrets.set(tenant_id="a", name="TOKEN", value=value)
    assert len(refusal.value.message) < 100


async def test_nothing_readable_is_stored(secrets: SecretStore, database_url: str) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="v4lue-in-plain")
    assert b"v4lue" not in _raw(database_url)


async def test_a_row_that_was_copied_to_another_tenant_does_not_open(secrets: SecretStore, database_url: str) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="1")
    await secrets.set(tenant_id="b", name="TOKEN", value="2")
    _change(database_url, "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE tenant_id = 'a')")
    with pytest.raises(SecretKeyWrong, match="copied from another place"):
        await secrets.read("b", ["TOKEN"])


async def test_an_older_version_that_was_put_back_does_not_open(secrets: SecretStore, database_url: str) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="1")
    _change(database_url, "UPDATE secrets SET version = 2")
    with pytest.raises(SecretKeyWrong):
        await secrets.read("a", ["TOKEN"])


async def test_another_key_reads_nothing_and_is_not_mixed_in(secrets: SecretStore, store: SqlStore) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="1")
    other = SecretStore(SecretTable(store), lambda: SecretCipher(OTHER_KEY))
    with pytest.raises(SecretKeyWrong):
        await other.read("a", ["TOKEN"])
    with pytest.raises(SecretKeyWrong):
        await other.set(tenant_id="b", name="OTHER", value="2")
    assert [entry.name for entry in await other.list(tenant_id="a")] == ["TOKEN"]
    assert await other.list(tenant_id="b") == []


async def test_without_a_key_names_can_be_listed_and_deleted_and_nothing_else(
    secrets: SecretStore, store: SqlStore
) -> None:
    await secrets.set(tenant_id="a", name="TOKEN", value="1")
    keyless = SecretStore(SecretTable(store), lambda: None)
    assert [entry.name for entry in await keyless.list(tenant_id="a")] == ["TOKEN"]
    with pytest.raises(SecretKeyMissing):
        await keyless.read("a", ["TOKEN"])
    with pytest.raises(SecretKeyMissing):
        await keyless.set(tenant_id="a", name="TOKEN", value="2")
    await keyless.delete(tenant_id="a", name="TOKEN")
    assert await keyless.list(tenant_id="a") == []


async def test_many_writers_of_one_secret_get_different_versions(secrets: SecretStore) -> None:
    entries = await asyncio.gather(
        *(secrets.set(tenant_id="a", name="TOKEN", value=str(number)) for number in range(8))
    )
    assert sorted(entry.version for entry in entries) == list(range(1, 9))
    last = max(range(8), key=lambda number: entries[number].version)
    assert await secrets.read("a", ["TOKEN"]) == {"TOKEN": str(last)}


def _raw(url: str) -> bytes:
    engine = dialect_of(url).engine(commits=False)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT tenant_id, name, key_id, sealed FROM secrets")).all()
    engine.dispose()
    return b"".join(part if isinstance(part, bytes) else str(part).encode() for row in rows for part in row)


def _change(url: str, statement: str) -> None:
    engine = dialect_of(url).engine(commits=False)
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()
