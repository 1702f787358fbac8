"""Pause watch: release runs whose workflow or tenant is paused, within a second.

Claims leave such runs out. This module polls the pauses, for the runs that the process owns or starts: handlers under
way may end, nothing else starts, and then the run is released.
"""

from __future__ import annotations

import asyncio

from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ports import Store
from anabranch.engine.rules.shared.run_state import InstanceHead


class PauseWatch:
    """The paused workflows and tenants, as of the last look."""

    def __init__(self, *, store: Store, orchestrator: Orchestrator) -> None:
        self._store = store
        self._orchestrator = orchestrator
        self._paused: frozenset[tuple[str, str | None]] = frozenset()
        """Tenants and workflows; None: all of the tenant's."""
        self._looking = asyncio.Lock()
        """Looks take turns: what an earlier one has read must not replace what a later one has."""

    def is_paused(self, head: InstanceHead) -> bool:
        """Whether the run with this head is paused."""
        if not self._paused:
            return False
        of_workflow = (head.tenant_id, head.workflow_id)
        return (head.tenant_id, None) in self._paused or (head.workflow_id is not None and of_workflow in self._paused)

    async def look(self) -> bool:
        """Read what is paused now, and stop or continue owned runs; True if that has changed. Raises
        StoreUnavailable."""
        async with self._looking:
            paused = frozenset((pause.tenant_id, pause.workflow_id) for pause in await self._store.pauses())
            has_changed = paused != self._paused
            if paused or self._paused:  # runs that were adopted since are looked at, too
                self._paused = paused
                self._orchestrator.apply_pauses(self.is_paused)
            return has_changed
