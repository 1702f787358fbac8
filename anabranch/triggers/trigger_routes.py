"""The route that lists the triggers of workflows, with its request and response models.

All entry points are in one list: the nodes of active versions, and the schedules and subscriptions that somebody
saved.
"""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.duration import format_duration, parse_duration
from anabranch.engine.rules.entry_points import (
    ENTRY_POINT_TYPES,
    FAILURE_TYPE,
    SCHEDULE_TYPE,
    START_TYPE,
    TOPIC_TYPE,
    WEBHOOK_TYPE,
)
from anabranch.errors import NotFound
from anabranch.keys.access import Role
from anabranch.rest.lists import page_of
from anabranch.rest.models.base import ListModel, Page, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.service.cursors import cut, make_cursor, read_cursor

_SUBJECTS = {WEBHOOK_TYPE: "path", TOPIC_TYPE: "topic", FAILURE_TYPE: "workflow"}
"""The field of a node's config that says what it fires on."""


class TriggerPage(Page):
    """A page of workflows."""

    workflow: str | None = Field(None, min_length=1, description="This workflow alone, by id or name.")


class BeginningSummary(ResponseModel):
    """One way in which runs of a workflow begin."""

    type: Literal["start", "webhook", "schedule", "topic", "failure", "workflowCall"]
    nodeID: str | None = Field(description="The node that the run begins at; null: the start.")
    subject: str | None = Field(
        description="What it fires on: the path of a webhook, the cron expression or interval of a schedule, the"
        " pattern of a topic, the workflow whose failures count (null: any)."
    )
    savedID: str | None = Field(
        description="The id of the schedule or subscription, if somebody saved it; null for nodes of the workflow."
    )
    enabled: bool = Field(description="False: a schedule that is switched off.")


class WorkflowBeginnings(ResponseModel):
    """The triggers of the active version of a workflow."""

    workflowID: str
    name: str
    kind: Literal["drawn", "coded"]
    version: int
    beginnings: list[BeginningSummary]


class WorkflowBeginningsList(ListModel[WorkflowBeginnings]):
    """Workflows of the tenant, by name."""


ROUTES = RouteTable("triggers")


@ROUTES.get("/v1/triggers", Role.VIEWER, {200: WorkflowBeginningsList}, query=TriggerPage, errors=(NotFound,))
async def list_triggers(call: RouteCall) -> Reply:
    """List what workflows begin by.

    By name: the entry points in each active version, and the schedules and subscriptions that were saved for it.
    """
    query: TriggerPage = call.query
    workflows, tenant_id = call.services.workflows, call.tenant_id
    next_cursor = None
    if query.workflow is None:
        found = await workflows.get_all_workflows(
            tenant_id=tenant_id,
            limit=query.limit + 1,
            after=None if query.cursor is None else read_cursor("triggers", query.cursor, parts=1)[0],
            include_graph=True,
        )
        found, next_cursor = cut(found, query.limit, lambda item: make_cursor("triggers", item["name"]))
    else:
        found = [await workflows.get_workflow_details(query.workflow, tenant_id=tenant_id)]
    saved = await _saved(call)
    items = []
    for newest in found:
        active = newest
        if newest["activeVersion"] != newest["version"]:
            try:
                active = await workflows.get_workflow_details(
                    newest["workflowID"], tenant_id=tenant_id, version=newest["activeVersion"]
                )
            except NotFound:  # deleted meanwhile
                continue
        names = (active["workflowID"], active["name"])
        beginnings = [*_beginnings(active), *(each for name in names for each in saved.get(name, ()))]
        items.append(
            {**{name: active[name] for name in ("workflowID", "name", "kind", "version")}, "beginnings": beginnings}
        )
    return Reply(page_of(items, next_cursor))


def _beginnings(workflow: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Those in a workflow's own graph; a coded workflow has none, and begins at its start."""
    if workflow["kind"] == CODED_KIND:
        yield _beginning(START_TYPE)
        return
    for node in workflow["nodes"]:
        if node["type"] in ENTRY_POINT_TYPES and not node.get("disabled"):
            yield _beginning(node["type"], node_id=node["id"], subject=_subject(node["type"], node.get("config") or {}))


def _subject(node_type: str, config: Mapping[str, Any]) -> str | None:
    if node_type == SCHEDULE_TYPE:
        return config.get("cron") or format_duration(parse_duration(config["every"]))
    subject: str | None = config.get(_SUBJECTS.get(node_type, ""))
    return subject


async def _saved(call: RouteCall) -> dict[str, list[dict[str, Any]]]:
    """Saved triggers by their workflow as it was written there: a name or an id."""
    schedules = await call.services.schedules.list_schedules(tenant_id=call.tenant_id)
    subscriptions = await call.services.topics.list_subscriptions(tenant_id=call.tenant_id)
    found: dict[str, list[dict[str, Any]]] = {}
    for schedule in schedules:
        if schedule.node_id is None:
            subject = schedule.cron or format_duration(schedule.every_ms or 0)
            saved = _beginning(SCHEDULE_TYPE, subject=subject, saved_id=schedule.schedule_id, enabled=schedule.enabled)
            found.setdefault(schedule.workflow, []).append(saved)
    for each in subscriptions:
        if each.node_id is None:
            saved = _beginning(TOPIC_TYPE, subject=each.pattern, saved_id=each.subscription_id)
            found.setdefault(each.workflow, []).append(saved)
    return found


def _beginning(
    type_name: str,
    *,
    node_id: str | None = None,
    subject: str | None = None,
    saved_id: str | None = None,
    enabled: bool = True,
) -> dict[str, Any]:
    return {"type": type_name, "nodeID": node_id, "subject": subject, "savedID": saved_id, "enabled": enabled}
