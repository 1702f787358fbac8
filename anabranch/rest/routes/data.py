"""Routes of data sources, saved queries, secrets and API keys: what runs are given, and who may come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from anabranch.errors import (
    AnabranchError,
    DataSourceInUse,
    NameTaken,
    NotFound,
    SecretKeyMissing,
    SecretKeyWrong,
    SecretUnknown,
    SourceTooPowerful,
)
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import Page
from anabranch.rest.models.data import (
    KeyForm,
    KeyList,
    MadeKey,
    QueryForm,
    QueryList,
    QuerySummary,
    SavedSource,
    SecretForm,
    SecretList,
    SecretSummary,
    SourceForm,
    SourceList,
    SourceSummary,
)
from anabranch.rest.routes.route import Body, Call, Checked, Method, Reply, Route
from anabranch.service.access import Role
from anabranch.service.data_view import (
    key_as_json,
    query_as_json,
    saved_source_as_json,
    secret_as_json,
    source_as_json,
)


# -- data sources -------------------------------------------------------------------------
async def list_sources(call: Call) -> Reply:
    """By name, without their URLs."""
    found = await call.services.data.list_sources(tenant_id=call.tenant_id)
    return Reply(page_by_name([source_as_json(each) for each in found], call.query, "data-sources"))


async def create_source(call: Call) -> Reply:
    """The URL is kept sealed where it holds a password, and never comes back."""
    made = await call.services.data.create_source(call.body, tenant_id=call.tenant_id, actor=call.actor)
    location = f"/v1/data-sources/{made.source.data_source_id}"
    return Reply(saved_source_as_json(made), 201, {"Location": location})


async def get_source(call: Call) -> Reply:
    """`{source}` is an id or a name."""
    return Reply(source_as_json(await call.services.data.get_source(call.path["source"], tenant_id=call.tenant_id)))


async def update_source(call: Call) -> Reply:
    """Its queries run on the new URL from their next execution on."""
    saved = await call.services.data.update_source(
        call.path["source"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(saved_source_as_json(saved))


async def delete_source(call: Call) -> Reply:
    """409 while queries name it."""
    await call.services.data.delete_source(call.path["source"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


# -- saved queries ------------------------------------------------------------------------
async def list_queries(call: Call) -> Reply:
    """By name, with their SQL."""
    found = await call.services.data.list_queries(tenant_id=call.tenant_id)
    return Reply(page_by_name([query_as_json(each) for each in found], call.query, "data-queries"))


async def create_query(call: Call) -> Reply:
    """One statement; parameters are written `:name` in it."""
    made = await call.services.data.create_query(call.body, tenant_id=call.tenant_id, actor=call.actor)
    return Reply(query_as_json(made), 201, {"Location": f"/v1/data-queries/{made.data_query_id}"})


async def get_query(call: Call) -> Reply:
    """`{query}` is an id or a name."""
    return Reply(query_as_json(await call.services.data.get_query(call.path["query"], tenant_id=call.tenant_id)))


async def update_query(call: Call) -> Reply:
    """Replaced as a whole; runs that come to it later run the new one."""
    saved = await call.services.data.update_query(
        call.path["query"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(query_as_json(saved))


async def delete_query(call: Call) -> Reply:
    """Nodes that name it fail with QUERY_NOT_FOUND from then on."""
    await call.services.data.delete_query(call.path["query"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


# -- secrets ------------------------------------------------------------------------------
async def list_secrets(call: Call) -> Reply:
    """Names and times; no values."""
    found = await call.services.safe.list(tenant_id=call.tenant_id)
    return Reply(page_by_name([secret_as_json(each) for each in found], call.query, "secrets"))


async def set_secret(call: Call) -> Reply:
    """The newest value of a name holds; runs under way read it with their next attempt."""
    form: SecretForm = call.body
    entry = await call.services.safe.set(tenant_id=call.tenant_id, name=form.name, value=form.value, actor=call.actor)
    return Reply(secret_as_json(entry), 201, {"Location": f"/v1/secrets/{entry.name}"})


async def delete_secret(call: Call) -> Reply:
    """Nodes that read it fail with SECRET_UNKNOWN from then on."""
    await call.services.safe.delete(tenant_id=call.tenant_id, name=call.path["secret"], actor=call.actor)
    return Reply(status=204)


# -- keys ---------------------------------------------------------------------------------
async def list_keys(call: Call) -> Reply:
    """The tenant's, revoked ones too; never the keys themselves."""
    found = await call.services.access.list_keys(call.tenant_id)
    return Reply(page_by_name([key_as_json(each) for each in found], call.query, "keys", "keyID"))


