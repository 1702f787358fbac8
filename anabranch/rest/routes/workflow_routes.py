"""Routes of definitions: save, read, list, delete, validate. `{workflow}` is an id or a name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from anabranch.engine.rules.graph.source_texts import plain
from anabranch.engine.rules.test_runs import Pin
from anabranch.errors import (
    DraftConflict,
    HookPathTaken,
    InvalidWorkflow,
    NameTaken,
    NotFound,
    RunTooLarge,
    TooManyPending,
    VersionMismatch,
    WorkflowHasRuns,
    WorkflowIsCoded,
)
from anabranch.keys.access import Role
from anabranch.rest.bodies import checked
from anabranch.rest.etags import etag, expected_number
from anabranch.rest.lists import page_of
from anabranch.rest.models.preview_models import PreviewAnswer, PreviewRequest
from anabranch.rest.models.workflow_models import (
    Aspects,
    ChangedWorkflow,
    DeletionQuery,
    DrawnWorkflow,
    SavedWorkflow,
    SaveQuery,
    Validate,
    ValidateDraft,
    VerdictModel,
    VersionList,
    VersionPage,
    VersionQuery,
    WorkflowDocument,
    WorkflowList,
    WorkflowModel,
    WorkflowPage,
)
from anabranch.rest.routes.route import Checked, Header, Reply, RouteCall, RouteTable
from anabranch.service.cursors import cut, make_cursor, read_cursor, read_number
from anabranch.service.definitions.definition_verbs import UpdateOptions
from anabranch.service.definitions.workflow_view import saved_summary
from anabranch.service.preview import NodeInScope

_IF_MATCH = Header("If-Match", 'The version that was read, as its ETag: `"3"`. Anything else is 412.')


ROUTES = RouteTable("workflows")
_OF_WORKFLOW = ROUTES.below("/v1/workflows/{workflow}", errors=(NotFound,))


@ROUTES.get("/v1/workflows", Role.VIEWER, {200: WorkflowList}, query=WorkflowPage)
async def list_workflows(call: RouteCall) -> Reply:
    """List the workflows, by name.

    Drawn and coded, by name.
    """
    query: WorkflowPage = call.query
    found = await call.services.workflows.get_all_workflows(
        tenant_id=call.tenant_id,
        limit=query.limit + 1,
        after=None if query.cursor is None else read_cursor("workflows", query.cursor, parts=1)[0],
        include_graph=query.include == "graph",
        of_last_day=query.counts == "24h",
    )
    shown, next_cursor = cut(found, query.limit, lambda item: make_cursor("workflows", item["name"]))
    return Reply(page_of(shown, next_cursor))


@ROUTES.post(
    "/v1/workflows",
    Role.EDITOR,
    {201: SavedWorkflow},
    body=Checked(DrawnWorkflow, is_workflow=True),
    errors=(InvalidWorkflow, NameTaken, HookPathTaken),
)
async def create_workflow(call: RouteCall) -> Reply:
    """Save a new drawn workflow.

    201 always creates another workflow, even if the same document was saved before.
    """
    saved, report = await call.services.workflows.create_workflow(call.body, tenant_id=call.tenant_id, actor=call.actor)
    return Reply(
        saved_summary(saved, report),
        201,
        {"Location": f"/v1/workflows/{saved.workflow_id}", "ETag": etag(saved.version)},
    )


@_OF_WORKFLOW.get("", Role.VIEWER, {200: WorkflowModel}, query=VersionQuery)
async def get_workflow(call: RouteCall) -> Reply:
    """Read a workflow.

    One workflow with its graph; the newest version unless one is named.
    """
    found = await call.services.workflows.get_workflow_details(
        call.path["workflow"], tenant_id=call.tenant_id, version=call.query.version
    )
    return Reply(found, headers={"ETag": etag(found["version"])})


@_OF_WORKFLOW.put(
    "",
    Role.EDITOR,
    {200: SavedWorkflow},
    body=Checked(ChangedWorkflow, is_workflow=True),
    query=SaveQuery,
    headers=(_IF_MATCH,),
    errors=(InvalidWorkflow, NameTaken, HookPathTaken, VersionMismatch, WorkflowIsCoded),
)
async def update_workflow(call: RouteCall) -> Reply:
    """Save the next version of a drawn workflow.

    Save the next version; a document equal to the newest version returns that one.

    Top-level fields that the body leaves out keep their value, null removes one; with `replace` the body is
    the whole document. `workflowID` and `kind` must be those of the workflow, if they are given.
    """
    saved, report = await call.services.workflows.update_workflow(
        call.path["workflow"],
        call.body,
        UpdateOptions(
            expected_version=expected_number(call.headers.get("If-Match")),
            replace=call.query.replace,
        ),
        tenant_id=call.tenant_id,
        actor=call.actor,
    )
    return Reply(saved_summary(saved, report), 200, {"ETag": etag(saved.version)})


@_OF_WORKFLOW.delete("", Role.EDITOR, {204: None}, query=DeletionQuery, errors=(WorkflowHasRuns, WorkflowIsCoded))
async def delete_workflow(call: RouteCall) -> Reply:
    """Delete a workflow; its name is free again.

    The name can be used again; ended runs stay readable by their ids.
    """
    await call.services.workflows.delete_workflow(
        call.path["workflow"], tenant_id=call.tenant_id, force=call.query.force, actor=call.actor
    )
    return Reply(status=204)


@_OF_WORKFLOW.get("/document", Role.VIEWER, {200: WorkflowDocument}, query=VersionQuery, errors=(WorkflowIsCoded,))
async def get_workflow_document(call: RouteCall) -> Reply:
    """Read the document of a drawn workflow as it was saved.

    The document as it was sent, fields of other tools included; what a `PUT` with `replace` takes.
    """
    found, text = await call.services.workflows.get_document(
        call.path["workflow"], tenant_id=call.tenant_id, version=call.query.version
    )
    return Reply(orjson.Fragment(text), headers={"ETag": etag(found.version)})


@_OF_WORKFLOW.get("/versions", Role.VIEWER, {200: VersionList}, query=VersionPage)
async def list_versions(call: RouteCall) -> Reply:
    """List the versions of a workflow, newest first.

    Every version, newest first.
    """
    query: VersionPage = call.query
    found = await call.services.workflows.get_workflow_versions(
        call.path["workflow"],
        tenant_id=call.tenant_id,
        limit=query.limit + 1,
        before=None if query.cursor is None else read_number(read_cursor("versions", query.cursor, parts=1)[0]),
        include_run_counts=query.include == "runCounts",
    )
    shown, next_cursor = cut(found, query.limit, lambda item: make_cursor("versions", item["version"]))
    return Reply(page_of(shown, next_cursor))


@ROUTES.post(
    "/v1/validate",
    Role.VIEWER,
    {200: VerdictModel},
    body=Checked(Validate, is_workflow=True),
    errors=(NotFound, DraftConflict),
)
async def validate_workflow(call: RouteCall) -> Reply:
    """Check a graph without saving it.

    Every problem of a graph; nothing is saved.

    `with` asks for more about the nodes (`handles`, `variables`, `references`) and the `structure`, and for fixes of
    the problems. `{draftID, revision}` stands for the document of a draft, which need not be sent again.
    """
    document, aspects = await _asked_to_validate(call)
    if aspects is None:
        report = await call.services.workflows.check_workflow(document, tenant_id=call.tenant_id)
        return Reply(report.as_json())
    return Reply(await call.services.workflows.analyze_workflow(document, aspects, tenant_id=call.tenant_id))


async def _asked_to_validate(call: RouteCall) -> tuple[Any, Collection[str] | None]:
    """The document, and the requested aspects. Raises NotFound, DraftConflict, InvalidRequest."""
    document = call.body
    if not isinstance(document, dict):
        return document, None  # an export of another tool, which the validator reports
    if "draftID" in document:
        asked = checked(plain(document), ValidateDraft)
        drafts = call.services.drafts
        return (
            await drafts.get_document(asked.draftID, revision=asked.revision, tenant_id=call.tenant_id),
            asked.with_,
        )
    aspects = checked(plain({"with": document.get("with")}), Aspects).with_
    return {field: value for field, value in document.items() if field != "with"}, aspects


@ROUTES.post(
    "/v1/preview",
    Role.EDITOR,
    {200: PreviewAnswer},
    body=PreviewRequest,
    errors=(NotFound, RunTooLarge, TooManyPending),
)
async def preview_templates(call: RouteCall) -> Reply:
    """Evaluate templates without running anything.

    The values of templates, evaluated by the code that runs use; each secret appears as `•••`.
    """
    asked: PreviewRequest = call.body
    at = None if asked.at is None else NodeInScope(asked.at.instanceID, asked.at.nodeID, asked.at.scope)
    items = await call.services.preview.preview(
        [(item.id, item.template) for item in asked.items],
        tenant_id=call.tenant_id,
        ctx=asked.ctx,
        at=at,
        pins={node_id: Pin(pin.output, pin.handle) for node_id, pin in (asked.pins or {}).items()},
    )
    return Reply({"items": items})
