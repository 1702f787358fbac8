"""What schedules and topics need of the façade: one verb, and which of its refusals are for good.

Called by `scheduler` and `publisher`.
"""

from __future__ import annotations

from typing import Any, Protocol

from anabranch.errors import InvalidInput, InvalidRequest, NotFound

REFUSED_FOR_GOOD = (NotFound, InvalidInput, InvalidRequest)
"""The same start is refused again, whenever it is tried."""


class Started(Protocol):
    """A start's answer."""

    @property
    def instance_id(self) -> str:
        """The run: a new one, or the first that was started with the same key."""


class Starter(Protocol):
    """Starts runs of workflows of any kind, once per idempotency key."""

    async def start_triggered_run(
        self,
        workflow: str,
        input_: Any,
        *,
        tenant_id: str,
        version: int | None = None,
        idempotency_key: str,
    ) -> Started:
        """Start a run under a key that is reserved for triggers; it is durable when this returns.

        Raises NotFound, InvalidInput, InvalidRequest, TooManyPending, StoreUnavailable.
        """
