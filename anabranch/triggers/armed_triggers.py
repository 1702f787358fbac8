"""Triggers that nodes have armed, as stored, and the port to the store.

Everything belongs to a tenant; other tenants' triggers read as absent. Only the triggers of active versions are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ArmedTrigger:
    """A trigger node of the active version of a workflow."""

    trigger_id: str
    """The same in every version."""
    tenant_id: str
    kind: str
    """The type of the node."""
    workflow_id: str
    workflow: str
    """The name of the workflow."""
    version: int
    node_id: str
    subject: str
    """The path of a webhook."""
    config: Mapping[str, Any]
    """The config of the node."""


class ArmedTriggers(Protocol):
    """Finds armed triggers."""

    async def find_hook(self, path: str, *, tenant_id: str) -> ArmedTrigger | None:
        """The webhook with this path; None: the tenant has none."""

    async def list_hooks(self, *, tenant_id: str) -> Sequence[ArmedTrigger]:
        """The webhooks of a tenant, by path."""
