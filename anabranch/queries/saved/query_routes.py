"""Routes of data sources and saved queries, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from anabranch.errors import (
    DataSourceInUse,
    NameTaken,
    NotFound,
    SecretKeyMissing,
    SecretKeyWrong,
    SourceTooPowerful,
)
from anabranch.keys.access import Role
from anabranch.queries.saved.saved_queries import query_as_json, saved_source_as_json, source_as_json
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import Form, ListModel, Name, Page, ResponseModel
from anabranch.rest.routes.route import Checked, Reply, RouteCall, RouteTable


class SourceForm(Form):
    """A data source as it is saved."""

    name: Name
    url: str = Field(min_length=1, description="sqlite:///path, postgresql://… or mysql://…")


class QueryForm(Form):
    """A saved query as it is saved; docs/data-queries.md explains the fields."""

    name: Name
    dataSourceID: str = Field(min_length=1, description="Id or name.")
    sql: str = Field(min_length=1)
    params: dict[str, Any] | None = None
    writes: bool = False
    timeout: str | int | None = None


class SourceSummary(ResponseModel):
    """A data source; its URL never comes back."""

    dataSourceID: str
    name: str
    kind: str
    address: str
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SourceWarning(ResponseModel):
    """What could not be found out about a data source."""

    code: str
    pointer: str
    message: str


class SavedSourceModel(SourceSummary):
    """A data source that was saved; one that could not be reached has a warning."""

    warnings: list[SourceWarning]


class QuerySummary(ResponseModel):
    """A saved query."""

    dataQueryID: str
    name: str
    dataSourceID: str
    sql: str
    params: dict[str, Any]
    writes: bool
    timeoutMs: int
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SourceList(ListModel[SourceSummary]):
    """All data sources of the tenant."""


class QueryList(ListModel[QuerySummary]):
    """All saved queries of the tenant."""


_SOURCE_REFUSALS = (NameTaken, SecretKeyMissing, SecretKeyWrong, SourceTooPowerful)

ROUTES = RouteTable("data")
_OF_SOURCE = ROUTES.below("/v1/data-sources/{source}", errors=(NotFound,))
_OF_QUERY = ROUTES.below("/v1/data-queries/{query}", errors=(NotFound,))


@ROUTES.get("/v1/data-sources", Role.VIEWER, {200: SourceList}, query=Page)
async def list_sources(call: RouteCall) -> Reply:
    """List the data sources.

    By name, without their URLs.
    """
    found = await call.services.data.list_sources(tenant_id=call.tenant_id)
    return Reply(page_by_name([source_as_json(each) for each in found], call.query, "data-sources"))


@ROUTES.post(
    "/v1/data-sources", Role.ADMIN, {201: SavedSourceModel}, body=Checked(SourceForm), errors=(*_SOURCE_REFUSALS,)
)
async def create_source(call: RouteCall) -> Reply:
    """Save a data source.

    The URL is kept sealed where it holds a password, and never comes back.
    """
    made = await call.services.data.create_source(call.body, tenant_id=call.tenant_id, actor=call.actor)
    location = f"/v1/data-sources/{made.source.data_source_id}"
    return Reply(saved_source_as_json(made), 201, {"Location": location})


@_OF_SOURCE.get("", Role.VIEWER, {200: SourceSummary})
async def get_source(call: RouteCall) -> Reply:
    """Read a data source.

    `{source}` is an id or a name.
    """
    return Reply(source_as_json(await call.services.data.get_source(call.path["source"], tenant_id=call.tenant_id)))


@_OF_SOURCE.put("", Role.ADMIN, {200: SavedSourceModel}, body=Checked(SourceForm), errors=(*_SOURCE_REFUSALS,))
async def update_source(call: RouteCall) -> Reply:
    """Replace a data source.

    Its queries run on the new URL from their next execution on.
    """
    saved = await call.services.data.update_source(
        call.path["source"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(saved_source_as_json(saved))


@_OF_SOURCE.delete("", Role.ADMIN, {204: None}, errors=(DataSourceInUse,))
async def delete_source(call: RouteCall) -> Reply:
    """Delete a data source.

    409 while queries name it.
    """
    await call.services.data.delete_source(call.path["source"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


@ROUTES.get("/v1/data-queries", Role.VIEWER, {200: QueryList}, query=Page)
async def list_queries(call: RouteCall) -> Reply:
    """List the saved queries.

    By name, with their SQL.
    """
    found = await call.services.data.list_queries(tenant_id=call.tenant_id)
    return Reply(page_by_name([query_as_json(each) for each in found], call.query, "data-queries"))


@ROUTES.post("/v1/data-queries", Role.EDITOR, {201: QuerySummary}, body=Checked(QueryForm), errors=(NameTaken,))
async def create_query(call: RouteCall) -> Reply:
    """Save a query.

    One statement; parameters are written `:name` in it.
    """
    made = await call.services.data.create_query(call.body, tenant_id=call.tenant_id, actor=call.actor)
    return Reply(query_as_json(made), 201, {"Location": f"/v1/data-queries/{made.data_query_id}"})


@_OF_QUERY.get("", Role.VIEWER, {200: QuerySummary})
async def get_query(call: RouteCall) -> Reply:
    """Read a query.

    `{query}` is an id or a name.
    """
    return Reply(query_as_json(await call.services.data.get_query(call.path["query"], tenant_id=call.tenant_id)))


@_OF_QUERY.put("", Role.EDITOR, {200: QuerySummary}, body=Checked(QueryForm), errors=(NameTaken,))
async def update_query(call: RouteCall) -> Reply:
    """Replace a query.

    Replaced as a whole; runs that come to it later run the new one.
    """
    saved = await call.services.data.update_query(
        call.path["query"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(query_as_json(saved))


@_OF_QUERY.delete("", Role.EDITOR, {204: None})
async def delete_query(call: RouteCall) -> Reply:
    """Delete a query.

    Nodes that name it fail with QUERY_NOT_FOUND from then on.
    """
    await call.services.data.delete_query(call.path["query"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)
