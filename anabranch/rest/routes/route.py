"""Route: method and path, required role, request and response models, and the function that serves it.

The `*_routes.py` files declare routes, `application` serves them, `openapi` describes them. So every route is
documented and has a role; a route without one says `PUBLIC`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import partialmethod
from typing import Any, ClassVar, Final, Literal, TypeAlias

from multidict import CIMultiDictProxy, MultiDictProxy
from pydantic import BaseModel

from anabranch.app_services import AppServices
from anabranch.dataclass import dataclass
from anabranch.errors import AnabranchError
from anabranch.keys.access import Principal, Role


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


Serve: TypeAlias = Callable[[RouteCall], Awaitable[Reply]]


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
    serve: Serve
    summary: str
    """One sentence."""
    details: str
    needs: Role | _Public
    answers: Mapping[int, type[BaseModel] | None]
    """The successful answers by status; None: no body."""
    tag: str
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
    aliases: Sequence[str] = ()
    """Further paths of the same route."""
    answers_media: str = "application/json"
    streams_media: str | None = None
    """The media type of the streamed response, if requested."""


_Method: TypeAlias = partialmethod[Callable[[Serve], Serve]]


@dataclass(frozen=True, slots=True)
class RouteTable:
    """The routes of a module, in the order of the functions that serve them."""

    tag: str
    path: str = ""
    """Where all of their paths begin."""
    alias: str | None = None
    """Where the paths begin under which they all exist, too."""
    errors: Sequence[type[AnabranchError]] = ()
    """Errors of all of them."""
    routes: list[Route] = field(default_factory=list)

    def __iter__(self) -> Iterator[Route]:
        return iter(self.routes)

    def below(self, path: str, *, alias: str | None = None, errors: Sequence[type[AnabranchError]] = ()) -> RouteTable:
        """The same table, for routes that have the beginning of their paths and these errors in common."""
        return replace(self, path=path, alias=alias, errors=errors)

    def route(
        self,
        method: Method,
        path: str,
        needs: Role | _Public,
        answers: Mapping[int, type[BaseModel] | None],
        *,
        tag: str | None = None,
        errors: Sequence[type[AnabranchError]] = (),
        **further: Any,
    ) -> Callable[[Serve], Serve]:
        """Declare the route that the decorated function serves; `further` are other fields of `Route`.

        The first line of the function's docstring is the summary, the rest has the details.
        """

        def declared(serve: Serve) -> Serve:
            summary, _, details = inspect.cleandoc(serve.__doc__ or "").partition("\n\n")
            self.routes.append(
                Route(
                    method,
                    f"{self.path}{path}",
                    serve,
                    summary,
                    details,
                    needs,
                    answers,
                    tag or self.tag,
                    aliases=() if self.alias is None else (f"{self.alias}{path}",),
                    errors=(*self.errors, *errors),
                    **further,
                )
            )
            return serve

        return declared

    get: ClassVar[_Method] = partialmethod(route, "GET")
    post: ClassVar[_Method] = partialmethod(route, "POST")
    put: ClassVar[_Method] = partialmethod(route, "PUT")
    delete: ClassVar[_Method] = partialmethod(route, "DELETE")
