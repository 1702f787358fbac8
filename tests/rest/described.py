"""Are answers what the OpenAPI document says? Every field of theirs is in the model of its route."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, RootModel

from anabranch.rest.models.base import OpenResponseModel
from anabranch.rest.routes.all_routes import ROUTES

_PATHS = [
    (route.method, re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), route)
    for route in ROUTES
    for path in (route.path, *route.aliases)
]


def undescribed(method: str, path: str, status: int, answer: Any) -> list[str]:
    """The places in an answer that the model of its route does not have, or that it lacks."""
    plain = path.partition("?")[0]
    found = [route for verb, form, route in _PATHS if verb == method and form.fullmatch(plain)]
    model = found[0].answers.get(status) if found else None
    return [] if model is None else list(_misfits(model, answer, ""))


def _misfits(kind: Any, value: Any, pointer: str) -> Iterator[str]:
    if value is None or kind is Any:
        return
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        several = [list(_misfits(part, value, pointer)) for part in parts if part is not type(None)]
        if several and all(several):
            yield from min(several, key=len)
    elif origin is typing.Annotated:
        yield from _misfits(parts[0], value, pointer)
    elif origin is list and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _misfits(parts[0], item, f"{pointer}/{number}")
    elif origin is dict and isinstance(value, dict):
        for name, item in value.items():
            yield from _misfits(parts[1], item, f"{pointer}/{name}")
    elif isinstance(kind, type) and issubclass(kind, RootModel):
        yield from _misfits(kind.model_fields["root"].annotation, value, pointer)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _misfits_of_model(kind, value, pointer)


def _misfits_of_model(model: type[BaseModel], value: Any, pointer: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{pointer} is no {model.__name__}"
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not issubclass(model, OpenResponseModel):
        yield from (f"{pointer}/{name} is not in {model.__name__}" for name in value if name not in fields)
    for name, field in fields.items():
        if name in value:
            yield from _misfits(field.annotation, value[name], f"{pointer}/{name}")
        elif field.is_required():
            yield f"{pointer}/{name} of {model.__name__} is missing"
