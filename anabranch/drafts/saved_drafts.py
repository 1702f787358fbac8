"""Stored drafts, and the port to their store.

The interface between the draft service and the table (`draft_table`). A draft is the text of a document in progress,
which need not be valid. Everything belongs to a tenant; drafts of other tenants read as absent. Times are milliseconds
since the epoch, by the store's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.ports import NewVersion, WorkflowVersion


@dataclass(frozen=True, slots=True)
class Draft:
    """A stored draft; the document is None unless it was read."""

    draft_id: str
    tenant_id: str
    workflow_id: str | None
    """None until it is published for the first time."""
    base_version: int | None
    """The version that the document is based on; None if there is none."""
    revision: int
    """1, 2, 3…: raised by every save."""
    title: str | None
    """Of the document, for lists."""
    created_at: int = 0
    updated_at: int = 0
    updated_by: str = ""
    document: str | None = None
    """The text, as it was sent."""


@dataclass(frozen=True, slots=True)
class Pins:
    """The outputs that test runs of a draft take instead of executing nodes."""

    text: str
    """A JSON object, as it was sent."""
    revision: int
    """0 if no pins were saved."""


class DraftMoved(Exception):
    """The draft has another revision than the caller knew; `current` is what is stored now."""

    def __init__(self, current: Draft) -> None:
        super().__init__(f"draft {current.draft_id} is at revision {current.revision}")
        self.current = current


class SavedDrafts(Protocol):
    """Keeps drafts. What an `actor` creates, deletes or publishes is on record in the same transaction."""

    async def create_draft(self, draft: Draft, *, count_max: int, actor: str) -> Draft:
        """Insert a draft as revision 1; the store sets the times.

        Raises DraftExists if its workflow has one, LimitReached if the tenant would have more than `count_max`.
        """

    async def find_draft(self, draft_id: str, *, tenant_id: str) -> Draft | None:
        """One draft with its document, or None."""

    async def find_draft_of(self, workflow_id: str, *, tenant_id: str) -> Draft | None:
        """The draft of a workflow with its document, or None."""

    async def list_drafts(self, *, tenant_id: str) -> Sequence[Draft]:
        """All of a tenant's, without their documents."""

    async def save_draft(self, draft: Draft, *, expected_revision: int | None, actor: str) -> Draft:
        """Replace document, title and (unless it is None) base version, as the next revision.

        Saving the same document and base changes nothing, whatever revision is expected. Raises NotFound, DraftMoved.
        """

    async def delete_draft(self, draft_id: str, *, tenant_id: str, actor: str) -> bool:
        """Remove a draft with its pins; False if there is none."""

    async def publish_draft(self, draft: Draft, version: NewVersion, *, actor: str) -> tuple[WorkflowVersion, Draft]:
        """Save the version and move the draft's base to it, in one transaction.

        Raises NotFound, DraftMoved if revision, workflow or base are others than those of `draft`, and as
        `Store.save_workflow` does.
        """

    async def read_pins(self, draft_id: str, *, tenant_id: str) -> Pins | None:
        """The pins of a draft; None if there is no such draft."""

    async def save_pins(
        self, draft_id: str, text: str, *, tenant_id: str, expected_revision: int | None
    ) -> Pins | None:
        """Replace all pins; None if there is no such draft or they have another revision."""
