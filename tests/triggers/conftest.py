"""Databases for schedules and topics, and processes on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from anabranch.migrations import upgrade
from tests.triggers.office import HandTime, Office, opened_office

OpenOffice = Callable[..., Awaitable[Office]]


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated, empty database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    url = f"sqlite:///{tmp_path / 'triggers.db'}"
    upgrade(url)
    return url


@pytest.fixture
def time() -> HandTime:
    """The clock of all processes."""
    return HandTime()


@pytest.fixture
async def open_office(database_url: str, time: HandTime) -> AsyncIterator[OpenOffice]:
    """Opens one more process on the test's database."""
    async with AsyncExitStack() as stack:

        async def open_one(**options: Any) -> Office:
            return await stack.enter_async_context(opened_office(database_url, time, **options))

        yield open_one


@pytest.fixture
async def office(open_office: OpenOffice) -> Office:
    """The first process, with the workflow `report`."""
    first = await open_office()
    await first.draw("report")
    return first
