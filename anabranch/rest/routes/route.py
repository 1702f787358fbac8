"""Route: method and path, required role, request and response models, and the function that serves it.

The `*_routes.py` files declare routes, `application` serves them, `openapi` describes them. So every route is
documented and has a role; a route without one says `PUBLIC`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from multidict import CIMultiDictProxy, MultiDictProxy
from pydantic import BaseModel

from anabranch.app_services import AppServices
from anabranch.errors import AnabranchError
from anabranch.keys.access import Principal, Role
from anabranch.rest.models.base import Page


class _Public(Enum):
    PUBLIC = "public"


PUBLIC: Final = _Public.PUBLIC
"""No key needed."""

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: a JSON value, or bytes of another type."""

    body: Any = None
    """A JSON value; bytes are sent as they are, with `content_type`."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    """Sent piece by piece, in place of `body`."""


@dataclass(slots=True)
class RouteCall:
    """One request to a route, authenticated, authorised and parsed."""

    services: AppServices
    principal: Principal
    tenant_id: str
    actor: str
    """The id of the caller's key, for the audit trail."""
    path: Mapping[str, str]
    """The parameters of the path, decoded."""
    query: Any
    """An instance of the route's `query` model."""
    body: Any
    """An instance of the route's `body` model, or the JSON value itself for `AnyJson` and `Checked`; None without."""
    raw_body: bytes
    """Its text, as it was sent."""
    headers: CIMultiDictProxy[str]
    raw_query: MultiDictProxy[str]
    is_gone: Callable[[], bool]
    """Whether the client has disconnected."""


@dataclass(frozen=True, slots=True)
class AnyJson:
    """A body that may be any JSON value."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A body that the service checks; `model` only describes it."""

    model: type[BaseModel]
    is_workflow: bool = False
    """A document of a workflow; unknown fields are kept."""


Body: TypeAlias = type[BaseModel] | AnyJson | Checked | None


class EmptyQuery(BaseModel, extra="forbid"):
    """A route without query parameters."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header that a route reads."""

    name: str
    description: str
    length_max: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: Method
    path: str
    """With parameters in braces, as OpenAPI and aiohttp write them."""
    serve: Callable[[RouteCall], Awaitable[Reply]]
    summary: str
    """One sentence; the docstring of `serve` has the details."""
    needs: Role | _Public
    answers: Mapping[int, type[BaseModel] | None]
    """The successful answers by status; None: no body."""
    body: Body = None
    body_required: bool = True
    """False: without a body, `Call.body` is None."""
    query: type[BaseModel] = EmptyQuery
    open_query: str | None = None
    """The route itself reads query parameters with this prefix."""
    headers: Sequence[Header] = ()
    errors: Sequence[type[AnabranchError]] = ()
    """Its errors, beside those of every route. A route with ShuttingDown is refused while the process stops."""
    for_executors: bool = False
    """Keys of executors may use it, too."""
    tag: str = "runs"
    aliases: Sequence[str] = ()
    """Further paths of the same route."""
    answers_media: str = "application/json"
    streams_media: str | None = None
    """The media type of the streamed response, if requested."""


def data_route(
    method: Method,
    path: str,
    serve: Any,
    summary: str,
    needs: Role,
    answers: dict[int, type[BaseModel] | None],
    *errors: type[AnabranchError],
    body: Body = None,
    has_pages: bool = False,
    headers: Sequence[Header] = (),
) -> Route:
    """A route of queries, secrets or keys. Their lists have pages."""
    further: dict[str, Any] = {"query": Page} if has_pages or (method == "GET" and "{" not in path) else {}
    return Route(
        method, path, serve, summary, needs, answers, body=body, headers=headers, errors=errors, tag="data", **further
    )
