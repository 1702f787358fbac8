"""Routes of data sources and saved queries, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import AwareDatetime, Field

from anabranch.errors import (
    AnabranchError,
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
from anabranch.rest.models.base import Form, Name, ResponseModel
from anabranch.rest.routes.route import Checked, Reply, RouteCall, data_route


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


class SourceList(ResponseModel):
    """All data sources of the tenant."""

    items: list[SourceSummary]
    nextCursor: str | None


class QueryList(ResponseModel):
    """All saved queries of the tenant."""

    items: list[QuerySummary]
    nextCursor: str | None


async def list_sources(call: RouteCall) -> Reply:
    """By name, without their URLs."""
    found = await call.services.data.list_sources(tenant_id=call.tenant_id)
    return Reply(page_by_name([source_as_json(each) for each in found], call.query, "data-sources"))


async def create_source(call: RouteCall) -> Reply:
    """The URL is kept sealed where it holds a password, and never comes back."""
    made = await call.services.data.create_source(call.body, tenant_id=call.tenant_id, actor=call.actor)
    location = f"/v1/data-sources/{made.source.data_source_id}"
    return Reply(saved_source_as_json(made), 201, {"Location": location})


async def get_source(call: RouteCall) -> Reply:
    """`{source}` is an id or a name."""
    return Reply(source_as_json(await call.services.data.get_source(call.path["source"], tenant_id=call.tenant_id)))


async def update_source(call: RouteCall) -> Reply:
    """Its queries run on the new URL from their next execution on."""
    saved = await call.services.data.update_source(
        call.path["source"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(saved_source_as_json(saved))


async def delete_source(call: RouteCall) -> Reply:
    """409 while queries name it."""
    await call.services.data.delete_source(call.path["source"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


async def list_queries(call: RouteCall) -> Reply:
    """By name, with their SQL."""
    found = await call.services.data.list_queries(tenant_id=call.tenant_id)
    return Reply(page_by_name([query_as_json(each) for each in found], call.query, "data-queries"))


async def create_query(call: RouteCall) -> Reply:
    """One statement; parameters are written `:name` in it."""
    made = await call.services.data.create_query(call.body, tenant_id=call.tenant_id, actor=call.actor)
    return Reply(query_as_json(made), 201, {"Location": f"/v1/data-queries/{made.data_query_id}"})


async def get_query(call: RouteCall) -> Reply:
    """`{query}` is an id or a name."""
    return Reply(query_as_json(await call.services.data.get_query(call.path["query"], tenant_id=call.tenant_id)))


async def update_query(call: RouteCall) -> Reply:
    """Replaced as a whole; runs that come to it later run the new one."""
    saved = await call.services.data.update_query(
        call.path["query"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(query_as_json(saved))


async def delete_query(call: RouteCall) -> Reply:
    """Nodes that name it fail with QUERY_NOT_FOUND from then on."""
    await call.services.data.delete_query(call.path["query"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


_SOURCE_REFUSALS: Sequence[type[AnabranchError]] = (
    NameTaken,
    SecretKeyMissing,
    SecretKeyWrong,
    SourceTooPowerful,
)


ROUTES = (
    data_route("GET", "/v1/data-sources", list_sources, "List the data sources.", Role.VIEWER, {200: SourceList}),
    data_route(
        "POST",
        "/v1/data-sources",
        create_source,
        "Save a data source.",
        Role.ADMIN,
        {201: SavedSourceModel},
        *_SOURCE_REFUSALS,
        body=Checked(SourceForm),
    ),
    data_route(
        "GET",
        "/v1/data-sources/{source}",
        get_source,
        "Read a data source.",
        Role.VIEWER,
        {200: SourceSummary},
        NotFound,
    ),
    data_route(
        "PUT",
        "/v1/data-sources/{source}",
        update_source,
        "Replace a data source.",
        Role.ADMIN,
        {200: SavedSourceModel},
        NotFound,
        *_SOURCE_REFUSALS,
        body=Checked(SourceForm),
    ),
    data_route(
        "DELETE",
        "/v1/data-sources/{source}",
        delete_source,
        "Delete a data source.",
        Role.ADMIN,
        {204: None},
        NotFound,
        DataSourceInUse,
    ),
    data_route("GET", "/v1/data-queries", list_queries, "List the saved queries.", Role.VIEWER, {200: QueryList}),
    data_route(
        "POST",
        "/v1/data-queries",
        create_query,
        "Save a query.",
        Role.EDITOR,
        {201: QuerySummary},
        NameTaken,
        body=Checked(QueryForm),
    ),
    data_route(
        "GET", "/v1/data-queries/{query}", get_query, "Read a query.", Role.VIEWER, {200: QuerySummary}, NotFound
    ),
    data_route(
        "PUT",
        "/v1/data-queries/{query}",
        update_query,
        "Replace a query.",
        Role.EDITOR,
        {200: QuerySummary},
        NotFound,
        NameTaken,
        body=Checked(QueryForm),
    ),
    data_route(
        "DELETE", "/v1/data-queries/{query}", delete_query, "Delete a query.", Role.EDITOR, {204: None}, NotFound
    ),
)
