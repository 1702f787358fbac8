"""Routes of variables, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from anabranch.errors import InvalidRequest, LimitReached, NotFound, VersionMismatch, WorkflowIsCoded
from anabranch.keys.access import Role
from anabranch.rest.etags import etag, expected_number
from anabranch.rest.lists import page_of
from anabranch.rest.models.base import ListModel, Page, RequestModel, ResponseModel
from anabranch.rest.routes.route import Header, Reply, RouteCall, RouteTable
from anabranch.service.cursors import cut, make_cursor, read_cursor
from anabranch.variables.saved_variables import Owner, SavedVariable, no_variable, owner_of_workflow, variable_as_json


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


class VariableList(ListModel[ListedVariable]):
    """Variables in the order of their names."""


_VERSION = Header("If-Match", 'The version that was read, as its ETag: `"3"`. Anything else is 412.')


ROUTES = RouteTable("data")
_OF_TENANT = ROUTES.below("/v1/variables")
_OF_WORKFLOW = ROUTES.below("/v1/workflows/{workflow}/variables", errors=(NotFound,))


@_OF_TENANT.get("", Role.VIEWER, {200: VariableList}, query=Page)
async def list_variables(call: RouteCall) -> Reply:
    """List the variables.

    With their values, which are not secret; values over 4 kB one by one.
    """
    return await _list(call, Owner(call.tenant_id), "variables")


@_OF_TENANT.get("/{variable}", Role.VIEWER, {200: VariableWithValue}, errors=(NotFound,))
async def get_variable(call: RouteCall) -> Reply:
    """Get a variable.

    With its value, whatever its size.
    """
    return await _get(call, Owner(call.tenant_id))


@_OF_TENANT.put(
    "/{variable}",
    Role.EDITOR,
    {200: VariableWithValue},
    body=VariableForm,
    headers=(_VERSION,),
    errors=(LimitReached, VersionMismatch),
)
async def set_variable(call: RouteCall) -> Reply:
    """Set a variable.

    Nodes of the type `readVariables` that run from now on read it.
    """
    return await _set(call, Owner(call.tenant_id))


@_OF_TENANT.delete("/{variable}", Role.EDITOR, {204: None}, headers=(_VERSION,), errors=(NotFound, VersionMismatch))
async def delete_variable(call: RouteCall) -> Reply:
    """Delete a variable.

    Nodes that read it find nothing under its name.
    """
    return await _delete(call, Owner(call.tenant_id))


@_OF_WORKFLOW.get("", Role.VIEWER, {200: VariableList}, query=Page, errors=(WorkflowIsCoded,))
async def list_workflow_variables(call: RouteCall) -> Reply:
    """List the variables of a workflow.

    Those that its runs keep for later ones; values over 4 kB one by one.
    """
    return await _list(call, await _owner(call), "workflow-variables")


@_OF_WORKFLOW.get("/{variable}", Role.VIEWER, {200: VariableWithValue}, errors=(WorkflowIsCoded,))
async def get_workflow_variable(call: RouteCall) -> Reply:
    """Get a variable of a workflow.

    With its value, whatever its size.
    """
    return await _get(call, await _owner(call))


@_OF_WORKFLOW.put(
    "/{variable}",
    Role.EDITOR,
    {200: VariableWithValue},
    body=VariableForm,
    headers=(_VERSION,),
    errors=(LimitReached, VersionMismatch, WorkflowIsCoded),
)
async def set_workflow_variable(call: RouteCall) -> Reply:
    """Set a variable of a workflow.

    Takes the place of what its runs have written.
    """
    return await _set(call, await _owner(call))


@_OF_WORKFLOW.delete(
    "/{variable}", Role.EDITOR, {204: None}, headers=(_VERSION,), errors=(VersionMismatch, WorkflowIsCoded)
)
async def delete_workflow_variable(call: RouteCall) -> Reply:
    """Delete a variable of a workflow.

    Its runs find nothing under this name.
    """
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
        raise no_variable(name)
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
        raise no_variable(name)
    return Reply(status=204)


def _expected(call: RouteCall) -> int | None:
    return expected_number(call.headers.get("If-Match"))


def _with_version(variable: SavedVariable) -> Reply:
    return Reply(variable_as_json(variable), headers={"ETag": etag(variable.version)})
