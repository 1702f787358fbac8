"""Dataclasses that cost little to define.

Every module takes `dataclass` from here. It behaves like `dataclasses.dataclass`, and type checkers see that one. The
difference is what an import costs: the standard library writes and compiles the source of up to six methods for each
class. Here only `__init__` is compiled; the other methods are closures over the names of the fields. What that saves is
among the levers of `benchmarks/README.md`.

It takes the arguments that we use, and fields with a default or a factory, and with `init`, `repr`, `compare` and
`kw_only`. Left to the standard library is a class that inherits from another dataclass, or has an `InitVar` or a field
with `hash`. A class without a docstring gets one without its parameters.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, kw_only=False, slots=False):
        """Make a class a dataclass; a decorator with or without arguments."""

        def define(cls: type) -> type:
            return _define(cls, eq=eq, frozen=frozen, kw_only=kw_only, slots=slots)

        return define if cls is None else define(cls)


def _define(cls: type, *, eq: bool, frozen: bool, kw_only: bool, slots: bool) -> type:
    if _is_for_the_standard_library(cls):
        return dataclasses.dataclass(eq=eq, frozen=frozen, kw_only=kw_only, slots=slots)(cls)
    written = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}
    defined: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)(cls)
    parameters = defined.__dataclass_params__  # which classes that inherit from it are compared with
    parameters.init = parameters.repr = True
    parameters.eq, parameters.frozen = eq, frozen
    fields = dataclasses.fields(defined)
    methods: dict[str, Callable[..., Any]] = {"__repr__": _repr_of([field.name for field in fields if field.repr])}
    if "__init__" not in written:
        methods["__init__"] = _init_of(defined, fields, frozen=frozen)
    if eq:
        values = _values_of([field.name for field in fields if field.compare])
        methods["__eq__"] = _equality_of(values)
        if frozen:
            methods["__hash__"] = lambda self: hash(values(self))
        elif "__hash__" not in written:
            defined.__hash__ = None
    if frozen:
        methods |= _protection_of(defined, frozenset(field.name for field in fields))
    if frozen and slots:
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name in methods.keys() - written:
        methods[name].__qualname__ = f"{cls.__qualname__}.{name}"  # which errors about arguments begin with
        setattr(defined, name, methods[name])
    return defined  # type: ignore[no-any-return]


def _is_for_the_standard_library(cls: type) -> bool:
    """Whether the class has what is not made here."""
    return (
        any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
        or any(isinstance(each, dataclasses.Field) and each.hash is not None for each in vars(cls).values())
        or any("InitVar" in str(annotation) for annotation in vars(cls).get("__annotations__", {}).values())
    )


class _Factory:
    """The default of a parameter whose field has a factory, as a signature shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init_of(cls: type, fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool) -> Callable[..., None]:
    """`__init__`, from source: nothing else is as fast as the assignments themselves."""
    absent = dataclasses.MISSING
    given: dict[str, Any] = {"__set": object.__setattr__, "__factory": _FACTORY}
    positional, keyword, body = ["self"], list[str](), list[str]()
    has_default = False
    for field in fields:
        name, value, default = field.name, field.name, ""
        if field.default_factory is not absent:
            given[f"__new_{name}"] = field.default_factory
            value = f"__new_{name}() if {name} is __factory else {name}" if field.init else f"__new_{name}()"
            default = "=__factory"
        elif field.default is not absent:
            given[f"__default_{name}"] = field.default
            value = name if field.init else f"__default_{name}"
            default = f"=__default_{name}"
        elif not field.init:
            continue
        if field.init:
            if has_default and not default and not field.kw_only:
                raise TypeError(f"non-default argument {name!r} follows default argument")
            has_default = has_default or (bool(default) and not field.kw_only)
            (keyword if field.kw_only else positional).append(name + default)
        body.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, "*", *keyword] if keyword else positional)
    # Within a function of what is given, so that its globals are those of the class, where its annotations are read.
    source = f"def make({', '.join(given)}):\n def __init__({parameters}):\n  "
    source += "\n  ".join(body or ["pass"]) + "\n return __init__"
    made: dict[str, Any] = {}
    exec(source, vars(sys.modules[cls.__module__]), made)  # noqa: S102 -- only names of fields
    init: Callable[..., None] = made["make"](**given)
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns these attributes of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _equality_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], Any]:
    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    # The name that generated code has: pytest then shows which fields differ.
    equals.__code__ = equals.__code__.replace(co_filename="<string>")
    return equals


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def show(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return show


def _protection_of(cls: Any, names: frozenset[str]) -> dict[str, Callable[..., Any]]:
    """What makes a record frozen; a subclass may have further attributes, which are not."""

    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}


def _get_state(self: Any) -> list[Any]:
    """For copies and pickles, which cannot set the attributes of a frozen record one by one."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
