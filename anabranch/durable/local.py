"""A client's way to a database: the façade on it, in this very process, that runs nothing.

Imported by `client` when a database is opened, and by nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

from anabranch.app import build
from anabranch.durable.transport import Transport, milliseconds
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidRequest
from anabranch.service import WorkflowService
from anabranch.settings import Settings

# Between looks at a run that is waited for, five each: soon at first, then rarely enough to disturb nobody.
LOOK_AGAIN_S = (0.02, 0.05, 0.1, 0.25)
LOOKS_EACH = 5


class LocalTransport:
    """See `Transport`."""

    def __init__(self, service: WorkflowService, tenant_id: str, opened: AsyncExitStack) -> None:
        self._service = service
        self._tenant_id = tenant_id
        self._opened = opened

    async def start(
        self,
        workflow: str,
        input_: Any,
        *,
        version: int | None,
        idempotency_key: str | None,
        retention_days: int | None,
        available_at: datetime | None,
        deadline_at: datetime | None,
    ) -> str:
        """See `Transport.start`."""
        started = await self._service.execute_workflow(
            workflow,
            input_,
            tenant_id=self._tenant_id,
            version=version,
            idempotency_key=idempotency_key,
            retention_days=retention_days,
            available_at=milliseconds(available_at),
            deadline_at=milliseconds(deadline_at),
        )
        return started.instance_id

    async def get(self, run_id: str) -> dict[str, Any]:
        """See `Transport.get`."""
        return await self._service.get_run(run_id, tenant_id=self._tenant_id)

    async def ended(self, run_id: str, *, timeout_s: float | None) -> dict[str, Any]:
        """See `Transport.ended`."""
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        looks, has_ended = 0, await self._has_ended(run_id)
        async with asyncio.timeout_at(until):
            while not has_ended:
                await asyncio.sleep(LOOK_AGAIN_S[min(looks // LOOKS_EACH, len(LOOK_AGAIN_S) - 1)])
                looks, has_ended = looks + 1, await self._has_ended(run_id)
        return await self.get(run_id)

    async def list(
        self, *, workflow: str | None, statuses: Sequence[str], version: int | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """See `Transport.list`."""
        return await self._service.list_runs(
            RunFilter(workflow=workflow, statuses=[_status(each) for each in statuses], version=version),
            tenant_id=self._tenant_id,
            limit=limit,
        )

    async def signal(self, run_id: str, event: str, payload: Any, *, key: str | None) -> bool:
        """See `Transport.signal`."""
        return await self._service.send_signal(run_id, event, payload, tenant_id=self._tenant_id, key=key)

    async def cancel(self, run_id: str, *, reason: str) -> None:
        """See `Transport.cancel`."""
        await self._service.cancel_run(run_id, tenant_id=self._tenant_id, reason=reason)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._opened.aclose()

    async def _has_ended(self, run_id: str) -> bool:
        return (await self._service.get_run_status(run_id, tenant_id=self._tenant_id)).status.is_terminal


async def open_transport(url: str, *, tenant_id: str, key: str | None) -> Transport:
    """A connection to the database at this URL.

    Raises InvalidRequest for a key, which no database takes; StoreUnavailable, SchemaMismatch, SettingsError.
    """
    if key is not None:
        raise InvalidRequest("a key is for a server", hint="To a database the client names its tenant.")
    async with AsyncExitStack() as opening:
        _, service = await opening.enter_async_context(build(Settings.load(database_url=url)).opened(works=False))
        return LocalTransport(service, tenant_id, opening.pop_all())


def _status(name: str) -> Status:
    try:
        return Status(name.upper())
    except ValueError:
        raise InvalidRequest(f"{name!r} is no status; they are {', '.join(Status)}") from None
