"""Routes of drafts: saved by revision, published as versions. All about one exist under its workflow, too."""

from __future__ import annotations

from typing import Any

import orjson

from anabranch.drafts.draft_service import DraftText, RevisionOptions, draft_as_json
from anabranch.drafts.saved_drafts import Draft as StoredDraft
from anabranch.drafts.saved_drafts import Pins as StoredPins
from anabranch.engine.rules.graph.source_texts import texts_of_fields
from anabranch.errors import (
    DraftConflict,
    DraftExists,
    InvalidWorkflow,
    LimitReached,
    NameTaken,
    NotFound,
    TooLarge,
    VersionMismatch,
    WorkflowIsCoded,
)
from anabranch.keys.access import Role
from anabranch.rest.bodies import checked, one_problem
from anabranch.rest.etags import etag, expected_number
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import Page
from anabranch.rest.models.drafts import Draft, DraftList, DraftSummary, NewDraft, Pins, PublishedDraft, SaveDraft
from anabranch.rest.routes.route import Call, Checked, Header, Method, Reply, Route
from anabranch.service.definitions.workflow_view import saved_summary

_SAVED_REVISION = Header("If-Match", 'The revision that was read, as its ETag: `"3"`; `*` overwrites any. Required.')
_REVISION = Header("If-Match", 'The revision that was read, as its ETag: `"3"`. Anything else is 412.')


async def create_draft(call: Call) -> Reply:
    """Of a workflow, whose newest version is its base unless another one is named, or of a new one."""
    asked = checked(call.body, NewDraft)
    made = await call.services.drafts.create_draft(
        _text(call, asked),
        tenant_id=call.tenant_id,
        workflow=asked.workflow,
        base_version=asked.baseVersion,
        actor=call.actor,
    )
    headers = {"Location": f"/v1/drafts/{made.draft_id}", "ETag": etag(made.revision)}
    return Reply(draft_as_json(made), 201, headers)


async def list_drafts(call: Call) -> Reply:
    """By id, without their documents."""
    found = await call.services.drafts.list_drafts(tenant_id=call.tenant_id)
    return Reply(page_by_name([draft_as_json(each) for each in found], call.query, "drafts", "draftID"))


async def get_draft(call: Call) -> Reply:
    """A draft with its document; under a workflow's path, that workflow's draft."""
    found = await _draft(call)
    assert found.document is not None, "it is left out of lists only"
    answer = {**draft_as_json(found), "document": orjson.Fragment(found.document)}
    return Reply(orjson.dumps(answer), headers={"ETag": etag(found.revision)})


async def save_draft(call: Call) -> Reply:
    """The next revision of a draft.

    What is stored already is no new revision, whatever revision was read: a save whose answer was lost can be
    repeated. `baseVersion` moves the base, as after a merge with a newer version.
    """
    asked = checked(call.body, SaveDraft)
    if "If-Match" not in call.headers:
        raise one_problem("a draft is saved with the revision that was read, in the header If-Match", "/If-Match")
    saved = await call.services.drafts.save_draft(
        await _draft_id(call),
        _text(call, asked),
        RevisionOptions(expected_revision=expected_number(call.headers["If-Match"]), base_version=asked.baseVersion),
        tenant_id=call.tenant_id,
        actor=call.actor,
    )
    return Reply(draft_as_json(saved), headers={"ETag": etag(saved.revision)})


