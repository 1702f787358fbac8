"""A sandbox for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.handlers.sandbox.running import Coding, coding


@pytest.fixture
async def code() -> AsyncIterator[Coding]:
    async with coding() as running:
        yield running
