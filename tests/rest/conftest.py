"""A server with its keys, and a client that speaks like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.keys.access import Role
from anabranch.process import ClientTimeouts, accepting, bind
from anabranch.rest.application import build_application
from anabranch.settings import Settings
from tests.rest.described import undescribed

TENANT = "acme"
OTHER_TENANT = "globex"

TERMINAL = ("COMPLETED", "FAILED", "CANCELLED")


@dataclass(frozen=True)
class Answered:
    """An answer, read to its end."""

    status: int
    json: Any
    text: str
    headers: Any

    @property
    def code(self) -> str:
        """The code of an error."""
        return str(self.json["error"]["code"])


@dataclass(frozen=True)
class Served:
    """A running server."""

    services: AppServices
    url: str
    port: int
    session: ClientSession
    keys: dict[str, str]
    """By role; `other` is the admin of another tenant."""

    async def ask(self, method: str, path: str, *, role: str | None = "admin", **request: Any) -> Answered:
        """One request with the key of a role, or without."""
        headers = {**request.pop("headers", {})}
        if role is not None:
            headers.setdefault("Authorization", f"Bearer {self.keys[role]}")
        async with self.session.request(
            method, self.url + path, headers=headers, allow_redirects=False, **request
        ) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and text
            answer = await response.json() if is_json else None
            if response.status < 300:
                assert undescribed(method, path, response.status, answer) == [], f"{method} {path}: {text[:2_000]}"
            return Answered(response.status, answer, text, response.headers)

    async def save(self, document: dict[str, Any], **request: Any) -> dict[str, Any]:
        """Save a workflow; its answer."""
        answered = await self.ask("POST", "/v1/workflows", json=document, **request)
        assert answered.status == 201, answered.text
        saved: dict[str, Any] = answered.json
        return saved

    async def start(self, workflow: str, **body: Any) -> str:
        """Start a run; its id."""
        answered = await self.ask("POST", f"/v1/workflows/{workflow}/runs", json=body)
        assert answered.status in (200, 201), answered.text
        return str(answered.json["instanceID"])

    async def ended(self, instance_id: str) -> dict[str, Any]:
        """The run, once it has ended."""
        return await self.until(f"/v1/runs/{instance_id}", lambda run: run["status"] in TERMINAL)

    async def until(self, path: str, fits: Callable[[Any], bool]) -> Any:
        """The answer to a GET, once it fits; the time limit of the test bounds the wait."""
        while True:
            answered = await self.ask("GET", path)
            if fits(answered.json):
                return answered.json
            await asyncio.sleep(0.01)


@pytest.fixture
def settings_of(database_url: str, tmp_path: Path) -> Callable[..., Settings]:
    """The settings of the server; a test overrides single ones."""

    def make(**chosen: Any) -> Settings:
        key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
        flags = {"database_url": database_url, "secret_key": key, "data_directories": str(tmp_path), **chosen}
        return Settings.load(environ={}, folder=tmp_path, **flags)

    return make


@pytest.fixture
async def served(settings_of: Callable[..., Settings]) -> AsyncIterator[Served]:
    """A server and worker in this process."""
    async for each in serving(settings_of()):
        yield each


async def serving(
    settings: Settings,
    *,
    timeouts: ClientTimeouts | None = None,
    connections_max: int = 1_000,
    works: bool = True,
    **limits: float,
) -> AsyncIterator[Served]:
    """A server on a free port, until the caller is done with it; `limits` are those of `build_application`."""
    async with build(settings).open_services(works=works) as services:
        keys = {role.value: services.access.add_own_key(tenant_id=TENANT, role=role).key for role in Role}
        keys["other"] = services.access.add_own_key(tenant_id=OTHER_TENANT, role=Role.ADMIN).key
        listener = bind("127.0.0.1", 0)
        port = listener.getsockname()[1]
        application = build_application(services, **limits)
        async with (
            accepting(application, listener, connections_max=connections_max, shutdown_s=5.0, timeouts=timeouts),
            ClientSession() as session,
        ):
            yield Served(services, f"http://127.0.0.1:{port}", port, session, keys)
