"""Refresh tokens that a service replaces at each use: none is lost, and none is used twice."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from sqlalchemy import text

from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import DatabaseUnreachable, NodeFailure, SecretKeyMissing, StoreUnavailable
from anabranch.handlers import NodeTypeRegistry, Services, builtin_types
from anabranch.handlers.types.http import token_cache
from anabranch.secrets import renewed_table
from anabranch.secrets.cipher import SecretCipher
from anabranch.secrets.renewed_table import RenewedTable
from anabranch.secrets.renewed_tokens import RenewedTokens
from tests.egress.servers import Server, client_allowed, serving
from tests.handlers.http.calling import Given, call

KEY = bytes(range(32))


class Service:
    """Takes each refresh token once, and gives another one with each access token."""

    def __init__(self) -> None:
        self.renewals = 0
        self.refused = 0
        self.good = "entered"
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path == "/token":
            given = parse_qs(await request.text())["refresh_token"]
            self.asked.set()
            await self.answers.wait()
            if given != [self.good]:
                self.refused += 1
                return web.json_response({"error": "invalid_grant"}, status=400)
            self.renewals += 1
            self.good = f"refresh-{self.renewals}"
            return web.json_response({"access_token": f"access-{self.renewals}", "refresh_token": self.good})
        good = request.headers.get("Authorization") == f"Bearer access-{self.renewals}"
        return web.json_response({"told": self.good}, status=200 if good else 401)


def worker(server: Server, store: SqlStore | RenewedTable, *, key: bytes | None = KEY) -> NodeTypeRegistry:
    """The types of a process of its own on this database."""
    rows = store if isinstance(store, RenewedTable) else RenewedTable(store)
    tokens = RenewedTokens(rows, lambda: None if key is None else SecretCipher(key))
    return builtin_types(Services(http=client_allowed(server.port), secrets=Given(), tokens=tokens))


def asking(server: Server, refresh: str = "entered") -> dict[str, Any]:
    return {"url": f"{server.url}/rows", "auth": {"type": "oauth2", "tokenURL": f"{server.url}/token", "clientID": "me",
                                                  "clientSecret": "s3cret", "refreshToken": refresh}}  # fmt: skip


async def test_what_the_service_gave_last_is_used_by_all_processes_and_after_them(store: SqlStore) -> None:
    service = Service()
    async with serving(service) as server:
        workers = [worker(server, store), worker(server, store)]
        answers = await asyncio.gather(*(call(server, asking(server), types=each) for each in workers * 3))
        assert [each["status"] for each in answers] == [200] * 6
        assert answers[0]["body"] == {"told": "***"}  # the new refresh token
        assert service.renewals == 1
        service.renewals = 8  # the access token is no longer good
        for each in workers:
            await call(server, asking(server), types=each)
        assert (service.renewals, service.good) == (9, "refresh-9")
        await call(server, asking(server), types=worker(server, store))
    assert (service.renewals, service.refused) == (9, 0)


async def test_what_is_stored_is_sealed(store: SqlStore, database_url: str) -> None:
    service = Service()
    async with serving(service) as server:
        await call(server, asking(server), types=worker(server, store))
    [(grant_id, version, sealed, holder)] = rows_of(database_url)
    assert (version, holder) == (1, None)
    assert not any(each in bytes(sealed) for each in (b"refresh-1", b"access-1"))
    assert len(grant_id) == 64


async def test_another_refresh_token_begins_anew(store: SqlStore) -> None:
    service = Service()
    async with serving(service) as server:
        await call(server, asking(server), types=worker(server, store))
        service.good = "entered anew"  # the user has logged in again
        answer = await call(server, asking(server, "entered anew"), types=worker(server, store))
    assert (answer["status"], service.refused) == (200, 0)


async def test_an_attempt_that_ends_while_the_service_answers_loses_nothing(store: SqlStore) -> None:
    service = Service()
    async with serving(service) as server:
        service.answers.clear()
        types = worker(server, store)
        attempt = asyncio.create_task(call(server, asking(server), types=types))
        await service.asked.wait()
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        service.answers.set()
        answer = await call(server, asking(server), types=worker(server, store))
    assert (answer["status"], service.renewals, service.refused) == (200, 1, 0)


class Away(RenewedTable):
    """The database is away a number of times when a token is to be stored."""

    away = 0

    async def keep(self, tenant_id: str, grant_id: str, version: int, sealed: bytes) -> None:
        if self.away:
            self.away -= 1
            raise DatabaseUnreachable("of this address")
        await super().keep(tenant_id, grant_id, version, sealed)


@pytest.mark.parametrize("away", [2, 3])
async def test_a_database_that_is_away_when_the_token_is_stored_loses_nothing(
    store: SqlStore, away: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_cache, "_KEEP_AGAIN_S", 0.0)
    monkeypatch.setattr(token_cache, "_KEEPS_MAX", 3)
    rows = Away(store)
    rows.away = away
    service = Service()
    async with serving(service) as server:
        types = worker(server, rows)
        if away == 3:
            with pytest.raises(StoreUnavailable, match="kept in memory"):
                await call(server, asking(server), types=types)
        assert (await call(server, asking(server), types=types))["status"] == 200
        assert (await call(server, asking(server), types=worker(server, store)))["status"] == 200
    assert (service.renewals, service.refused) == (1, 0)
    assert [each.message.count("a new refresh token has to be entered") for each in caplog.records] == [1]


async def test_a_refusal_lets_the_next_one_ask(store: SqlStore) -> None:
    service = Service()
    service.good = "another"
    async with serving(service) as server:
        types = worker(server, store)
        for _ in range(2):
            with pytest.raises(NodeFailure, match="the token was refused with 400"):
                await call(server, asking(server), types=types)
    assert service.refused == 2


async def test_who_died_while_it_renewed_is_followed_and_what_comes_late_is_dropped(store: SqlStore) -> None:
    rows = RenewedTable(store)
    assert await rows.hold("a", "g", "dead", hold_ms=0) == 0
    assert await rows.hold("a", "g", "next", hold_ms=90_000) == 0
    assert await rows.hold("a", "g", "third", hold_ms=90_000) is None
    await rows.drop("a", "g", "dead")
    assert await rows.hold("a", "g", "third", hold_ms=90_000) is None
    await rows.keep("a", "g", 0, b"first")
    await rows.keep("a", "g", 0, b"late")
    assert await rows.find("a", "g") == b"first"
    assert await rows.find("b", "g") is None
    assert await rows.hold("a", "g", "third", hold_ms=90_000) == 1


async def test_a_tenant_has_a_bounded_number_of_grants(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed_table, "GRANTS_MAX", 2)
    rows = RenewedTable(store)
    for name in ("one", "two", "three"):
        assert await rows.hold("a", name, "me", hold_ms=0) == 0
        await rows.keep("a", name, 0, name.encode())
    assert sorted(filter(None, [await rows.find("a", name) for name in ("one", "two", "three")])) in (
        [b"three", b"two"],
        [b"one", b"three"],  # written in the same millisecond
    )


async def test_without_a_key_nothing_is_asked_for(store: SqlStore) -> None:
    service = Service()
    async with serving(service) as server:
        with pytest.raises(SecretKeyMissing):
            await call(server, asking(server), types=worker(server, store, key=None))
    assert not service.asked.is_set()


def rows_of(url: str) -> list[Any]:
    """All there is in the table."""
    engine = dialect_of(url).engine(commits=False)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT grant_id, version, sealed, holder FROM renewed_tokens")).all()
    engine.dispose()
    return list(rows)
