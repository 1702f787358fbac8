"""ImportService: workflows of n8n become drafts, each with its pins and the report on what is the same.

Called by the REST API and the command line. A draft need not be valid, so everything that can be read is saved; what
was not imported stands in it as a placeholder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.drafts.draft_service import DraftService, DraftText
from anabranch.drafts.saved_drafts import Draft
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.validate import validate
from anabranch.errors import LimitReached
from anabranch.n8n.drawing import workflow_name
from anabranch.n8n.exports import N8nWorkflow, read_exports
from anabranch.n8n.importing import Imported, ImportOptions, import_workflow

# 200 workflows in one call: more than one file has, and a few seconds of work.
WORKFLOWS_MAX = 200


@dataclass(frozen=True, slots=True)
class SavedImport:
    """An imported workflow, and the draft that it was saved as; None if it was not saved."""

    imported: Imported
    draft: Draft | None

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "draftID": None if self.draft is None else self.draft.draft_id,
            "document": self.imported.document,
            "pins": self.imported.pins,
            "queries": list(self.imported.queries),
            "report": self.imported.report.as_json(),
        }


class ImportService:
    """Imports into the drafts of one database."""

    def __init__(self, *, drafts: DraftService, node_types: NodeTypes) -> None:
        self._drafts = drafts
        self._node_types = node_types
        self._one_at_a_time = asyncio.Lock()  # an import computes for seconds: others wait, and requests go on

    async def import_n8n(
        self, documents: Sequence[Any], *, tenant_id: str, timezone: str, save: bool, actor: str
    ) -> list[SavedImport]:
        """Import all workflows of these exports; calls between them are kept.

        Raises InvalidRequest for what is not an export, LimitReached, and as drafts are saved.
        """
        async with self._one_at_a_time:
            made = await asyncio.to_thread(self._imported, documents, timezone)
        if not save:
            return [SavedImport(each, None) for each in made]
        return [SavedImport(each, await self._save(each, tenant_id=tenant_id, actor=actor)) for each in made]

    def _imported(self, documents: Sequence[Any], timezone: str) -> list[Imported]:
        workflows = [workflow for document in documents for workflow in read_exports(document)]
        if len(workflows) > WORKFLOWS_MAX:
            raise LimitReached(
                f"at most {WORKFLOWS_MAX} workflows are imported at once, and these are {len(workflows)}"
            )
        return imported_together(workflows, self._node_types, timezone=timezone)

    async def _save(self, imported: Imported, *, tenant_id: str, actor: str) -> Draft:
        text = orjson.dumps(imported.document).decode()
        draft = await self._drafts.create_draft(
            DraftText(imported.document, text), tenant_id=tenant_id, workflow=None, base_version=None, actor=actor
        )
        if imported.pins:
            pins = DraftText(imported.pins, orjson.dumps(imported.pins).decode())
            await self._drafts.save_pins(draft.draft_id, pins, tenant_id=tenant_id, expected_revision=None)
        return draft


def imported_together(
    workflows: Sequence[N8nWorkflow], node_types: NodeTypes, *, timezone: str = "UTC"
) -> list[Imported]:
    """Workflows that may call each other by the ids that they had."""
    names: Mapping[str, str] = {each.workflow_id: workflow_name(each.name) for each in workflows if each.workflow_id}
    return [import_workflow(each, node_types, ImportOptions(timezone, names)) for each in workflows]


def is_valid(imported: Imported, node_types: NodeTypes) -> bool:
    """Whether the document can be published as it is."""
    return validate(imported.document, node_types).valid
