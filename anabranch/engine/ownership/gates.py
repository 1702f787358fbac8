"""Gates: let go of runs whose workflow or tenant is paused, within a second.

Claims leave such runs out by themselves. Here the process learns of pauses, for what it owns and what it starts:
handlers that are under way are let end, nothing else begins, and then the run is nobody's.
"""

from __future__ import annotations

import asyncio

from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ports import Store
from anabranch.engine.rules.shared.run_state import InstanceHead


class Gates:
    """What is paused, as of the last look."""

    def __init__(self, *, store: Store, orchestrator: Orchestrator) -> None:
        self._store = store
        self._orchestrator = orchestrator
        self._paused: frozenset[tuple[str, str | None]] = frozenset()
        """Tenants and workflows; None: all of the tenant's."""
        self._looking = asyncio.Lock()
        """Looks take turns: what an earlier one has read must not replace what a later one has."""

    def close_for(self, head: InstanceHead) -> bool:
        """Does a run of this head have to stand still?"""
        if not self._paused:
            return False
        of_workflow = (head.tenant_id, head.workflow_id)
        return (head.tenant_id, None) in self._paused or (head.workflow_id is not None and of_workflow in self._paused)

    async def look(self) -> None:
        """Read what is paused now, and let owned runs stand still or go on. Raises StoreUnavailable."""
        async with self._looking:
            paused = frozenset((pause.tenant_id, pause.workflow_id) for pause in await self._store.pauses())
            if paused or self._paused:  # runs that were adopted since are looked at, too
                self._paused = paused
                self._orchestrator.gate(self.close_for)
