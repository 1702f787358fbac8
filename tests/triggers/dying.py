"""A process that is killed between the start of a run and whatever comes after it: `DATABASE_URL MILLISECONDS`.

Called by the tests. It looks for due schedules and unfinished messages as any worker would, but its
first start is its last deed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from tests.triggers.services import HandTime, Office, opened_office


class Doomed:
    """Starts a run for somebody else, and dies."""

    def __init__(self) -> None:
        self.office: Office | None = None

    async def start_triggered_run(self, *arguments: Any, **options: Any) -> Any:
        assert self.office is not None
        await self.office.workflows.start_triggered_run(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)


async def _live(database_url: str, now: int) -> None:
    time, starter = HandTime(), Doomed()
    time.now = now
    async with opened_office(database_url, time, starter=starter) as office:
        starter.office = office
        await office.scheduler.look_once()
        await office.topics.publish("orders.created", {"id": 1}, tenant_id="acme", key="k")


if __name__ == "__main__":
    asyncio.run(_live(sys.argv[1], int(sys.argv[2])))
