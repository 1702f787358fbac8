"""A database that is away: said as such, without telling strangers where it is, and forgotten when it is back."""

from __future__ import annotations

import pytest

from tests.postgres import PostgresServer
from tests.rest.conftest import Served
from tests.rest.drawing import echo


@pytest.fixture
def database_url(postgres_url: str) -> str:
    """The kind that can go away."""
    return postgres_url


async def test_a_database_that_is_away_is_told_without_its_address(
    served: Served, postgres_server: PostgresServer, database_url: str
):
    await served.save(echo())
    postgres_server.set_reachable(database_url, reachable=False)
    try:
        away = await served.ask("POST", "/v1/workflows/echo/runs", json={"idempotencyKey": "order-1"})
        unready = await served.ask("GET", "/readyz", role=None)
    finally:
        postgres_server.set_reachable(database_url, reachable=True)
    assert (away.status, away.code, away.headers["Retry-After"]) == (503, "STORE_UNAVAILABLE", "5")
    assert (unready.status, unready.json["status"], unready.json["store"]["ok"]) == (503, "unavailable", False)
    for answered in (away, unready):
        assert "the database cannot be reached" in answered.text
        assert "PostgreSQL" not in answered.text and "connection" not in answered.text


async def test_work_goes_on_when_the_database_is_back(
    served: Served, postgres_server: PostgresServer, database_url: str
):
    await served.save(echo())
    postgres_server.set_reachable(database_url, reachable=False)
    try:
        assert (await served.ask("GET", "/v1/workflows")).status == 503
        assert (await served.ask("GET", "/healthz", role=None)).status == 200
    finally:
        postgres_server.set_reachable(database_url, reachable=True)
    await served.until("/readyz", lambda ready: ready["status"] == "ok")
    run = await served.ended(await served.start("echo", input=1))
    assert run["status"] == "COMPLETED"
