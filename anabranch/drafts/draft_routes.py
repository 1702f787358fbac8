"""Routes of drafts: save by revision, publish as a version. Each path also exists below the draft's workflow."""

from __future__ import annotations

from typing import Any

import orjson

from anabranch.drafts.draft_service import DraftText, RevisionOptions, draft_as_json
from anabranch.drafts.saved_drafts import Draft, Pins
from anabranch.engine.rules.graph.source_texts import texts_of_fields
from anabranch.errors import (
    DraftConflict,
    DraftExists,
    HookPathTaken,
    InvalidWorkflow,
    LimitReached,
    NameTaken,
    NotFound,
    SecretKeyMissing,
    ShuttingDown,
    TooLarge,
    TooManyPending,
    VersionMismatch,
    WorkflowIsCoded,
)
from anabranch.keys.access import Role
from anabranch.rest.bodies import checked, one_problem
from anabranch.rest.etags import etag, expected_number
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.draft_models import (
    DraftList,
    DraftModel,
    DraftPage,
    DraftSummary,
    NewDraft,
    PinsModel,
    PublishedDraft,
    PublishOptions,
    SaveDraft,
    TestHookModel,
)
from anabranch.rest.routes.route import Checked, Header, Reply, RouteCall, RouteTable
from anabranch.service.definitions.workflow_view import saved_summary
from anabranch.triggers.webhooks.test_hook_service import TestHook

_SAVED_REVISION = Header("If-Match", 'The revision that was read, as its ETag: `"3"`; `*` overwrites any. Required.')
_REVISION = Header("If-Match", 'The revision that was read, as its ETag: `"3"`. Anything else is 412.')


ROUTES = RouteTable("drafts")
_OF_DRAFT = ROUTES.below("/v1/drafts/{draft}", alias="/v1/workflows/{workflow}/draft", errors=(NotFound,))


@ROUTES.get("/v1/drafts", Role.VIEWER, {200: DraftList}, query=DraftPage, errors=(NotFound,))
async def list_drafts(call: RouteCall) -> Reply:
    """List the drafts.

    By id, without their documents.
    """
    found = await call.services.drafts.list_drafts(tenant_id=call.tenant_id, workflow=call.query.workflow)
    return Reply(page_by_name([draft_as_json(each) for each in found], call.query, "drafts", "draftID"))


@ROUTES.post(
    "/v1/drafts",
    Role.EDITOR,
    {201: DraftSummary},
    body=Checked(NewDraft),
    errors=(NotFound, DraftExists, LimitReached, WorkflowIsCoded, TooLarge),
)
async def create_draft(call: RouteCall) -> Reply:
    """Create a draft.

    A draft of a workflow, based on its newest version unless another is given, or of a new workflow.
    """
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


@_OF_DRAFT.get("", Role.VIEWER, {200: DraftModel})
async def get_draft(call: RouteCall) -> Reply:
    """Read a draft.

    A draft with its document; under a workflow's path, that workflow's draft.
    """
    found = await _draft(call)
    assert found.document is not None, "it is left out of lists only"
    answer = {**draft_as_json(found), "document": orjson.Fragment(found.document)}
    return Reply(orjson.dumps(answer), headers={"ETag": etag(found.revision)})


@_OF_DRAFT.put(
    "",
    Role.EDITOR,
    {200: DraftSummary},
    body=Checked(SaveDraft),
    headers=(_SAVED_REVISION,),
    errors=(DraftConflict, TooLarge),
)
async def save_draft(call: RouteCall) -> Reply:
    """Save the next revision of a draft.

    The next revision of a draft.

    Saving the stored document again makes no new revision, so a save whose response was lost can be repeated.
    `baseVersion` moves the base, as after a merge with a newer version.
    """
    asked = checked(call.body, SaveDraft)
    if "If-Match" not in call.headers:
        raise one_problem("saving a draft needs the header If-Match with the revision that was read", "/If-Match")
    saved = await call.services.drafts.save_draft(
        await _draft_id(call),
        _text(call, asked),
        RevisionOptions(expected_revision=expected_number(call.headers["If-Match"]), base_version=asked.baseVersion),
        tenant_id=call.tenant_id,
        actor=call.actor,
    )
    return Reply(draft_as_json(saved), headers={"ETag": etag(saved.revision)})


