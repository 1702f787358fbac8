"""`@node_type`: declare a node type of one's own.

Runs when the user's module is imported; `registry` collects what was declared.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel

from anabranch.engine.handler_contract import HandlerReturn, Helpers
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.events import ERROR_HANDLE
from anabranch.engine.rules.graph.node_types import SideEffects
from anabranch.engine.rules.graph.pools import POOL_NAME_PATTERN, is_pool_name
from anabranch.errors import NonRetryable
from anabranch.handlers.builtin import BUILTIN
from anabranch.handlers.spec import DEFAULT_TIMEOUT_MS, HandlerSpec

# A type name is part of every node and of metrics: 64 characters, like the name of a workflow.
_TYPE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

# 64 characters: the heading of a group in a palette.
CATEGORY_CHARACTERS_MAX = 64

_ICON = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")

HandlerClass = TypeVar("HandlerClass", bound=type)

_declared: dict[str, HandlerSpec] = {}
_origins: dict[str, str] = {}

DECLARED: Mapping[str, HandlerSpec] = MappingProxyType(_declared)
"""What has been declared so far, by type; it grows as modules are imported."""


@contextmanager
def redeclaring(modules: Collection[str]) -> Iterator[None]:
    """Within this context the modules are imported again: what they no longer declare is removed.

    If that raises, all types are as before.
    """
    specs, origins = dict(_declared), dict(_origins)
    prefixes = tuple(f"{module}." for module in modules)
    for type_name, origin in origins.items():
        if origin.startswith(prefixes):
            _declared.pop(type_name, None)
            del _origins[type_name]
    try:
        yield
    except BaseException:
        _declared.clear()
        _declared.update(specs)
        _origins.clear()
        _origins.update(origins)
        raise


def node_type(
    type: str,
    *,
    title: str | None = None,
    config: type[BaseModel] | None = None,
    handles: Sequence[str] | Callable[[Mapping[str, Any]], Sequence[str]] = ("default",),
    timeout: int | float | str | None = DEFAULT_TIMEOUT_MS,
    category: str = "custom",
    icon: str | None = None,
    description: str | None = None,
    side_effects: SideEffects = "unknown",
    pool: str | None = None,
) -> Callable[[HandlerClass], HandlerClass]:
    """Declare a class as the handler of a node type.

    The class has `execute(config, context, helpers)` and is made once, without arguments. An `async def` runs on the
    event loop and must not block; a plain `def` runs in a thread.
    `config` is the pydantic model that it gets its resolved config as (None: the object as it
    is); `handles` are the exits of a node, or a function of its config; `timeout` bounds one
    execution (None: nothing does). Editors show `category`, `icon` (the name of one of theirs; without it, initials)
    and `description` (the first line of the class's docstring, if not given); `side_effects` says whether executing
    it changes anything outside: "none", "external" or "unknown". `pool` names the workers that execute its nodes,
    unless a node names others. Raises ValueError for a declaration that makes no sense, or a type that another class
    has already.
    """
    if not _TYPE_NAME.fullmatch(type):
        raise ValueError(
            f"{type!r} cannot be a node type: write up to 64 letters, digits, `_`, `.`, `-`, a letter first"
        )
    if type in BUILTIN:
        raise ValueError(f"{type!r} is built in and cannot be replaced: graphs mean the same everywhere")
    if not callable(handles):
        _check_handles(type, handles)
    _check_description(type, category, icon, side_effects)
    if pool is not None and not is_pool_name(pool):
        raise ValueError(f"node type {type!r}: the pool {pool!r} must match {POOL_NAME_PATTERN}")

    def declare(handler: HandlerClass) -> HandlerClass:
        """Check the class and register its node type."""
        method = getattr(handler, "execute", None)
        if not callable(method) or inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            raise ValueError(
                f"node type {type!r}: {handler.__qualname__} needs `async def execute(self, config, context, helpers)`,"
                " or a plain `def`, which runs in a thread"
            )
        origin = f"{handler.__module__}.{handler.__qualname__}"
        # The same class again is a module that was imported twice, or reloaded.
        if _origins.setdefault(type, origin) != origin:
            raise ValueError(f"node type {type!r} is declared by {_origins[type]} already, and now by {origin}")
        _declared[type] = HandlerSpec(
            type=type,
            title=title or type,
            config=config,
            execute=handler().execute if inspect.iscoroutinefunction(method) else _in_thread(handler().execute),
            handles=handles,
            timeout_ms=None if timeout is None else parse_duration(timeout),
            category=category,
            icon=icon,
            description=_first_line(handler) if description is None else description,
            side_effects=side_effects,
            pool=pool,
        )
        return handler

    return declare


def _in_thread(execute: Callable[..., Any]) -> Callable[[Any, Mapping[str, Any], Helpers], Awaitable[HandlerReturn]]:
    async def execute_in_thread(config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        returned: Any = await helpers.in_thread(execute, config, context, helpers)
        if inspect.iscoroutine(returned):
            returned.close()
            raise NonRetryable("execute returned a coroutine: declare it with `async def`")
        return cast("HandlerReturn", returned)

    return execute_in_thread


def _first_line(handler: type) -> str:
    return (handler.__doc__ or "").strip().partition("\n")[0]


def _check_description(type_name: str, category: str, icon: str | None, side_effects: str) -> None:
    if not 1 <= len(category) <= CATEGORY_CHARACTERS_MAX or not category.isprintable():
        raise ValueError(
            f"node type {type_name!r}: a category is one line of 1 to {CATEGORY_CHARACTERS_MAX} characters"
        )
    if icon is not None and not _ICON.fullmatch(icon):
        raise ValueError(f"node type {type_name!r}: an icon is a name such as `globe` or `file-text`")
    if side_effects not in get_args(SideEffects):
        raise ValueError(f"node type {type_name!r}: side_effects is one of {', '.join(get_args(SideEffects))}")


def _check_handles(type_name: str, handles: Sequence[str]) -> None:
    if isinstance(handles, str) or "" in handles:
        raise ValueError(f"node type {type_name!r}: handles are names in a tuple, such as ('default',)")
    if ERROR_HANDLE in handles:
        raise ValueError(
            f"node type {type_name!r}: every type has the handle `error` by itself, and only the engine takes it"
        )
