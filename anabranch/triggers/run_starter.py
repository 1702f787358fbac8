"""The port by which schedules and topics start runs, and which errors are final.

Called by `scheduler`, `publisher` and the services.
"""

from __future__ import annotations

from typing import Any, Protocol

from anabranch.engine.ports import WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.entry_points import START_TYPE
from anabranch.errors import InvalidInput, InvalidRequest, NoManualStart, NotFound
from anabranch.run_requests import StartedRun, StartOptions

REFUSED_FOR_GOOD = (NotFound, InvalidInput, InvalidRequest, NoManualStart)
"""The same start is refused again, whenever it is tried."""


def check_start_by_hand(found: WorkflowVersion) -> None:
    """Raise NoManualStart for a drawn workflow without a start node: saved schedules and subscriptions start runs
    there."""
    nodes = found.definition.get("nodes", ())
    if found.kind != CODED_KIND and all(node.get("type") != START_TYPE for node in nodes):
        raise NoManualStart(f"workflow {found.name} has no start node: only its triggers begin runs")


class Starter(Protocol):
    """Starts runs of workflows of any kind, once per idempotency key."""

    async def start_triggered_run(
        self, workflow: str, input_: Any, options: StartOptions, *, tenant_id: str
    ) -> StartedRun:
        """Start a run under a key that is reserved for triggers; it is durable when this returns.

        Raises NotFound, InvalidInput, InvalidRequest, NoManualStart, TooManyPending, StoreUnavailable.
        """