@_OF_DRAFT.delete("", Role.EDITOR, {204: None})
async def delete_draft(call: RouteCall) -> Reply:
    """Delete a draft.

    Also deletes its pins; published versions stay.
    """
    await call.services.drafts.delete_draft(await _draft_id(call), tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


@_OF_DRAFT.post(
    "/publish",
    Role.EDITOR,
    {200: PublishedDraft},
    query=PublishOptions,
    headers=(_REVISION,),
    errors=(DraftConflict, VersionMismatch, InvalidWorkflow, NameTaken, HookPathTaken, WorkflowIsCoded),
)
async def publish_draft(call: RouteCall) -> Reply:
    """Save a draft as the next version of its workflow.

    Saves the version and moves the draft's base to it in one transaction; the draft stays.

    412 `VERSION_MISMATCH` if its base is not the newest version, 422 if it is invalid.
    """
    saved, report, draft = await call.services.drafts.publish_draft(
        await _draft_id(call),
        tenant_id=call.tenant_id,
        expected_revision=expected_number(call.headers.get("If-Match")),
        activate=call.query.activate,
        actor=call.actor,
    )
    answer = {**saved_summary(saved, report), "draft": draft_as_json(draft)}
    return Reply(answer, headers={"Location": f"/v1/workflows/{saved.workflow_id}", "ETag": etag(draft.revision)})


@_OF_DRAFT.get("/pins", Role.VIEWER, {200: PinsModel})
async def get_pins(call: RouteCall) -> Reply:
    """Read the pins of a draft.

    The outputs that test runs of the draft use instead of executing nodes; versions have none.
    """
    return _pins(await call.services.drafts.get_pins(await _draft_id(call), tenant_id=call.tenant_id))


@_OF_DRAFT.put(
    "/pins",
    Role.EDITOR,
    {200: PinsModel},
    body=Checked(PinsModel),
    headers=(_REVISION,),
    errors=(DraftConflict, TooLarge),
)
async def save_pins(call: RouteCall) -> Reply:
    """Replace the pins of a draft.

    Replace all pins of the draft; they have revisions of their own.
    """
    saved = await call.services.drafts.save_pins(
        await _draft_id(call),
        DraftText(call.body, call.raw_body.decode().removeprefix("\ufeff").strip()),
        tenant_id=call.tenant_id,
        expected_revision=expected_number(call.headers.get("If-Match")),
    )
    return _pins(saved)


@_OF_DRAFT.get("/test-hooks/{node}", Role.OPERATOR, {200: TestHookModel}, errors=(SecretKeyMissing,))
async def get_test_hook(call: RouteCall) -> Reply:
    """Read the test address of a webhook of a draft.

    The address stays the same as long as draft, node id and the server's secret key do.

    A request to it goes to the newest test run that listens there; while none does, it is answered 409 `NOT_LISTENING`.
    """
    hook = await call.services.test_hooks.get_test_hook(
        await _draft_id(call), call.path["node"], tenant_id=call.tenant_id
    )
    return Reply(_test_hook(hook))


@_OF_DRAFT.post(
    "/test-hooks/{node}/listen",
    Role.EDITOR,
    {201: TestHookModel},
    errors=(SecretKeyMissing, InvalidWorkflow, TooManyPending, ShuttingDown),
)
async def listen_at_test_hook(call: RouteCall) -> Reply:
    """Start a test run that waits for a request to the test address.

    Start a test run of the draft as it is saved, with its pins, that begins at this webhook with the next request to
    its test address; it waits for ten minutes.
    """
    draft_id = await _draft_id(call)
    test_run = await call.services.drafts.get_test_run(draft_id, tenant_id=call.tenant_id)
    hook = await call.services.test_hooks.listen(draft_id, call.path["node"], test_run, tenant_id=call.tenant_id)
    return Reply(_test_hook(hook), 201, {"Location": f"/v1/runs/{hook.instance_id}"})


def _test_hook(hook: TestHook) -> dict[str, Any]:
    return {"nodeID": hook.node_id, "url": hook.url, "instanceID": hook.instance_id}


def _pins(pins: Pins) -> Reply:
    return Reply(pins.text.encode(), headers={"ETag": etag(pins.revision)})


def _text(call: RouteCall, asked: SaveDraft) -> DraftText:
    return DraftText(asked.document, texts_of_fields(call.raw_body.decode())["document"])


async def _draft_id(call: RouteCall) -> str:
    """The draft in the path; below a workflow's path, that workflow's draft. Raises NotFound."""
    return call.path["draft"] if "draft" in call.path else (await _draft(call)).draft_id


async def _draft(call: RouteCall) -> Draft:
    if "draft" in call.path:
        return await call.services.drafts.get_draft(call.path["draft"], tenant_id=call.tenant_id)
    return await call.services.drafts.get_draft_of(call.path["workflow"], tenant_id=call.tenant_id)
