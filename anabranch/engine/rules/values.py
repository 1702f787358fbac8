"""JSON values as the log keeps them: checked and encoded once, never copied.

Used where a value enters (task worker, start, signals) and by the stores when they read one back. Everything stored is
a `Payload`: the value and its JSON text. The limits of a value, and so of an input or output, are here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import orjson

from anabranch.engine.rules.value_parts import PART_BYTES_MIN, Division, divide
from anabranch.errors import InvalidInput, InvalidRequest, ValueNotStorable, ValueTooLarge

# 1 MB for the input and for each output: a value passes through memory, one log row and sockets. Keep larger data in a
# file or object store, with a reference in the run.
VALUE_BYTES_MAX = 1_048_576

# 2 MB for the request that begins a run: a body of 1 MB as it was sent, and what it means.
WEBHOOK_INPUT_BYTES_MAX = 2 * VALUE_BYTES_MAX

# 255 characters for idempotency and signal keys and names of events: fits every database's index.
KEY_CHARACTERS_MAX = 255

# 80 characters of a value in a message: enough to recognize it.
EXCERPT_CHARACTERS_MAX = 80

# 64 levels: deeper JSON is an attack or an accident, and parsers recurse.
VALUE_DEPTH_MAX = 64

_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

# Exactly these types: a subclass (a text enum, a named tuple) would be read back as another type.
_SCALARS = frozenset({type(None), bool, int, float, str})
_LISTS = frozenset({list, tuple})
_PLAIN = _SCALARS | _LISTS | {dict}

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


class Payload:
    """A JSON value and its encoded text. Never change the value: it is shared, not copied."""

    __slots__ = ("division", "raw", "size", "value", "weight")
    size: int
    """Bytes of JSON."""
    division: Division | None
    """How it is stored where it has large parts; None: as it is."""
    weight: int
    """What limits count of it: a large part is a reference."""

    def __init__(self, value: Any, raw: bytes) -> None:
        self.value = value
        self.raw = raw
        self.size = size = len(raw)
        if size <= PART_BYTES_MIN:
            self.division = None
            self.weight = size
        else:
            self.__class__ = LargePayload

    def __repr__(self) -> str:
        return f"Payload({self.raw[:80]!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Payload) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]  # values are JSON; they are compared, not hashed

    @property
    def excerpt(self) -> str:
        """The beginning of its JSON, for messages."""
        text = self.raw.decode(errors="replace")
        return text if len(text) <= EXCERPT_CHARACTERS_MAX else text[:EXCERPT_CHARACTERS_MAX] + "…"

    def is_stored_like(self, other: Payload) -> bool:
        """Would the same be stored for both?"""
        ours, theirs = self.division, other.division
        if ours is None or theirs is None:
            return ours is theirs and self.raw == other.raw
        return (ours.shell, ours.references) == (theirs.shell, theirs.references)

    @classmethod
    def of(cls, value: Any, bytes_max: int = VALUE_BYTES_MAX) -> Payload:
        """Check a value that comes from outside and encode it.

        Plain JSON is taken: None, bool, int, float, str, list, tuple, and dict with str keys, none of their subclasses.
        The result has the value as it will be read back (tuples become lists) and shares nothing with the argument.
        Raises ValueNotStorable with the JSON pointer, or ValueTooLarge.
        """
        try:
            raw = orjson.dumps(value, option=_OPTIONS)
        except (TypeError, orjson.JSONEncodeError) as refusal:
            raise ValueNotStorable(_find_problem(value) or str(refusal)) from None
        size = len(raw)
        if size > bytes_max:
            raise ValueTooLarge(f"the value has {size} bytes of JSON, the limit is {bytes_max}")
        # `in` raises and catches an exception for bytes, before 3.14. An escaped NUL and a null both have a "u".
        has_u = raw.count(b"u")
        if (
            (has_u and raw.count(b"\\u0000") and _has_nul(raw))
            or (size > VALUE_DEPTH_MAX and _is_deep(raw))
            or not is_plain(value)
            or (has_u and raw.count(b"null") and _is_not_finite(value))
        ):
            raise ValueNotStorable(_find_problem(value) or "a value that is not plain JSON")
        return cls(orjson.loads(raw), raw)

    @classmethod
    def parse(cls, raw: bytes | str) -> Payload:
        """Read back what was stored; trusted to be JSON."""
        data = raw.encode() if isinstance(raw, str) else raw
        return cls(orjson.loads(data), data)

    @classmethod
    def list_of(cls, items: Sequence[Payload]) -> Payload:
        """A JSON list of payloads, spliced together without encoding them again."""
        return cls([item.value for item in items], b"[" + b",".join([item.raw for item in items]) + b"]")

    @classmethod
    def trusted(cls, value: Any) -> Payload:
        """Encode a value that the engine built from parts that are already checked."""
        return cls(value, orjson.dumps(value))


class LargePayload(Payload):
    """A payload with large parts, divided on first access to its stored form.

    A class of its own, which a large payload takes by itself: `__getattr__` makes every access dearer, and most
    payloads are small.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in ("division", "weight"):
            raise AttributeError(name)
        self.division = divide(self.value, self.raw)
        self.weight = self.division.weight
        return getattr(self, name)


class WholePayload(Payload):
    """A large payload in a row of its own: so they were written before large parts were stored by content."""

    __slots__ = ()

    def __init__(self, value: Any, raw: bytes) -> None:
        self.value, self.raw, self.size, self.division, self.weight = value, raw, len(raw), None, len(raw)


