"""Parse and validate the query and the body of a request, with limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from aiohttp import ContentTypeError, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge
from multidict import MultiDictProxy
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from anabranch.engine.rules.graph.known_fields import did_you_mean
from anabranch.engine.rules.graph.problems import pointer_to
from anabranch.engine.rules.graph.validate import is_n8n_export
from anabranch.errors import BadJson, EncodingRefused, InvalidRequest, MediaTypeRefused, RequestTimeout, TooLarge
from anabranch.json_input import TEXT_BYTES_MAX, parse_json, parse_workflow
from anabranch.rest.routes.route import AnyJson, Body, Checked

# 30 s for a whole body: 16 MB take that long at 4.5 Mbit/s.
BODY_PATIENCE_S = 30.0

# 100 problems of one request are listed; others appear once these are fixed.
PROBLEMS_MAX = 100

Form = TypeVar("Form", bound=BaseModel)


async def read_body(
    request: web.Request, body: Body, *, required: bool = True, patience_s: float = BODY_PATIENCE_S
) -> tuple[Any, bytes]:
    """Read and validate the body of a route; returns the model and the text. It must arrive within `patience_s`.

    Raises TooLarge, RequestTimeout, EncodingRefused, MediaTypeRefused, BadJson, ValueNotStorable, InvalidRequest.
    """
    if body is None:
        return None, b""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise EncodingRefused(f"the body has the content encoding {encoding[:40]!r}; send it without one")
    raw = await _read_bytes(request, patience_s)
    if not raw.strip():
        if not required:
            return None, raw
        raise BadJson("the body is empty, and should be JSON")
    if request.content_type != "application/json" and not request.content_type.endswith("+json"):
        raise MediaTypeRefused(f"the content type is {request.content_type}; it must be JSON")
    is_workflow = isinstance(body, Checked) and body.is_workflow
    value = parse_workflow(raw, what="the body") if is_workflow else parse_json(raw, what="the body")
    if isinstance(body, AnyJson):
        return value, raw
    if is_workflow and is_n8n_export(value):
        return value, raw  # n8n exports lists, too: the service reports what it is
    if not isinstance(value, dict):
        raise one_problem("the body must be a JSON object", "")
    return (value if isinstance(body, Checked) else checked(value, body)), raw


def checked(document: Mapping[str, Any], model: type[Form]) -> Form:
    """Validate a document against a model. Raises InvalidRequest, which lists all problems."""
    try:
        return model.model_validate(document)
    except ValidationError as refusal:
        raise _refusal(refusal, model) from None


def read_query(query: MultiDictProxy[str], model: type[BaseModel], *, open_prefix: str | None = None) -> BaseModel:
    """The query parameters as the route's model; those that start with `open_prefix` are left to the route. Raises
    InvalidRequest, which lists all invalid, unknown and repeated parameters.
    """
    values: dict[str, Any] = {}
    for name in query:
        if open_prefix is not None and name.startswith(open_prefix):
            continue
        given = query.getall(name)
        several = name in model.model_fields and _takes_several(model, name)
        if len(given) > 1 and not several:
            raise one_problem(f"{name} is given {len(given)} times", f"/{name}")
        values[name] = given if several else given[0]
    return checked(values, model)


def one_problem(message: str, pointer: str, *, hint: str = "") -> InvalidRequest:
    """An InvalidRequest with one problem."""
    return InvalidRequest(
        message, hint=hint, details=[{"code": "INVALID_VALUE", "pointer": pointer, "message": message}]
    )


async def _read_bytes(request: web.Request, patience_s: float) -> bytes:
    if (request.content_length or 0) > TEXT_BYTES_MAX:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(patience_s):
            async for part in request.content.iter_any():
                size += len(part)
                if size > TEXT_BYTES_MAX:
                    raise _too_large()
                parts.append(part)
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {patience_s:g} s") from None
    except HTTPRequestEntityTooLarge:
        raise _too_large() from None
    except (HttpProcessingError, ContentTypeError, web.RequestPayloadError) as broken:
        raise BadJson(f"the body cannot be read: {type(broken).__name__}") from None
    return b"".join(parts)


def _too_large() -> TooLarge:
    return TooLarge(
        f"the body is larger than {TEXT_BYTES_MAX // 1_048_576} MB",
        hint="Keep large data outside (a file, an object store) and pass a reference.",
    )


def _takes_several(model: type[BaseModel], name: str) -> bool:
    return getattr(model.model_fields[name].annotation, "__origin__", None) is list


def _refusal(refusal: ValidationError, model: type[BaseModel]) -> InvalidRequest:
    problems = [
        {
            "code": problem["type"].upper(),
            "pointer": pointer_to(*problem["loc"]),
            "message": _message(problem, model),
        }
        for problem in refusal.errors(include_url=False, include_input=False)[:PROBLEMS_MAX]
    ]
    sentences = [f"{problem['pointer'] or 'the body'}: {problem['message']}" for problem in problems]
    return InvalidRequest(
        "; ".join(sentences[:3]), hint="Correct these fields; /docs describes the request.", details=problems
    )


def _message(problem: ErrorDetails, model: type[BaseModel]) -> str:
    if problem["type"] in ("dict_type", "model_type"):
        return "Input should be an object"
    if problem["type"] != "extra_forbidden":
        return problem["msg"].removeprefix("Value error, ")
    if len(problem["loc"]) != 1:
        return "Unknown field."
    known = [field.alias or name for name, field in model.model_fields.items()]
    meant = did_you_mean(str(problem["loc"][0]), known)
    return " ".join(("Unknown field.", *([] if meant is None else [meant])))
