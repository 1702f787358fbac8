"""DraftService: save drafts of workflows by revision, pin outputs, publish drafts as versions.

Called by the REST API. A draft may be invalid, and may belong to a workflow that does not exist yet; its text comes
back as it was sent. A save names the revision that it is based on, so that it overwrites no other change. Publishing
checks and stores like any save (`DefinitionVerbs`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.drafts.saved_drafts import Draft, DraftMoved, Pins, SavedDrafts
from anabranch.engine.ports import WorkflowVersion
from anabranch.engine.rules.graph.document import DOCUMENT_BYTES_MAX, TITLE_LENGTH_MAX
from anabranch.engine.rules.graph.source_texts import text_of
from anabranch.engine.rules.graph.validate import Report
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import DraftConflict, NameTaken, NotFound, TooLarge, WorkflowIsCoded
from anabranch.json_input import parse_workflow
from anabranch.service.definitions.definition_verbs import SAVE_ATTEMPTS_MAX, DefinitionVerbs
from anabranch.service.runs.test_options import read_pins

# 1,000 drafts per tenant: one for each workflow in progress, and forgotten ones.
DRAFTS_MAX = 1_000

# 4 MB, as a draft: the pins of a test run are in its log, beside its definition.
PINS_BYTES_MAX = DOCUMENT_BYTES_MAX

# 20 attempts to publish the newest revision: each further one means that the draft was saved again meanwhile.
PUBLISH_ATTEMPTS_MAX = 20


@dataclass(frozen=True, slots=True)
class DraftText:
    """A document to save: its value, and its original text."""

    value: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionOptions:
    """Options of saving the next revision of a draft."""

    expected_revision: int | None
    """Only if the newest revision is this one; None: whichever it is."""
    base_version: int | None
    """The version that it is based on from now on, as after a merge; None: the one that it was based on."""


class DraftService:
    """Drafts of one database."""

    def __init__(self, *, saved: SavedDrafts, workflows: DefinitionVerbs) -> None:
        self._saved = saved
        self._workflows = workflows

    async def create_draft(
        self, document: DraftText, *, tenant_id: str, workflow: str | None, base_version: int | None, actor: str
    ) -> Draft:
        """Create a draft of a workflow, which need not exist yet.

        Its base is the newest version of the workflow, unless another one is named. Raises NotFound, DraftExists,
        WorkflowIsCoded, LimitReached, TooLarge.
        """
        _check_size(document.text, "the document", DOCUMENT_BYTES_MAX)
        known = None
        if workflow is not None:
            known = await self._workflows.get_workflow_by_id(workflow, tenant_id=tenant_id, version=base_version)
            if known.kind != "drawn":
                raise WorkflowIsCoded(f"workflow {known.name} is a Python function and has no drafts")
        draft = Draft(
            str(uuid.uuid4()),
            tenant_id,
            workflow_id=None if known is None else known.workflow_id,
            base_version=None if known is None else known.version,
            revision=1,
            title=_title_of(document.value),
            document=document.text,
        )
        return await self._saved.create_draft(draft, count_max=DRAFTS_MAX, actor=actor)

    async def list_drafts(self, *, tenant_id: str, workflow: str | None = None) -> Sequence[Draft]:
        """All of them, or that of one workflow, without their documents. Raises NotFound."""
        if workflow is None:
            return await self._saved.list_drafts(tenant_id=tenant_id)
        known = await self._workflows.get_workflow_by_id(workflow, tenant_id=tenant_id)
        found = await self._saved.find_draft_of(known.workflow_id, tenant_id=tenant_id)
        return [] if found is None else [found]

    async def get_draft(self, draft_id: str, *, tenant_id: str) -> Draft:
        """One with its document. Raises NotFound."""
        found = await self._saved.find_draft(draft_id, tenant_id=tenant_id)
        if found is None:
            raise _no_draft(draft_id)
        return found

    async def get_draft_of(self, workflow: str, *, tenant_id: str) -> Draft:
        """The draft of a workflow. Raises NotFound."""
        known = await self._workflows.get_workflow_by_id(workflow, tenant_id=tenant_id)
        found = await self._saved.find_draft_of(known.workflow_id, tenant_id=tenant_id)
        if found is None:
            raise NotFound(f"workflow {known.name} has no draft", hint="POST /v1/drafts makes one.")
        return found

    async def get_document(self, draft_id: str, *, revision: int, tenant_id: str) -> Any:
        """The document of a draft in this revision. Raises NotFound, DraftConflict if it is another one now."""
        found = await self.get_draft(draft_id, tenant_id=tenant_id)
        if found.revision != revision:
            raise _conflict(found)
        return document_of(found)

    async def save_draft(
        self,
        draft_id: str,
        document: DraftText,
        options: RevisionOptions,
        *,
        tenant_id: str,
        actor: str,
    ) -> Draft:
        """Save the next revision. An unchanged document makes no new revision, whatever revision is expected, so a save
        whose response was lost can be repeated.

        Raises NotFound, DraftConflict, TooLarge.
        """
        _check_size(document.text, "the document", DOCUMENT_BYTES_MAX)
        draft = Draft(
            draft_id,
            tenant_id,
            workflow_id=None,
            base_version=options.base_version,
            revision=0,
            title=_title_of(document.value),
            document=document.text,
        )
        try:
            return await self._saved.save_draft(draft, expected_revision=options.expected_revision, actor=actor)
        except DraftMoved as moved:
            raise _conflict(moved.current) from None

    async def delete_draft(self, draft_id: str, *, tenant_id: str, actor: str) -> None:
        """Remove it with its pins; what was published stays. Raises NotFound."""
        if not await self._saved.delete_draft(draft_id, tenant_id=tenant_id, actor=actor):
            raise _no_draft(draft_id)

    async def publish_draft(
        self, draft_id: str, *, tenant_id: str, expected_revision: int | None, actor: str, activate: bool = True
    ) -> tuple[WorkflowVersion, Report, Draft]:
        """Save the document as the next version and move the draft's base to it; both or neither.

        Raises NotFound, DraftConflict for another revision than the expected one, VersionMismatch if the base is
        not the newest version, InvalidWorkflow, NameTaken.
        """
        for attempts_left in reversed(range(PUBLISH_ATTEMPTS_MAX)):
            draft = await self.get_draft(draft_id, tenant_id=tenant_id)
            if expected_revision not in (None, draft.revision):
                raise _conflict(draft)
            try:
                return await self._publish(draft, actor, activate=activate)
            except DraftMoved as moved:  # it was saved since it was read
                if not attempts_left:
                    raise _conflict(moved.current) from None
        raise AssertionError("the last attempt returns or raises")

    async def _publish(self, draft: Draft, actor: str, *, activate: bool) -> tuple[WorkflowVersion, Report, Draft]:
        document = document_of(draft)
        if not activate:
            document["activate"] = False  # as a save says it; it is not stored
        known = None
        if draft.workflow_id is not None:
            known = await self._workflows.get_workflow_by_id(draft.workflow_id, tenant_id=draft.tenant_id)
        for attempts_left in reversed(range(SAVE_ATTEMPTS_MAX)):
            version, report = await self._workflows.prepare_version(
                document, tenant_id=draft.tenant_id, known=known, expected_version=draft.base_version
            )
            version = replace(version, text=text_of(version.definition, draft.document or ""))
            try:
                saved, moved = await self._saved.publish_draft(draft, version, actor=actor)
            except NameTaken:
                if known is not None or document.get("name") is not None or not attempts_left:
                    raise
                continue  # the derived name was taken since it was found to be free
            return saved, report, moved
        raise AssertionError("the last attempt returns or raises")

    # -- pins -----------------------------------------------------------------------------
    async def get_pins(self, draft_id: str, *, tenant_id: str) -> Pins:
        """The outputs that test runs of the draft take. Raises NotFound."""
        found = await self._saved.read_pins(
            (await self.get_draft(draft_id, tenant_id=tenant_id)).draft_id, tenant_id=tenant_id
        )
        if found is None:
            raise _no_draft(draft_id)
        return found

    async def get_test_run(self, draft_id: str, *, tenant_id: str) -> dict[str, Any]:
        """The document and the pins that a test run of the draft is started with.

        Raises NotFound.
        """
        document = document_of(await self.get_draft(draft_id, tenant_id=tenant_id))
        pins = orjson.loads((await self.get_pins(draft_id, tenant_id=tenant_id)).text)
        nodes = document.get("nodes")
        ids = {node.get("id") for node in nodes if isinstance(node, dict)} if isinstance(nodes, list) else set()
        return {**document, "pins": {node_id: pin for node_id, pin in pins.items() if node_id in ids}}

    async def save_pins(self, draft_id: str, pins: DraftText, *, tenant_id: str, expected_revision: int | None) -> Pins:
        """Replace them as a whole. Raises NotFound, InvalidRequest, TooLarge, DraftConflict for another revision."""
        _check_size(pins.text, "the pins", PINS_BYTES_MAX)
        read_pins(pins.value, "")
        draft = await self.get_draft(draft_id, tenant_id=tenant_id)
        saved = await self._saved.save_pins(
            draft.draft_id, pins.text, tenant_id=tenant_id, expected_revision=expected_revision
        )
        if saved is None:
            current = await self.get_pins(draft_id, tenant_id=tenant_id)
            raise DraftConflict(
                f"the pins are at revision {current.revision}, not {expected_revision}",
                details={**draft_as_json(draft), "pinsRevision": current.revision},
            )
        return saved


def draft_as_json(draft: Draft) -> dict[str, Any]:
    """The JSON of a draft without its document."""
    return {
        "draftID": draft.draft_id,
        "workflow": draft.workflow_id,
        "baseVersion": draft.base_version,
        "revision": draft.revision,
        "title": draft.title,
        "createdAt": to_iso(draft.created_at),
        "updatedAt": to_iso(draft.updated_at),
        "updatedBy": draft.updated_by,
    }


def document_of(draft: Draft) -> dict[str, Any]:
    """The document in a draft's text, with the source text of unknown fields."""
    assert draft.document is not None, "only lists leave it out"
    document: dict[str, Any] = parse_workflow(draft.document, what="the draft")
    return document


def _title_of(document: Mapping[str, Any]) -> str | None:
    title = document.get("title")
    return title[:TITLE_LENGTH_MAX] if isinstance(title, str) else None


def _check_size(text: str, what: str, bytes_max: int) -> None:
    if len(text.encode()) > bytes_max:
        raise TooLarge(
            f"{what} has more than {bytes_max // 1_048_576} MB",
            hint="Keep large data outside (a file, an object store) and pass a reference.",
        )


def _conflict(current: Draft) -> DraftConflict:
    return DraftConflict(
        f"the draft is at revision {current.revision}, saved by {current.updated_by or 'nobody'}",
        details=draft_as_json(current),
    )


def _no_draft(draft_id: str) -> NotFound:
    return NotFound(f"there is no draft {draft_id!r}")