async def create_key(call: Call) -> Reply:
    """The key is in this answer and nowhere else."""
    form: KeyForm = call.body
    made = await call.services.access.create_key(tenant_id=call.tenant_id, role=form.role, actor=call.actor)
    document = {"key": made.key, "keyID": made.key_id, "tenant": made.tenant_id, "role": made.role.value}
    return Reply(document, 201, {"Location": f"/v1/keys/{made.key_id}"})


async def revoke_key(call: Call) -> Reply:
    """Refused within 2 seconds, open sockets closed within 5."""
    await call.services.access.revoke_key(call.path["keyID"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


def _route(
    method: Method,
    path: str,
    serve: Any,
    summary: str,
    needs: Role,
    answers: dict[int, type[BaseModel] | None],
    *errors: type[AnabranchError],
    body: Body = None,
) -> Route:
    further: dict[str, Any] = {"query": Page} if method == "GET" and "{" not in path else {}
    return Route(method, path, serve, summary, needs, answers, body=body, errors=errors, tag="data", **further)


_SOURCE_REFUSALS: Sequence[type[AnabranchError]] = (
    NameTaken,
    SecretKeyMissing,
    SecretKeyWrong,
    SourceTooPowerful,
)

ROUTES = (
    _route("GET", "/v1/data-sources", list_sources, "List the data sources.", Role.VIEWER, {200: SourceList}),
    _route(
        "POST",
        "/v1/data-sources",
        create_source,
        "Save a data source.",
        Role.ADMIN,
        {201: SavedSource},
        *_SOURCE_REFUSALS,
        body=Checked(SourceForm),
    ),
    _route(
        "GET",
        "/v1/data-sources/{source}",
        get_source,
        "Read a data source.",
        Role.VIEWER,
        {200: SourceSummary},
        NotFound,
    ),
    _route(
        "PUT",
        "/v1/data-sources/{source}",
        update_source,
        "Replace a data source.",
        Role.ADMIN,
        {200: SavedSource},
        NotFound,
        *_SOURCE_REFUSALS,
        body=Checked(SourceForm),
    ),
    _route(
        "DELETE",
        "/v1/data-sources/{source}",
        delete_source,
        "Delete a data source.",
        Role.ADMIN,
        {204: None},
        NotFound,
        DataSourceInUse,
    ),
    _route("GET", "/v1/data-queries", list_queries, "List the saved queries.", Role.VIEWER, {200: QueryList}),
    _route(
        "POST",
        "/v1/data-queries",
        create_query,
        "Save a query.",
        Role.EDITOR,
        {201: QuerySummary},
        NameTaken,
        body=Checked(QueryForm),
    ),
    _route("GET", "/v1/data-queries/{query}", get_query, "Read a query.", Role.VIEWER, {200: QuerySummary}, NotFound),
    _route(
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
    _route("DELETE", "/v1/data-queries/{query}", delete_query, "Delete a query.", Role.EDITOR, {204: None}, NotFound),
    _route("GET", "/v1/secrets", list_secrets, "List the secrets.", Role.ADMIN, {200: SecretList}),
    _route(
        "POST",
        "/v1/secrets",
        set_secret,
        "Set a secret; its value never comes back.",
        Role.ADMIN,
        {201: SecretSummary},
        SecretKeyMissing,
        SecretKeyWrong,
        body=SecretForm,
    ),
    _route("DELETE", "/v1/secrets/{secret}", delete_secret, "Delete a secret.", Role.ADMIN, {204: None}, SecretUnknown),
    _route("GET", "/v1/keys", list_keys, "List the API keys.", Role.ADMIN, {200: KeyList}),
    _route("POST", "/v1/keys", create_key, "Make an API key.", Role.ADMIN, {201: MadeKey}, body=KeyForm),
    _route("DELETE", "/v1/keys/{keyID}", revoke_key, "Revoke an API key.", Role.ADMIN, {204: None}, NotFound),
)
