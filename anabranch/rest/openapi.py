"""Generate the OpenAPI 3.1 document of the REST API from the table of routes and their models.

Called by `GET /openapi.json` and by `anabranch openapi`. What a route takes, returns and
raises is declared once, at the route.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from anabranch import errors as situations
from anabranch.errors import AnabranchError
from anabranch.keys.access import Role
from anabranch.rest.error_responses import RETRY_AFTER_S, STATUS, status_of
from anabranch.rest.routes.route import PUBLIC, AnyJson, Checked, Route
from anabranch.version import __version__

_REFERENCE = "#/components/schemas/{model}"

_EVERYWHERE: Sequence[type[AnabranchError]] = (situations.InvalidRequest, situations.StoreUnavailable)
_WITH_KEY: Sequence[type[AnabranchError]] = (situations.NotAuthenticated, situations.NotPermitted)
_WITH_BODY: Sequence[type[AnabranchError]] = (
    situations.BadJson,
    situations.MediaTypeRefused,
    situations.RequestTimeout,
    situations.TooLarge,
    situations.ValueNotStorable,
)

_WITHOUT_KEY: Sequence[type[AnabranchError]] = (
    situations.BadJson,
    situations.NotFound,
    situations.RequestTimeout,
    situations.TooLarge,
    situations.EncodingRefused,
    situations.InvalidInput,
    situations.ValueNotStorable,
    situations.ShuttingDown,
    situations.StoreUnavailable,
)
_OF_WEBHOOKS = (
    situations.MethodNotAllowed,
    situations.WebhookBusy,
    situations.TooManyPending,
    situations.NoResponse,
    situations.ResponseTimeout,
)
_OF_CALLBACKS = (situations.CallbackUsed, situations.CallbackExpired)

_OF_TEST_ADDRESSES = (
    situations.NotListening,
    situations.MethodNotAllowed,
    situations.TooManySignals,
    situations.NoResponse,
    situations.ResponseTimeout,
)

_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "details"],
            "properties": {
                "code": {"type": "string", "description": "Stable; docs/errors.md lists them."},
                "message": {"type": "string"},
                "hint": {"type": "string", "description": "What to do next; may be empty."},
                "details": {"description": "Data for programs; null where there is none."},
            },
        }
    },
}

_DESCRIPTION = (
    "A durable workflow engine for drawn and coded workflows. Every error has the form "
    '`{"error": {"code", "message", "hint", "details"}}`. Lists take `limit` (1 to 100) and `cursor`, '
    'and return `{"items", "nextCursor"}`.'
)


def schema_name(model: type[BaseModel]) -> str:
    """The name of a model in the document: its class name without `Model`, which sets it apart from other classes."""
    return model.__name__.removesuffix("Model")


class _SchemaNames(GenerateJsonSchema):
    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removesuffix("Model")


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document as a JSON value."""
    models = _models_of(routes)
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE, schema_generator=_SchemaNames
    )
    schemas = {
        name: {**schema, "title": name} if "title" in schema else schema
        for name, schema in definitions.get("$defs", {}).items()
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        for number, path in enumerate((route.path, *route.aliases)):
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, number)
    paths |= _public_paths()
    return {
        "openapi": "3.1.0",
        "info": {"title": "anabranch", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR_SCHEMA},
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key; `anabranch keys create` makes one.",
                }
            },
        },
    }


def _models_of(routes: Iterable[Route]) -> list[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {}
    for route in routes:
        body = route.body.model if isinstance(route.body, Checked) else route.body
        for model in (body, *route.answers.values()):
            if isinstance(model, type):
                found[model] = None
    return list(found)


def _operation(route: Route, path: str, number: int) -> dict[str, Any]:
    name = route.serve.__name__.lstrip("_")
    operation: dict[str, Any] = {
        "operationId": name if number == 0 else f"{name}_of_workflow",
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*_path_parameters(path), *_query_parameters(route), *_header_parameters(route)],
        "responses": _responses(route),
    }
    more = [route.details] if route.details else []
    if route.needs is PUBLIC:
        operation["security"] = []
    else:
        operation["security"] = [{"key": []}]
        higher = "" if route.needs is Role.EXECUTOR else " or a higher one"
        more.append(f"Needs the role `{route.needs}`{higher}{', or `executor`' if route.for_executors else ''}.")
    operation["description"] = "\n\n".join(more)
    if route.body is not None:
        operation["requestBody"] = _request_body(route)
    return operation


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    schema = route.query.model_json_schema(ref_template=_REFERENCE)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", []),
            "schema": _inlined({key: value for key, value in field.items() if key != "description"}, schema),
            "description": field.get("description", ""),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _inlined(field: Any, schema: dict[str, Any]) -> Any:
    """A parameter's schema without references: the query models are not among the components."""
    if isinstance(field, dict):
        if "$ref" in field:
            return _inlined(schema["$defs"][field["$ref"].rsplit("/", 1)[1]], schema)
        return {key: _inlined(value, schema) for key, value in field.items()}
    return [_inlined(each, schema) for each in field] if isinstance(field, list) else field


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "in": "header",
            "required": False,
            "description": each.description,
            "schema": {"type": "string", **({} if each.length_max is None else {"maxLength": each.length_max})},
        }
        for each in route.headers
    ]


