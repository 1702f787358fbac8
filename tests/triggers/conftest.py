"""Databases for schedules and topics, and processes on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.triggers.services import HandTime, Office, opened_office

OpenOffice = Callable[..., Awaitable[Office]]


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
