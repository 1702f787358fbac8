"""Arguments of steps: noted with the first row of a step, so that a replay with other arguments is detected.

Pure. `durable.steps` notes the arguments of each call, `durable.function_run` compares them with the log. A note is a
hash of the arguments' JSON and the beginning of that JSON for people: `9f86d081884c7d65 ["salt"]`. Values that are not
JSON count by their type. What looks like a secret is masked first: it is not in the log, and a changed password is not
another argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from types import CodeType
from typing import Any

import orjson

from anabranch.engine.rules.values import is_plain

# 200 characters tell two calls apart; every first row of a step has them.
SHOWN_CHARACTERS_MAX = 200

# 64 bits: two of 10,000 steps do not collide by chance. No protection against deliberate collisions is needed.
_HASH_BYTES = 8

# 64 levels, as for every JSON value: what is nested deeper counts by its type.
_DEPTH_MAX = 64

_MASK = "***"
_OF_SECRETS = re.compile(
    r"passw|passphrase|(?<![a-z])pwd|secret|token|api[-_]?key|private[-_]?key|access[-_]?key|authorization"
    r"|credential|cookie",
    re.IGNORECASE,
)
_OF_SECRETS_IN_JSON = re.compile(_OF_SECRETS.pattern.encode(), re.IGNORECASE)
# Each of these names has one of these parts. In lower case they are looked for first: a pattern that ignores case takes
# ten times as long.
_PART_OF_SECRETS = re.compile(rb"pass|pwd|secret|token|key|authorization|credential|cookie")
_IN_URL = re.compile(r"(?<=://)[^/@\s\"]*:[^/@\s\"]*(?=@)")

_SCALARS = frozenset({type(None), bool, int, float, str})
_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def note_of(arguments: Any, *, renamed: tuple[str, str] | None = None) -> str:
    """The note of these arguments. Values that are not JSON are represented by the names of their types.

    `renamed` is the id of this run and that of the run that it was forked from, which the log has in its place.
    """
    raw = _json(arguments)
    if renamed is not None:
        raw = raw.replace(renamed[0].encode(), renamed[1].encode())
    hashed = blake2b(raw, digest_size=_HASH_BYTES).hexdigest()
    if len(raw) <= SHOWN_CHARACTERS_MAX:
        return f"{hashed} {raw.decode()}"
    # A character has at most four bytes; the last one may be cut.
    return f"{hashed} {raw[: 4 * SHOWN_CHARACTERS_MAX].decode(errors='ignore')[:SHOWN_CHARACTERS_MAX]}"


def note_of_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    renamed: tuple[str, str] | None = None,
) -> str:
    """The note of `function(*args, **kwargs)`: a list, or an object with `args` and `kwargs`.

    An argument counts as a secret if its parameter is named like one, even when it is passed by position.
    """
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType) and (hidden := _secret_parameters(code)):
        first = 1 if hasattr(function, "__self__") else 0
        args = [_MASK if index + first in hidden else arg for index, arg in enumerate(args)]
    return note_of({"args": args, "kwargs": kwargs} if kwargs else args, renamed=renamed)


def differ(recorded: str | None, asked: str | None) -> bool:
    """Whether the notes are of different arguments. Rows of older versions, and steps without arguments, have no
    note."""
    if recorded is None or asked is None or recorded == asked:
        return False
    return recorded.partition(" ")[0] != asked.partition(" ")[0]


def shown(note: str) -> str:
    """The beginning of the JSON, for people."""
    return note.partition(" ")[2]


@lru_cache(maxsize=1_024)
def _secret_parameters(code: CodeType) -> frozenset[int]:
    names = code.co_varnames[: code.co_argcount]
    return frozenset(index for index, name in enumerate(names) if _OF_SECRETS.search(name))


def _json(arguments: Any) -> bytes:
    """The JSON that is hashed. Fast path: the value is JSON already and cannot contain a secret."""
    try:
        raw = orjson.dumps(arguments, option=_OPTIONS)
    except (TypeError, orjson.JSONEncodeError):
        pass
    else:
        if is_plain(arguments) and not _has_secrets(raw) and not raw.count(b"://"):
            return raw
    return orjson.dumps(_plain(arguments, _DEPTH_MAX), option=_OPTIONS)


def _has_secrets(raw: bytes) -> bool:
    """Whether something in this JSON is named like a secret."""
    return _PART_OF_SECRETS.search(raw.lower()) is not None and _OF_SECRETS_IN_JSON.search(raw) is not None


def _plain(value: Any, depth: int) -> Any:
    """The value as JSON, with type names for values that are not JSON and a mask for secrets."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind in _SCALARS:
        return value if kind is not int or -(2**63) <= value < 2**64 else str(value)
    if depth > 0:
        if kind is list or kind is tuple:
            return [_plain(each, depth - 1) for each in value]
        if kind is dict and all(type(key) is str for key in value):
            return {
                _text(key): _MASK if _OF_SECRETS.search(key) else _plain(child, depth - 1)
                for key, child in value.items()
            }
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"<{name}>"


def _text(text: str) -> str:
    if "://" in text:
        text = _IN_URL.sub(_MASK, text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
