"""Parameters of a saved query: their declarations, and the checks of given values.

Pure. `read_parameters` runs when a query is saved, `bind` before it is executed; a driver then converts the bound
values. Nothing is converted silently: text is not a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import orjson

from anabranch.dataclass import dataclass
from anabranch.queries.query_faults import args_invalid

_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1


class ParameterType(StrEnum):
    """The type of a parameter; `any` takes any JSON as it comes. Every type takes null."""

    ANY = "any"
    INT = "int"
    FLOAT = "float"
    STRING = "string"
    BOOL = "bool"
    JSON = "json"
    DATETIME = "datetime"


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value that the database gets as JSON."""

    value: Any


Bound: TypeAlias = bool | int | float | str | datetime | Document | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter; `default` is used where no argument is given, if there `has_default`."""

    type: ParameterType
    has_default: bool = False
    default: Any = None


class ParametersRefused(Exception):
    """The declaration of a query's parameters makes no sense; `problems` are (pointer, sentence)."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(message for _, message in problems))
        self.problems = problems


def read_parameters(declared: Any, names: Sequence[str]) -> dict[str, Parameter]:
    """The parameters of a query whose SQL names these; undeclared at all (None): each takes anything.

    `declared` is `{"id": "int", "limit": {"type": "int", "default": 10}}`, or a list of
    `{"name", "type", "default"}`. Raises ParametersRefused.
    """
    if declared is None:
        return {name: Parameter(ParameterType.ANY) for name in names}
    problems: list[tuple[str, str]] = []
    found: dict[str, Parameter] = {}
    for pointer, name, form in _entries(declared, problems):
        parameter = _parameter(pointer, name, form, problems)
        if name in found:
            problems.append((pointer, f"the parameter {name} is declared twice"))
        elif name not in names:
            problems.append((pointer, f"the SQL has no parameter `:{name}`"))
        elif parameter is not None:
            found[name] = parameter
    mentioned = {name for _, name, _ in _entries(declared, [])}
    problems += [("", f"`:{name}` stands in the SQL and is not declared") for name in names if name not in mentioned]
    if problems:
        raise ParametersRefused(problems)
    return {name: found[name] for name in names}


def declaration_of(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The form in which parameters are stored and shown: by name, `{"type", "default"?}`."""
    return {
        name: {"type": str(each.type), **({"default": each.default} if each.has_default else {})}
        for name, each in parameters.items()
    }


def bind(parameters: Mapping[str, Parameter], args: Mapping[str, Any]) -> dict[str, Bound]:
    """A value for each parameter. Raises NodeFailure QUERY_ARGS_INVALID, naming every misfit."""
    problems = []
    extra = sorted(set(args) - set(parameters))
    if extra:
        known = ", ".join(parameters) or "none"
        problems.append(f"the query has no parameter {', '.join(extra)} (it has: {known})")
    bound: dict[str, Bound] = {}
    for name, parameter in parameters.items():
        if name not in args and not parameter.has_default:
            problems.append(f"the argument {name} is missing ({parameter.type})")
            continue
        value = args.get(name, parameter.default)
        try:
            bound[name] = _converted(parameter.type, value)
        except ValueError as misfit:
            problems.append(f"the argument {name} {misfit}")
    if problems:
        raise args_invalid("; ".join(problems))
    return bound


def _entries(declared: Any, problems: list[tuple[str, str]]) -> list[tuple[str, str, Any]]:
    """(pointer, name, form) of each declaration, in either notation."""
    if isinstance(declared, Mapping):
        return [(f"/{name}", str(name), form) for name, form in declared.items()]
    if not isinstance(declared, list):
        problems.append(("", 'params is an object such as {"id": "int"}'))
        return []
    entries = []
    for index, form in enumerate(declared):
        if isinstance(form, Mapping) and isinstance(form.get("name"), str):
            rest = {key: value for key, value in form.items() if key != "name"}
            entries.append((f"/{index}", form["name"], rest))
        else:
            problems.append((f"/{index}", 'a parameter in a list is an object such as {"name": "id", "type": "int"}'))
    return entries


def _parameter(pointer: str, name: str, form: Any, problems: list[tuple[str, str]]) -> Parameter | None:
    form = {"type": form} if isinstance(form, str) else form
    if not isinstance(form, Mapping) or not set(form) <= {"type", "default"}:
        problems.append((pointer, f'the parameter {name} is a type, or an object of "type" and "default"'))
        return None
    try:
        kind = ParameterType(form.get("type", ParameterType.ANY))
    except ValueError:
        known = ", ".join(ParameterType)
        problems.append((pointer, f"the parameter {name} has the type {form.get('type')!r}; types are {known}"))
        return None
    try:
        _converted(kind, form.get("default"))
    except ValueError as misfit:
        problems.append((f"{pointer}/default", f"the default of {name} {misfit}"))
        return None
    return Parameter(kind, "default" in form, form.get("default"))


def _converted(kind: ParameterType, value: Any) -> Bound:
    """The value to bind. Raises ValueError with the end of a sentence about the argument."""
    if value is None:
        return None
    match kind:
        case ParameterType.JSON:
            return _document(value)
        case ParameterType.BOOL if isinstance(value, bool):
            return value
        case ParameterType.INT if isinstance(value, int) and not isinstance(value, bool):
            return _integer(value)
        case ParameterType.FLOAT if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case ParameterType.STRING if isinstance(value, str):
            return _text(value)
        case ParameterType.DATETIME if isinstance(value, str):
            return _instant(value)
        case ParameterType.ANY:
            return _anything(value)
    raise ValueError(f"is {_name(value)}, not {_WANTED[kind]}")


_WANTED = {
    ParameterType.INT: "an integer; in a template write `| int`",
    ParameterType.FLOAT: "a number; in a template write `| float`",
    ParameterType.STRING: "text; in a template write `| string`",
    ParameterType.BOOL: "true or false",
    ParameterType.DATETIME: "a time in ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00",
}


def _anything(value: Any) -> Bound:
    if isinstance(value, dict | list):
        return _document(value)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return _integer(value)
    return _text(str(value))


def _integer(value: int) -> int:
    if not _INTEGER_MIN <= value <= _INTEGER_MAX:
        raise ValueError("is an integer of more than 64 bits")
    return value


def _text(value: str) -> str:
    if "\x00" in value:
        raise ValueError("holds a NUL character")
    if not value.isprintable() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("holds half of a character (a lone surrogate)")
    return value


def _document(value: Any) -> Document:
    try:
        orjson.dumps(value)
    except TypeError as unsuitable:
        raise ValueError(f"cannot be written as JSON: {unsuitable}") from None
    return Document(value)


def _instant(value: str) -> datetime:
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError(f"is not {_WANTED[ParameterType.DATETIME]}")
    return instant


def _name(value: Any) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
