"""Cache of the newest versions of workflows, for starts.

Called by `start` only. Entries may be outdated: the statement that creates a run checks that the workflow is still at
this version. So no run gets a version that was replaced or deleted before, here or by another process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from anabranch.engine.ports import WorkflowVersion

# 1,000, as many as cached plans: without a plan the definition is read anyway.
VERSIONS_KEPT_MAX = 1_000


class NewestVersions:
    """The newest version last read, by tenant and id or name; without its graph."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[str, str], WorkflowVersion] = OrderedDict()

    def get(self, tenant_id: str, workflow: str) -> WorkflowVersion | None:
        """The newest version when it was read; its definition is empty."""
        found = self._versions.get((tenant_id, workflow))
        if found is not None:
            self._versions.move_to_end((tenant_id, workflow))
        return found

    def note(self, tenant_id: str, workflow: str, found: WorkflowVersion) -> None:
        """Store what was just read."""
        self._versions[tenant_id, workflow] = replace(found, definition={})
        self._versions.move_to_end((tenant_id, workflow))
        if len(self._versions) > VERSIONS_KEPT_MAX:
            self._versions.popitem(last=False)
