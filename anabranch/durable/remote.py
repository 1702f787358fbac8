"""A client's way to a server: the same verbs over REST.

Imported by `client` when the URL of a server is opened, and by nobody else. Knows no engine and no
database; what is sent again where no answer came, `remote` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from anabranch.durable.transport import Transport, milliseconds
from anabranch.errors import InvalidInput, InvalidRequest, ValueNotStorable, ValueTooLarge
from anabranch.remote import RemoteService
from anabranch.remote.service import PAGE_ITEMS
from anabranch.settings import Settings

# The tenant of a client that names none: on a server the key decides.
DEFAULT_TENANT = "default"


class RemoteTransport:
    """See `Transport`."""

    def __init__(self, service: RemoteService) -> None:
        """`service` is open."""
        self._service = service

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
        with _refused_as_on_a_database("the input"):
            started = await self._service.start_run(
                workflow,
                input_,
                version=version,
                idempotency_key=idempotency_key,
                retention_days=retention_days,
                available_at=milliseconds(available_at),
                deadline_at=milliseconds(deadline_at),
            )
        return started.instance_id

    async def get(self, run_id: str) -> dict[str, Any]:
        """See `Transport.get`."""
        return await self._service.get_run(run_id)

    async def ended(self, run_id: str, *, timeout_s: float | None) -> dict[str, Any]:
        """See `Transport.ended`."""
        return await self._service.wait_for_end(run_id, timeout_s=timeout_s)

    async def list(
        self, *, workflow: str | None, statuses: Sequence[str], version: int | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """See `Transport.list`: as many pages as it takes."""
        runs: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = await self._service.list_runs(
                limit=min(limit - len(runs), PAGE_ITEMS),
                cursor=cursor,
                workflow=workflow,
                statuses=statuses,
                version=version,
            )
            runs += page["items"]
            cursor = page["nextCursor"]
            if cursor is None or len(runs) >= limit:
                return runs

    async def signal(self, run_id: str, event: str, payload: Any, *, key: str | None) -> bool:
        """See `Transport.signal`."""
        with _refused_as_on_a_database("the signal's payload"):
            return await self._service.send_signal(run_id, event, payload, key=key)

    async def cancel(self, run_id: str, *, reason: str) -> None:
        """See `Transport.cancel`."""
        await self._service.cancel_run(run_id, reason=reason)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._service.close()


async def open_transport(url: str, *, tenant_id: str, key: str | None) -> Transport:
    """A connection to the server at this URL; nothing is sent yet. The key is `ANABRANCH_TOKEN` unless given.

    Raises InvalidRequest for a URL or a key that cannot be one, or if there is none; SettingsError.
    """
    if tenant_id != DEFAULT_TENANT:
        raise InvalidRequest("a tenant is named to a database", hint="On a server the key decides the tenant.")
    if key is None:
        token = Settings.load().token
        if token is None:
            raise InvalidRequest(
                "a server wants an API key",
                hint="Give it as Client(url, key=…), ANABRANCH_TOKEN or ANABRANCH_TOKEN_FILE;"
                " `anabranch keys create` makes one.",
            )
        key = token.get_secret_value()
    service = RemoteService(url, key)
    await service.open()
    return RemoteTransport(service)


@contextmanager
def _refused_as_on_a_database(what: str) -> Iterator[None]:
    """What cannot be sent at all is refused in the words in which the server refuses what it cannot keep."""
    try:
        yield
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise InvalidInput(
            f"{what}: {refusal.message}", details=[{"code": refusal.code, "message": refusal.message}]
        ) from None
