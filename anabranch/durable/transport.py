"""What a client needs of the place that it talks to: a database, or a server.

Implemented by `local` for databases and by `remote` for servers. Answers are JSON as REST
gives them; times are aware datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol


class Transport(Protocol):
    """An open connection, for one tenant."""

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
        """The id of the run that this starts, or that the key has started before; it is durable."""

    async def get(self, run_id: str) -> dict[str, Any]:
        """The run, as `GET /v1/runs/{instanceID}` answers. Raises NotFound."""

    async def ended(self, run_id: str, *, timeout_s: float | None) -> dict[str, Any]:
        """The same, once the run has ended. Raises NotFound; TimeoutError after that long, but looks once at least."""

    async def list(
        self, *, workflow: str | None, statuses: Sequence[str], version: int | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """The newest runs first. Raises NotFound, InvalidRequest."""

    async def signal(self, run_id: str, event: str, payload: Any, *, key: str | None) -> bool:
        """Was a fitting wait open? Raises NotFound, RunIsTerminal, TooManySignals, InvalidInput."""

    async def cancel(self, run_id: str, *, reason: str) -> None:
        """Return once that is committed. Raises NotFound, RunIsTerminal."""

    async def close(self) -> None:
        """Let go of it."""


def milliseconds(at: datetime | None) -> int | None:
    """An aware time as the verbs below take it: milliseconds since the epoch."""
    return None if at is None else round(at.timestamp() * 1000)
