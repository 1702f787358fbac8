"""The two ways in which a program reaches runs: the database itself, or a server on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from anabranch import Client, SyncClient
from anabranch.app import build
from anabranch.keys.access import Role
from anabranch.rest.application import build_application
from anabranch.settings import Settings
from tests.client.serving import listening

TENANTS = ("default", "another")


@dataclass(frozen=True)
class Reach:
    """One of them; makes clients that are not open yet."""

    url: str
    keys: dict[str, str]
    """By tenant; a database wants none."""

    def client(self, *, tenant: str = "default") -> Client:
        """A client for a tenant."""
        return Client(self.url, **self._who(tenant))

    def sync_client(self) -> SyncClient:
        """One without an event loop."""
        return SyncClient(self.url, **self._who("default"))

    def _who(self, tenant: str) -> dict[str, Any]:
        return {"key": self.keys[tenant]} if self.keys else {"tenant": tenant}


@asynccontextmanager
async def reached(kind: str, database_url: str) -> AsyncIterator[Reach]:
    """By `database`, or by `server`: that one runs nothing and has no code."""
    if kind == "database":
        yield Reach(database_url, {})
        return
    async with build(Settings(database_url=database_url)).open_services(works=False) as services:
        keys = {tenant: services.access.add_own_key(tenant_id=tenant, role=Role.OPERATOR).key for tenant in TENANTS}
        async with listening(build_application(services)) as url:
            yield Reach(url, keys)
