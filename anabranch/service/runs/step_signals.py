"""Send signals from steps of coded workflows to other runs.

The composition root passes this to the runner of coded workflows as its `Signals`, and connects it with the service
later.
"""

from __future__ import annotations

from typing import Any

from anabranch.errors import InvalidInput, InvalidRequest, NonRetryable, NotFound, RunIsTerminal
from anabranch.service.workflow_service import WorkflowService


class StepSignals:
    """Sends each signal once per key, however often the step is tried."""

    def __init__(self) -> None:
        self._service: WorkflowService | None = None

    def connect(self, service: WorkflowService) -> None:
        """Send through this service from now on."""
        self._service = service

    async def send(self, *, tenant_id: str, run_id: str, event: str, payload: Any, key: str) -> bool:
        """Send the signal; returns whether a matching wait was open when it first arrived. Raises NonRetryable if a
        retry cannot help."""
        assert self._service is not None, "connect comes before any run"
        try:
            return await self._service.send_signal(run_id, event, payload, tenant_id=tenant_id, key=key)
        except (NotFound, RunIsTerminal, InvalidInput, InvalidRequest) as refusal:
            raise NonRetryable(refusal.message, code=refusal.code) from refusal
