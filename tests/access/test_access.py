"""API keys: made once, let in by their hash, refused at once when they are revoked, on both databases."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import update

from anabranch.audit.audit_table import AuditTable
from anabranch.audit.counted_entries import CountedEntries
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import InvalidRequest, NotFound
from anabranch.keys.access import ACTIVE_KEYS_MAX, CACHE_S, LAST_USED_PAUSE_MS, AccessService, CreatedKey, Role
from anabranch.keys.key_schema import api_keys
from anabranch.keys.key_table import KeyTable


class Watch:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def access(keys: KeyTable, trail: AuditTable, watch: Watch) -> AsyncIterator[AccessService]:
    service = AccessService(keys, CountedEntries(trail), monotonic=watch)
    yield service
    await service.stop()


async def create(access: AccessService, tenant: str = "acme", role: Role = Role.EDITOR) -> CreatedKey:
    return await access.create_key(tenant_id=tenant, role=role, actor="cli")


async def test_a_new_key_says_whose_it_is_and_what_it_may(access: AccessService) -> None:
    created = await create(access, role=Role.OPERATOR)
    principal = await access.authenticate(created.key)
    assert principal is not None
    assert (principal.tenant_id, principal.role, principal.key_id) == ("acme", Role.OPERATOR, created.key_id)


async def test_a_key_is_recognisable_long_and_new_each_time(access: AccessService) -> None:
    created = [await create(access) for _ in range(20)]
    assert all(each.key.startswith("ab_") and len(each.key) == 46 for each in created)
    assert len({each.key for each in created}) == len({each.key_id for each in created}) == 20
    assert not any(each.key in repr(each) for each in created)


async def test_only_its_hash_is_stored(access: AccessService, keys: KeyTable) -> None:
    created = await create(access)
    [row] = await keys.list_keys(tenant_id="acme", limit=10)
    assert row.digest == hashlib.sha256(created.key.encode()).hexdigest()
    assert created.key not in repr(row) and created.key[3:] not in repr(row)


@pytest.mark.parametrize(
    "garbage",
    ["", " ", "ab_", "ab_" + "a" * 43, "ab_" + "a" * 44, "x" * 10_000_000, "ключ", "ab_\x00", "\ud800", "a\nb", "'--"],
    ids=["empty", "blank", "prefix", "unknown", "longer", "endless", "cyrillic", "nul", "surrogate", "lines", "sql"],
)
async def test_what_is_no_key_is_refused(access: AccessService, garbage: str) -> None:
    await create(access)
    assert await access.authenticate(garbage) is None


async def test_a_key_with_one_letter_changed_is_refused(access: AccessService) -> None:
    key = (await create(access)).key
    assert await access.authenticate(key[:-1] + ("A" if key[-1] != "A" else "B")) is None
    assert await access.authenticate(key + "a") is None
    assert await access.authenticate(key) is not None


async def test_a_revoked_key_is_refused_at_once_where_it_was_revoked(access: AccessService) -> None:
    created = await create(access)
    assert await access.authenticate(created.key) is not None
    assert (await access.revoke_key(created.key_id, tenant_id="acme", actor="cli")).revoked_at is not None
    assert await access.authenticate(created.key) is None


async def test_a_key_that_was_revoked_elsewhere_is_refused_two_seconds_later(
    access: AccessService, keys: KeyTable, trail: AuditTable, watch: Watch
) -> None:
    created = await create(access)
    assert await access.authenticate(created.key) is not None
    elsewhere = AccessService(keys, CountedEntries(trail))
    await elsewhere.revoke_key(created.key_id, tenant_id=None, actor="cli")
    watch.seconds += CACHE_S
    assert await access.authenticate(created.key) is None


async def test_a_key_in_use_is_looked_up_every_two_seconds_only(
    access: AccessService, store: SqlStore, watch: Watch
) -> None:
    created = await create(access)
    assert await access.authenticate(created.key) is not None
    await store.stop()  # nobody can be asked now
    watch.seconds += CACHE_S - 0.001
    assert await access.authenticate(created.key) is not None


async def test_revoking_twice_changes_nothing(access: AccessService, trail: AuditTable) -> None:
    created = await create(access)
    first = await access.revoke_key(created.key_id, tenant_id=None, actor="cli")
    assert await access.revoke_key(created.key_id, tenant_id=None, actor="cli") == first
    rows = await trail.list_rows(tenant_id="acme", limit=10, before=None)
    assert [row.action for row in rows] == ["key.revoked", "key.created"]


async def test_another_tenants_key_is_not_there(access: AccessService) -> None:
    created = await create(access)
    with pytest.raises(NotFound):
        await access.revoke_key(created.key_id, tenant_id="other", actor="cli")
    assert await access.list_keys("other") == []
    assert await access.authenticate(created.key) is not None


@pytest.mark.parametrize("key_id", ["", "key_0", "\x00", "\ud800"])
async def test_a_key_that_is_not_there_cannot_be_revoked(access: AccessService, key_id: str) -> None:
    with pytest.raises(NotFound):
        await access.revoke_key(key_id, tenant_id=None, actor="cli")


async def test_an_expired_key_is_refused_and_does_not_count(access: AccessService, store: SqlStore) -> None:
    now = await store.now()
    past = await access.create_key(tenant_id="acme", role=Role.ADMIN, actor="cli", expires_at=now)
    assert await access.authenticate(past.key) is None
    assert not await access.has_keys()
    assert await access.valid_keys({past.key_id}) == set()
    later = await access.create_key(tenant_id="acme", role=Role.ADMIN, actor="cli", expires_at=now + 3_600_000)
    assert await access.authenticate(later.key) is not None


async def test_a_role_that_nobody_knows_is_refused(access: AccessService, store: SqlStore) -> None:
    created = await create(access)
    await store.write(lambda connection: connection.execute(update(api_keys).values(role="superuser")))
    assert await access.authenticate(created.key) is None


async def test_open_connections_learn_by_one_statement_which_keys_still_hold(access: AccessService) -> None:
    kept, revoked = await create(access), await create(access)
    own = access.add_own_key(tenant_id="acme", role=Role.ADMIN)
    await access.revoke_key(revoked.key_id, tenant_id=None, actor="cli")
    asked = {kept.key_id, revoked.key_id, own.key_id, "key_unknown"}
    assert await access.valid_keys(asked) == {kept.key_id, own.key_id}
    assert await access.valid_keys(set()) == set()


async def test_an_own_key_is_known_here_only(access: AccessService, keys: KeyTable, trail: AuditTable) -> None:
    assert not await access.has_keys()
    own = access.add_own_key(tenant_id="default", role=Role.ADMIN)
    principal = await access.authenticate(own.key)
    assert principal is not None and principal.tenant_id == "default" and principal.role is Role.ADMIN
    assert await access.has_keys()
    assert await AccessService(keys, CountedEntries(trail)).authenticate(own.key) is None
    assert await access.list_keys(None) == []


async def test_an_own_key_may_be_chosen(access: AccessService) -> None:
    access.add_own_key(tenant_id="default", role=Role.ADMIN, key="local")
    assert await access.authenticate("local") is not None
    for refused in ("", "a b", "ü", "x" * 256):
        with pytest.raises(InvalidRequest):
            access.add_own_key(tenant_id="default", role=Role.ADMIN, key=refused)


async def test_the_last_use_is_written_beside_the_request_and_once_a_minute(
    access: AccessService, keys: KeyTable, store: SqlStore, watch: Watch
) -> None:
    async def last_used() -> int | None:
        while access._touching:
            await next(iter(access._touching))
        return (await keys.list_keys(tenant_id="acme", limit=1))[0].last_used_at

    created = await create(access)
    assert await last_used() is None
    await access.authenticate(created.key)
    first = await last_used()
    assert first is not None

    await store.write(lambda connection: connection.execute(update(api_keys).values(last_used_at=1)))
    watch.seconds += CACHE_S
    await access.authenticate(created.key)
    assert await last_used() == 1, "this process wrote it a moment ago"
    watch.seconds += LAST_USED_PAUSE_MS / 1000
    await access.authenticate(created.key)
    assert await last_used() != 1


async def test_a_tenant_has_so_many_keys_and_no_more(
    access: AccessService, keys: KeyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.keys.access.ACTIVE_KEYS_MAX", 2)
    first = await create(access)
    await create(access)
    with pytest.raises(InvalidRequest, match="2 keys already"):
        await create(access)
    await create(access, tenant="other")
    await access.revoke_key(first.key_id, tenant_id=None, actor="cli")
    await create(access)
    assert ACTIVE_KEYS_MAX == 1_000


@pytest.mark.parametrize("tenant", ["", "a" * 65, "a\nb", "\ud800"])
async def test_a_key_is_some_tenants(access: AccessService, tenant: str) -> None:
    with pytest.raises(InvalidRequest):
        await create(access, tenant=tenant)


def test_each_role_may_what_those_before_it_may_and_executors_stand_alone() -> None:
    assert [[role.may(needed) for needed in Role] for role in Role] == [
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, True, True, False, False],
        [True, True, True, True, False],
        [False, False, False, False, True],
    ]