class DividedPayload(Payload):
    """A payload with large parts, as it is stored; the parts may be absent, then only shape and size are known."""

    __slots__ = ("_value",)
    _value: Any
    division: Division

    def __init__(self, division: Division) -> None:
        self.division, self.size, self.weight = division, division.size, division.weight

    def __repr__(self) -> str:
        return f"DividedPayload({self.division.shell[:80]!r})"

    @property
    def raw(self) -> bytes:  # type: ignore[override]  # made when it is asked for: the parts are kept once
        """The JSON text. Raises ValueMissing."""
        return self.division.raw()

    @property
    def value(self) -> Any:
        """The value; parts are shared with all that have the same. Raises ValueMissing."""
        try:
            return self._value
        except AttributeError:
            self._value = self.division.value()
            return self._value


EMPTY = Payload({}, b"{}")
NULL = Payload(None, b"null")


# The checks are a few passes in C over the encoded text, or over one level of the value at a time: a megabyte takes
# milliseconds. A walk from value to value would block the event loop.


def _has_nul(raw: bytes) -> bool:
    return _ESCAPED_NUL.search(raw) is not None


def is_plain(root: Any) -> bool:
    """Whether the value has JSON types only. orjson also encodes enums and UUIDs, which would be read back as text or
    numbers."""
    kind = type(root)
    if kind in _SCALARS or (kind is dict and _SCALARS.issuperset(map(type, root.values()))):
        return True  # as most outputs are
    if kind in _LISTS and _SCALARS.issuperset(map(type, root)):
        return True  # as most arguments of steps are
    level = [root]
    while level:
        types = set(map(type, level))
        if not types <= _PLAIN:
            return False
        if types <= _SCALARS:
            return True
        lists = [value for value in level if type(value) in _LISTS]
        objects = [value for value in level if type(value) is dict]
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, objects))]
    return True


def _is_not_finite(value: Any) -> bool:
    """Whether the value contains NaN or Infinity. orjson writes them as null, so only a text with a null can hide
    one."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return True
    return False


def _is_deep(raw: bytes) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= VALUE_DEPTH_MAX:
        return False
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_texts = b"".join(unescaped.split(b'"')[::2])
    brackets = outside_texts.translate(None, delete=_NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > VALUE_DEPTH_MAX


def _find_problem(root: Any) -> str | None:
    """The first part of a value that cannot be stored, with its JSON pointer; None if there is none."""
    stack: list[tuple[Any, str, int]] = [(root, "", 1)]
    while stack:
        value, pointer, depth = stack.pop()
        location = f"at {pointer or '/'}"
        if type(value) not in _PLAIN:
            return f"a value of type {type(value).__name__} {location}"
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, str):
            if "\x00" in value:
                return f"text with a NUL character {location}"
            if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
                return f"text with a lone surrogate {location}"
        elif isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                return f"an integer of more than 64 bits {location}"
        elif isinstance(value, float):
            if not math.isfinite(value):
                return f"a number that is not finite ({value}) {location}"
        else:
            if depth > VALUE_DEPTH_MAX:
                return f"more than {VALUE_DEPTH_MAX} levels of nesting {location}"
            children = value.items() if isinstance(value, dict) else enumerate(value)
            for key, child in children:
                if isinstance(value, dict):
                    if type(key) is not str:
                        return f"a key that is not text ({key!r}) {location}"
                    stack.append((key, f"{pointer}/{key!r}", depth))
                stack.append((child, f"{pointer}/{key}", depth + 1))
    return None


def checked_payload(value: Any, what: str, *, bytes_max: int = VALUE_BYTES_MAX) -> Payload:
    """A value that the log can keep; `what` names it in the error. Raises InvalidInput."""
    try:
        return Payload.of(value, bytes_max=bytes_max)
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise InvalidInput(
            f"{what}: {refusal.message}", details=[{"code": refusal.code, "message": refusal.message}]
        ) from None


def is_storable(text: str) -> bool:
    """Whether a column can store the text. Bytes from a terminal that are not UTF-8 arrive as lone surrogates."""
    try:
        Payload.of(text)
    except ValueNotStorable:
        return False
    return True


def check_key(text: object, what: str) -> None:
    """Raise InvalidRequest for a key or an event's name that cannot be stored or indexed."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{what} is text, not {text!r:.80}")
    if not 1 <= len(text) <= KEY_CHARACTERS_MAX:
        raise InvalidRequest(f"{what} has 1 to {KEY_CHARACTERS_MAX} characters, not {len(text)}")
    # Bytes from a terminal that are not UTF-8 arrive here as lone surrogates.
    if "\0" in text or (not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)):
        raise InvalidRequest(f"{what} is plain text: no NUL characters, no lone surrogates", hint="Write it as UTF-8.")


def is_key(text: str) -> bool:
    """Could this be a stored key or event name?"""
    try:
        check_key(text, "a key")
    except InvalidRequest:
        return False
    return True


def is_superset(value: Any, wanted: Any) -> bool:
    """Objects: recursively a superset; arrays and scalars: equal."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and is_superset(value[key], part) for key, part in wanted.items()
        )
    return json_equal(value, wanted)


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    return bool(left == right)


def kind_of(value: Any) -> str:
    """The name of a JSON type, for messages that must not show the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, (list, tuple)) else "an object"
