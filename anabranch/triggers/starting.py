"""The port by which schedules and topics start runs, and which errors are final.

Called by `scheduler` and `publisher`.
"""

from __future__ import annotations

from typing import Any, Protocol

from anabranch.errors import InvalidInput, InvalidRequest, NotFound
from anabranch.run_requests import StartedRun, StartOptions

REFUSED_FOR_GOOD = (NotFound, InvalidInput, InvalidRequest)
"""The same start is refused again, whenever it is tried."""


class Starter(Protocol):
    """Starts runs of workflows of any kind, once per idempotency key."""

    async def start_triggered_run(
        self, workflow: str, input_: Any, options: StartOptions, *, tenant_id: str
    ) -> StartedRun:
        """Start a run under a key that is reserved for triggers; it is durable when this returns.

        Raises NotFound, InvalidInput, InvalidRequest, TooManyPending, StoreUnavailable.
        """