async def delete_draft(call: Call) -> Reply:
    """With its pins; what was published stays."""
    await call.services.drafts.delete_draft(await _draft_id(call), tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


async def publish_draft(call: Call) -> Reply:
    """The version is saved and the draft's base moved to it, in one transaction; the draft stays.

    412 `VERSION_MISMATCH` where its base is not the newest version, and 422 as at any save.
    """
    saved, report, draft = await call.services.drafts.publish_draft(
        await _draft_id(call),
        tenant_id=call.tenant_id,
        expected_revision=expected_number(call.headers.get("If-Match")),
        actor=call.actor,
    )
    answer = {**saved_summary(saved, report), "draft": draft_as_json(draft)}
    return Reply(answer, headers={"Location": f"/v1/workflows/{saved.workflow_id}", "ETag": etag(draft.revision)})


async def get_pins(call: Call) -> Reply:
    """The outputs that test runs of the draft take instead of executing nodes; no version has them."""
    return _pins(await call.services.drafts.get_pins(await _draft_id(call), tenant_id=call.tenant_id))


async def save_pins(call: Call) -> Reply:
    """All pins of the draft, replaced as a whole; they have revisions of their own."""
    saved = await call.services.drafts.save_pins(
        await _draft_id(call),
        DraftText(call.body, call.raw_body.decode().removeprefix("\ufeff").strip()),
        tenant_id=call.tenant_id,
        expected_revision=expected_number(call.headers.get("If-Match")),
    )
    return _pins(saved)


def _pins(pins: StoredPins) -> Reply:
    return Reply(pins.text.encode(), headers={"ETag": etag(pins.revision)})


def _text(call: Call, asked: SaveDraft) -> DraftText:
    return DraftText(asked.document, texts_of_fields(call.raw_body.decode())["document"])


async def _draft_id(call: Call) -> str:
    """The draft that the path names; under a workflow's path, that workflow's. Raises NotFound."""
    return call.path["draft"] if "draft" in call.path else (await _draft(call)).draft_id


async def _draft(call: Call) -> StoredDraft:
    if "draft" in call.path:
        return await call.services.drafts.get_draft(call.path["draft"], tenant_id=call.tenant_id)
    return await call.services.drafts.get_draft_of(call.path["workflow"], tenant_id=call.tenant_id)


def _about_draft(
    method: Method, path: str, serve: Any, summary: str, needs: Role, answers: Any, **further: Any
) -> Route:
    errors = (NotFound, *further.pop("errors", ()))
    alias = f"/v1/workflows/{{workflow}}/draft{path}"
    return Route(
        method,
        f"/v1/drafts/{{draft}}{path}",
        serve,
        summary,
        needs,
        answers,
        aliases=(alias,),
        errors=errors,
        tag="drafts",
        **further,
    )


ROUTES = (
    Route(
        "GET", "/v1/drafts", list_drafts, "List the drafts.", Role.VIEWER, {200: DraftList}, query=Page, tag="drafts"
    ),
    Route(
        "POST",
        "/v1/drafts",
        create_draft,
        "Begin a draft.",
        Role.EDITOR,
        {201: DraftSummary},
        body=Checked(NewDraft),
        errors=(NotFound, DraftExists, LimitReached, WorkflowIsCoded, TooLarge),
        tag="drafts",
    ),
    _about_draft("GET", "", get_draft, "Read a draft.", Role.VIEWER, {200: Draft}),
    _about_draft(
        "PUT",
        "",
        save_draft,
        "Save the next revision of a draft.",
        Role.EDITOR,
        {200: DraftSummary},
        body=Checked(SaveDraft),
        headers=(_SAVED_REVISION,),
        errors=(DraftConflict, TooLarge),
    ),
    _about_draft("DELETE", "", delete_draft, "Delete a draft.", Role.EDITOR, {204: None}),
    _about_draft(
        "POST",
        "/publish",
        publish_draft,
        "Save a draft as the next version of its workflow.",
        Role.EDITOR,
        {200: PublishedDraft},
        headers=(_REVISION,),
        errors=(DraftConflict, VersionMismatch, InvalidWorkflow, NameTaken, WorkflowIsCoded),
    ),
    _about_draft("GET", "/pins", get_pins, "Read the pins of a draft.", Role.VIEWER, {200: Pins}),
    _about_draft(
        "PUT",
        "/pins",
        save_pins,
        "Replace the pins of a draft.",
        Role.EDITOR,
        {200: Pins},
        body=Checked(Pins),
        headers=(_REVISION,),
        errors=(DraftConflict, TooLarge),
    ),
)
