"""Routes of variables, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from anabranch.errors import InvalidRequest, LimitReached, NotFound, VersionMismatch, WorkflowIsCoded
from anabranch.keys.access import Role
from anabranch.rest.etags import etag, expected_number
from anabranch.rest.lists import page_of
from anabranch.rest.models.base import Page, RequestModel, ResponseModel
from anabranch.rest.routes.route import Header, Reply, RouteCall, data_route
from anabranch.service.cursors import cut, make_cursor, read_cursor
from anabranch.variables.saved_variables import Owner, SavedVariable, owner_of_workflow, variable_as_json


class VariableForm(RequestModel):
    """The value of a variable."""

    value: Any = Field(description="Any JSON value but null, of at most 256 kB.")


class VariableWithValue(ResponseModel):
    """A variable."""

    name: str
    value: Any
    size: int = Field(description="Bytes of the value as JSON.")
    version: int = Field(description="How often it was written or removed.")
    updatedAt: AwareDatetime


class ListedVariable(VariableWithValue):
    """A variable of a list."""

    value: Any = Field(
        description="Null if it has more than 4 kB of JSON: no variable is null. GET of the variable has it."
    )


class VariableList(ResponseModel):
    """Variables in the order of their names."""

    items: list[ListedVariable]
    nextCursor: str | None


async def list_variables(call: RouteCall) -> Reply:
    """With their values, which are not secret; values over 4 kB one by one."""
    return await _list(call, Owner(call.tenant_id), "variables")


async def get_variable(call: RouteCall) -> Reply:
    """With its value, whatever its size."""
    return await _get(call, Owner(call.tenant_id))


async def set_variable(call: RouteCall) -> Reply:
    """Nodes of the type `readVariables` that run from now on read it."""
    return await _set(call, Owner(call.tenant_id))


async def delete_variable(call: RouteCall) -> Reply:
    """Nodes that read it find nothing under its name."""
    return await _delete(call, Owner(call.tenant_id))


async def list_workflow_variables(call: RouteCall) -> Reply:
    """Those that its runs keep for later ones; values over 4 kB one by one."""
    return await _list(call, await _owner(call), "workflow-variables")


async def get_workflow_variable(call: RouteCall) -> Reply:
    """With its value, whatever its size."""
    return await _get(call, await _owner(call))


async def set_workflow_variable(call: RouteCall) -> Reply:
    """Takes the place of what its runs have written."""
    return await _set(call, await _owner(call))


async def delete_workflow_variable(call: RouteCall) -> Reply:
    """Its runs find nothing under this name."""
    return await _delete(call, await _owner(call))


async def _owner(call: RouteCall) -> Owner:
    found = await call.services.workflows.get_workflow_by_id(call.path["workflow"], tenant_id=call.tenant_id)
    return owner_of_workflow(found)


async def _list(call: RouteCall, owner: Owner, kind: str) -> Reply:
    page: Page = call.query
    after = "" if page.cursor is None else read_cursor(kind, page.cursor, parts=1)[0]
    found = await call.services.variables.list_variables(owner, limit=page.limit + 1, after=after)
    shown, next_cursor = cut(list(found), page.limit, lambda last: make_cursor(kind, last.name))
    return Reply(page_of([variable_as_json(each) for each in shown], next_cursor))


async def _get(call: RouteCall, owner: Owner) -> Reply:
    name = call.path["variable"]
    found = await call.services.variables.get_variable(owner, name)
    if found is None:
        raise NotFound(f"there is no variable {name}")
    return _with_version(found)


async def _set(call: RouteCall, owner: Owner) -> Reply:
    form: VariableForm = call.body
    if form.value is None:
        raise InvalidRequest("the value of a variable is not null", hint="Delete the variable.")
    written = await call.services.variables.set_variable(
        owner, call.path["variable"], form.value, actor=call.actor, expected_version=_expected(call)
    )
    return _with_version(written)


async def _delete(call: RouteCall, owner: Owner) -> Reply:
    name = call.path["variable"]
    expected = _expected(call)
    if not await call.services.variables.delete_variable(owner, name, actor=call.actor, expected_version=expected):
        raise NotFound(f"there is no variable {name}")
    return Reply(status=204)


def _expected(call: RouteCall) -> int | None:
    return expected_number(call.headers.get("If-Match"))


def _with_version(variable: SavedVariable) -> Reply:
    return Reply(variable_as_json(variable), headers={"ETag": etag(variable.version)})


_VERSION = Header("If-Match", 'The version that was read, as its ETag: `"3"`. Anything else is 412.')

_OF_TENANT, _OF_WORKFLOW = "/v1/variables", "/v1/workflows/{workflow}/variables"

ROUTES = (
    data_route("GET", _OF_TENANT, list_variables, "List the variables.", Role.VIEWER, {200: VariableList}),
    data_route(
        "GET", f"{_OF_TENANT}/{{variable}}", get_variable, "Get a variable.", Role.VIEWER, {200: VariableWithValue},
        NotFound,
    ),
    data_route(
        "PUT", f"{_OF_TENANT}/{{variable}}", set_variable, "Set a variable.", Role.EDITOR, {200: VariableWithValue},
        LimitReached, VersionMismatch, body=VariableForm, headers=(_VERSION,),
    ),
    data_route(
        "DELETE", f"{_OF_TENANT}/{{variable}}", delete_variable, "Delete a variable.", Role.EDITOR, {204: None},
        NotFound, VersionMismatch, headers=(_VERSION,),
    ),
    data_route(
        "GET", _OF_WORKFLOW, list_workflow_variables, "List the variables of a workflow.", Role.VIEWER,
        {200: VariableList}, NotFound, WorkflowIsCoded, has_pages=True,
    ),
    data_route(
        "GET", f"{_OF_WORKFLOW}/{{variable}}", get_workflow_variable, "Get a variable of a workflow.", Role.VIEWER,
        {200: VariableWithValue}, NotFound, WorkflowIsCoded,
    ),
    data_route(
        "PUT", f"{_OF_WORKFLOW}/{{variable}}", set_workflow_variable, "Set a variable of a workflow.", Role.EDITOR,
        {200: VariableWithValue}, LimitReached, NotFound, VersionMismatch, WorkflowIsCoded,
        body=VariableForm, headers=(_VERSION,),
    ),
    data_route(
        "DELETE", f"{_OF_WORKFLOW}/{{variable}}", delete_workflow_variable, "Delete a variable of a workflow.",
        Role.EDITOR, {204: None}, NotFound, VersionMismatch, WorkflowIsCoded, headers=(_VERSION,),
    ),
)  # fmt: skip
