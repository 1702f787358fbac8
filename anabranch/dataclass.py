"""Dataclasses that cost little to define.

Every module takes `dataclass` from here. It does what that of the standard library does, and for type checkers it is
that one. The difference is what an import costs: the standard library writes and compiles the source of up to six
methods for each class, half a millisecond on Python 3.11. For the 250 classes that a short command imports, that was a
sixth of its time. Here only `__init__` is compiled; the other methods are closures over the names of the fields.

It takes the arguments that we use, and fields with a default or a factory, and with `init`, `repr`, `compare` and
`kw_only`; no `InitVar`. A class that inherits from another dataclass is left to the standard library.
"""

from __future__ import annotations

import dataclasses
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
    if any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
        return dataclasses.dataclass(eq=eq, frozen=frozen, kw_only=kw_only, slots=slots)(cls)
    written = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}
    defined: Any = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=slots)(cls)
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
        setattr(defined, name, methods[name])
    return defined  # type: ignore[no-any-return]


class _Factory:
    """The default of a parameter whose field has a factory, as a signature shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init_of(cls: type, fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool) -> Callable[..., None]:
    """`__init__`, from source: nothing else is as fast as the assignments themselves."""
    absent = dataclasses.MISSING
    names: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    positional, keyword, body = ["self"], list[str](), list[str]()
    for field in fields:
        name, value, default = field.name, field.name, ""
        if field.default_factory is not absent:
            names[f"_new_{name}"] = field.default_factory
            value = f"_new_{name}() if {name} is _factory else {name}" if field.init else f"_new_{name}()"
            default = "=_factory"
        elif field.default is not absent:
            names[f"_default_{name}"] = field.default
            value = name if field.init else f"_default_{name}"
            default = f"=_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (keyword if field.kw_only else positional).append(name + default)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, "*", *keyword] if keyword else positional)
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)  # noqa: S102 -- only names of fields
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"  # which errors about its arguments begin with
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
