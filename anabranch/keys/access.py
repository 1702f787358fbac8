"""Authenticate API keys, and create and revoke them.

Called by every API for each request (`authenticate`), and by the commands and routes that create and revoke keys. Knows
no HTTP. A key is 256 random bits, shown once; kept is its SHA-256, so that finding a key by its hash tells nothing
through the time it takes. A key that is unknown, malformed, expired, revoked, or has an unknown role is rejected.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Any

from anabranch.audit.audit_trail import AuditEntry
from anabranch.audit.counted_entries import CountedEntries
from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph.pools import EVERY_POOL, POOL_NAME_PATTERN, is_pool_name
from anabranch.errors import InvalidRequest, NotFound, NotPermitted, StoreUnavailable
from anabranch.keys.api_keys import ApiKey, ApiKeyRows

logger = logging.getLogger("anabranch.access")

# What a key begins with: people and scanners of repositories recognise it.
KEY_PREFIX = "ab_"

# 256 bits cannot be guessed, so a fast hash without salt is enough.
KEY_RANDOM_BYTES = 32

# 2 s: how long a process may still accept a revoked key that it has just looked up.
CACHE_S = 2.0

# 10,000 keys in the cache, some 5 MB; beyond that the longest unused is looked up again.
CACHED_MAX = 10_000

# Once a minute is enough to tell a key in use from a forgotten one, and costs no request anything.
LAST_USED_PAUSE_MS = 60_000

# 1,000 active keys of one tenant: more is a program that makes one for each request.
ACTIVE_KEYS_MAX = 1_000

# As many as may be active, and as many that were revoked lately.
LISTED_MAX = 2_000

# 64 characters, as for names: a tenant is part of each of its rows.
TENANT_CHARACTERS_MAX = 64

# A chosen key (`anabranch dev`): any visible ASCII, as a header can carry it.
_CHOSEN_KEY = re.compile(r"[!-~]{1,255}")
_STORED_KEY = re.compile(r"ab_[A-Za-z0-9_-]{43}")


class Role(StrEnum):
    """The role of a key; each role includes those before it, but for `executor`, which stands alone."""

    VIEWER = "viewer"
    """Reads."""
    OPERATOR = "operator"
    """Also starts, cancels and signals runs."""
    EDITOR = "editor"
    """Also writes workflows, queries and schedules, and runs tests."""
    ADMIN = "admin"
    """Also keys, data sources and secrets."""
    EXECUTOR = "executor"
    """Fetches what jobs refer to, and nothing else: configs of its pools, and large values of open runs of its tenant.

    Who names a run and the hash of a value of it may read it, whatever the pool: both are only in its log and its jobs.
    """

    def may(self, needed: Role) -> bool:
        """Whether this role includes `needed`."""
        if Role.EXECUTOR in (self, needed):
            return self is needed
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {role: rank for rank, role in enumerate(Role)}

ALL_TENANTS = ""
"""The tenant of an executor's key that is for the jobs of every tenant. No tenant has this name."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of a request."""

    tenant_id: str
    role: Role
    key_id: str
    pools: tuple[str, ...] = ()
    """Of an executor: the pools whose jobs it executes."""

    def serves(self, pool: str) -> bool:
        """Whether it is an executor of this pool."""
        return pool in self.pools or EVERY_POOL in self.pools

    def tenant_for(self, tenant_id: str | None) -> str:
        """The tenant that a request is about which may name it. Raises NotPermitted for one that the key is not for."""
        if tenant_id is None or tenant_id == self.tenant_id:
            return self.tenant_id
        if self.tenant_id != ALL_TENANTS:
            raise NotPermitted(f"the key is not for the tenant {tenant_id!r}")
        return tenant_id


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key: the only time that it is seen."""

    key: str
    key_id: str
    tenant_id: str
    role: Role

    def __repr__(self) -> str:
        """Without the key: a log must not contain it."""
        return f"CreatedKey({self.key_id}, {self.tenant_id!r}, {self.role})"


class AccessService:
    """The keys of one database, and those that this process alone knows."""

    def __init__(
        self, rows: ApiKeyRows, failed_logins: CountedEntries, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._rows = rows
        self._failed_logins = failed_logins
        self._monotonic = monotonic
        self._own: dict[str, Principal] = {}
        self._cached: OrderedDict[str, tuple[Principal, float]] = OrderedDict()
        """By hash: the principal, and until when it is valid without a read. Only accepted keys."""
        self._noted: OrderedDict[str, float] = OrderedDict()
        """By id: when this process last had written that the key is in use."""
        self._touching: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Finish background writes; may be called twice."""
        while self._touching:
            await asyncio.wait(self._touching)
        await self._failed_logins.stop()

    # -- at the API ----------------------------------------------------------------------
    async def authenticate(self, key: str) -> Principal | None:
        """The identity of a valid key; None for any other text.

        A revoked or expired key is refused at most 2 s later. Raises StoreUnavailable.
        """
        principal = await self._principal_of(key)
        if principal is None:
            self._failed_logins.count("login.failed")
        return principal

    async def valid_keys(self, key_ids: Collection[str]) -> set[str]:
        """Those of these keys that are valid now, by one statement; for long-lived connections."""
        own = {principal.key_id for principal in self._own.values()} & set(key_ids)
        stored = set(key_ids) - own
        return own | (await self._rows.valid_key_ids(stored) if stored else set())

    async def has_keys(self) -> bool:
        """Whether there is any valid key."""
        return bool(self._own) or await self._rows.any_key()

    def add_own_key(self, *, tenant_id: str, role: Role, key: str | None = None) -> CreatedKey:
        """Accept a key that only this process knows, until it ends: a new one, or the one given.

        Raises InvalidRequest for one that no header could carry.
        """
        _check_tenant(tenant_id)
        if key is not None and not _CHOSEN_KEY.fullmatch(key):
            raise InvalidRequest("a key is 1 to 255 visible ASCII characters", hint="Leave it out: one is made.")
        created = CreatedKey(key or new_key(), _new_key_id(), tenant_id, role)
        self._own[_digest(created.key)] = Principal(tenant_id, role, created.key_id)
        return created

    # -- keys in the database -------------------------------------------------------------
    async def create_key(
        self, *, tenant_id: str, role: Role, actor: str, expires_at: int | None = None, pools: Sequence[str] = ()
    ) -> CreatedKey:
        """Create a key; its text is in the result and nowhere else. `expires_at`: milliseconds since the epoch.

        One of an executor names its pools, and may be for ALL_TENANTS. Raises InvalidRequest for an invalid tenant or
        pool, or a tenant with 1,000 active keys.
        """
        if tenant_id != ALL_TENANTS or role is not Role.EXECUTOR:
            _check_tenant(tenant_id)
        _check_pools(role, pools)
        created = CreatedKey(new_key(), _new_key_id(), tenant_id, role)
        row = ApiKey(
            created.key_id,
            tenant_id,
            role.value,
            _digest(created.key),
            0,
            created_by=actor,
            expires_at=expires_at,
            pools=",".join(pools) or None,
        )
        detail: dict[str, Any] = {"role": role.value, **({"pools": list(pools)} if pools else {})}
        entry = AuditEntry(tenant_id, actor, "key.created", created.key_id, detail)
        if await self._rows.add_key(row, entry=entry, active_max=ACTIVE_KEYS_MAX) is None:
            raise InvalidRequest(f"tenant {tenant_id} has {ACTIVE_KEYS_MAX} keys already", hint="Revoke unused keys.")
        return created

    async def list_keys(self, tenant_id: str | None) -> list[ApiKey]:
        """The newest 2,000 of a tenant, or (None) of all: without the keys themselves, revoked ones too."""
        return list(await self._rows.list_keys(tenant_id=tenant_id, limit=LISTED_MAX))

    async def revoke_key(self, key_id: str, *, tenant_id: str | None, actor: str) -> ApiKey:
        """Revoke a key and return it; a repeat changes nothing.

        Raises NotFound, for another tenant's too (None: of any tenant).
        """
        entry = AuditEntry(tenant_id or "", actor, "key.revoked", key_id, {})
        is_storable = key_id.isascii() and key_id.isprintable()
        found = await self._rows.revoke_key(key_id, tenant_id=tenant_id, entry=entry) if is_storable else None
        if found is None:
            raise NotFound(f"there is no key {key_id!r}", hint="`anabranch keys list` shows the keys.")
        self._cached.pop(found.digest, None)
        return found

    # -- within ---------------------------------------------------------------------------
    async def _principal_of(self, key: str) -> Principal | None:
        if not _CHOSEN_KEY.fullmatch(key):
            return None
        digest = _digest(key)
        own = self._own.get(digest)
        if own is not None or not _STORED_KEY.fullmatch(key):
            return own
        cached = self._cached.get(digest)
        asked_at = self._monotonic()
        if cached is not None and asked_at < cached[1]:
            self._cached.move_to_end(digest)
            return cached[0]
        return await self._look_up(digest, asked_at)

    async def _look_up(self, digest: str, asked_at: float) -> Principal | None:
        self._cached.pop(digest, None)
        row = await self._rows.find_key(digest)
        if row is None:
            return None
        try:
            pools = () if row.pools is None else tuple(row.pools.split(","))
            principal = Principal(row.tenant_id, Role(row.role), row.key_id, pools)
        except ValueError:
            logger.warning("key %s has the unknown role %r: it is rejected", row.key_id, row.role)
            return None
        # From before the look: a key that was revoked while we looked is refused as soon as any other.
        self._cached[digest] = (principal, asked_at + CACHE_S)
        if len(self._cached) > CACHED_MAX:
            self._cached.popitem(last=False)
        self._note_use(row.key_id)
        return principal

    def _note_use(self, key_id: str) -> None:
        """Have it written, beside the request, that the key is in use."""
        now = self._monotonic()
        noted_at = self._noted.pop(key_id, None)
        is_due = noted_at is None or now - noted_at >= LAST_USED_PAUSE_MS / 1000
        self._noted[key_id] = now if noted_at is None or is_due else noted_at
        if len(self._noted) > CACHED_MAX:
            self._noted.popitem(last=False)
        if not is_due:
            return
        task = asyncio.create_task(self._touch(key_id))
        self._touching.add(task)
        task.add_done_callback(self._touching.discard)

    async def _touch(self, key_id: str) -> None:
        try:
            await self._rows.touch_key(key_id, pause_ms=LAST_USED_PAUSE_MS)
        except StoreUnavailable:
            logger.debug("the last use of key %s could not be written", key_id)


def bearer_key(header: str) -> str | None:
    """The key in the value of a header `Authorization: Bearer KEY`; None if there is none."""
    scheme, _, key = header.partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def new_key() -> str:
    """The text of a new random key."""
    return KEY_PREFIX + secrets.token_urlsafe(KEY_RANDOM_BYTES)


def _new_key_id() -> str:
    return f"key_{secrets.token_hex(8)}"


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("ascii")).hexdigest()


def _check_pools(role: Role, pools: Sequence[str]) -> None:
    if (role is Role.EXECUTOR) != bool(pools):
        raise InvalidRequest(
            "a key of the role executor, and only such a key, names its pools", hint="Name them, or `*` for every pool."
        )
    for name in pools:
        if name != EVERY_POOL and not is_pool_name(name):
            raise InvalidRequest(f"the pool {name!r} must match {POOL_NAME_PATTERN}")


def _check_tenant(tenant_id: str) -> None:
    if not 1 <= len(tenant_id) <= TENANT_CHARACTERS_MAX or not tenant_id.isprintable():
        raise InvalidRequest(f"a tenant is 1 to {TENANT_CHARACTERS_MAX} printable characters")