def _request_body(route: Route) -> dict[str, Any]:
    body = route.body
    if isinstance(body, AnyJson):
        schema: dict[str, Any] = {"description": "Any JSON value."}
    else:
        model = body.model if isinstance(body, Checked) else body
        assert model is not None
        schema = {"$ref": _REFERENCE.format(model=schema_name(model))}
    return {"required": route.body_required, "content": {"application/json": {"schema": schema}}}


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, model in route.answers.items():
        responses[str(status)] = {"description": _sentence(status)}
        if model is not None:
            schema = {"$ref": _REFERENCE.format(model=schema_name(model))}
            responses[str(status)]["content"] = {route.answers_media: {"schema": schema}}
        elif route.answers_media != "application/json" and status != 204:
            responses[str(status)]["content"] = {route.answers_media: {"schema": {"type": "string"}}}
        if route.streams_media is not None:
            responses[str(status)]["content"][route.streams_media] = {"schema": {"type": "string"}}
    for code, refusal in _errors(_refusals(route)).items():
        responses.setdefault(code, refusal)
    return dict(sorted(responses.items()))


_RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}


def _refusals(route: Route) -> list[type[AnabranchError]]:
    kinds = [*_EVERYWHERE, *route.errors]
    if route.needs is not PUBLIC:
        kinds += _WITH_KEY
    if route.body is not None:
        kinds += _WITH_BODY
    return kinds


def _errors(kinds: Iterable[type[AnabranchError]]) -> dict[str, Any]:
    """The responses for these errors, by status."""
    codes: dict[int, list[str]] = {}
    for kind in dict.fromkeys(kinds):
        assert kind in STATUS, f"{kind.__name__} has no status"
        codes.setdefault(status_of(kind("")), []).append(kind.code)
    return {
        str(status): {
            "description": "Refused: " + ", ".join(those),
            "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model="Error")}}},
            **({"headers": _RETRY_AFTER} if status in RETRY_AFTER_S else {}),
        }
        for status, those in codes.items()
    }


def _sentence(status: int) -> str:
    return {200: "Done.", 201: "Made.", 202: "Taken.", 204: "Done; the response has no body."}.get(status, "An answer.")


def _public_paths() -> dict[str, Any]:
    """The public routes: webhooks, which accept the methods that they name, and one-time addresses."""
    asking = {"200": _described("A page that asks to confirm.", "text/html")}
    answered = {"202": _described("Durable.", "application/json"), "200": _described("As a page.", "text/html")}
    started = {
        "202": _described("Started.", "application/json"),
        "200": _described("The run of an earlier request, or the output of the run.", "*/*"),
        "default": _described("The response that a `respond` node configures.", "*/*"),
    }
    return {
        "/hooks/{tenant}/{path}": {
            "post": _public("receive_webhook", "Start the run of a webhook.", started, (*_WITHOUT_KEY, *_OF_WEBHOOKS)),
        },
        "/test-hooks/{token}": {
            "post": _public(
                "receive_test_call", "Feed the test run of a draft.", started, (*_WITHOUT_KEY, *_OF_TEST_ADDRESSES)
            ),
        },
        "/callbacks/{token}": {
            "get": _public("ask_before_callback", "Ask to confirm.", asking, (*_WITHOUT_KEY, *_OF_CALLBACKS)),
            "post": _public("call_back", "Answer a waiting run.", answered, (*_WITHOUT_KEY, *_OF_CALLBACKS)),
        },
    }


_PUBLIC_PATHS = {"receive_webhook": "/hooks/{tenant}/{path}", "receive_test_call": "/test-hooks/{token}"}


def _public(
    name: str, summary: str, answers: Mapping[str, Any], errors: Iterable[type[AnabranchError]]
) -> dict[str, Any]:
    path = _PUBLIC_PATHS.get(name, "/callbacks/{token}")
    operation = {
        "operationId": name,
        "summary": summary,
        "tags": ["webhooks"],
        "parameters": _path_parameters(path),
        "responses": {**answers, **_errors(errors)},
        "security": [],
    }
    return operation if name.startswith("ask") else {**operation, "requestBody": {"content": {"*/*": {}}}}


def _described(text: str, media: str) -> dict[str, Any]:
    return {"description": text, "content": {media: {}}}
