"""Parse JSON from files, command lines and request bodies. Called by the command line and the service with unchecked
text.

The result is plain JSON that can be stored and means what its author wrote: nothing is silently rounded, overwritten or
dropped. `Payload.of` checks the sizes of single values (input, outputs) later.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph import source_texts
from anabranch.engine.rules.graph.problems import pointer_to
from anabranch.engine.rules.values import VALUE_DEPTH_MAX
from anabranch.errors import AnabranchError, BadJson, InvalidRequest, TooLarge, ValueNotStorable

# 16 MB: the largest request body. A graph of 2,000 nodes with long code is a tenth of it.
TEXT_BYTES_MAX = 16 * 1_048_576

# 20 digits hold every 64-bit integer with its sign; longer ones need not be converted to be refused.
INTEGER_DIGITS_MAX = 20

_INTEGER_MIN = -(2**63)
_INTEGER_MAX = 2**64 - 1

# Each is one pass in C that almost always rules the trouble out; only a hit pays for the closer look.
# Brackets, digits and escapes inside strings are hits too, and harmless ones.
_PERHAPS_WIDE_INTEGER = re.compile(r"[0-9]{19}")
_PERHAPS_WIDE_FLOAT = re.compile(r"[0-9]{300}|[eE]\+?[0-9]{3}")
_PERHAPS_BAD_CHARACTER = re.compile("\\\\u(?:0000|[dD][89a-fA-F])|[\ud800-\udfff]")


def read_json_file(path: Path | str) -> Any:
    """The JSON value in a file. Its size is looked at before its content.

    Raises InvalidRequest if it cannot be read, TooLarge, BadJson and ValueNotStorable as `parse_json` does.
    """
    return parse_json(_content(Path(path)), what=str(path))


def read_workflow_file(path: Path | str) -> Any:
    """The same for a workflow document; unknown fields keep their source text."""
    return parse_workflow(_content(Path(path)), what=str(path))


def parse_workflow(text: str | bytes, what: str) -> Any:
    """The document of a workflow in a JSON text, with the source text of unknown fields.

    Raises like `parse_json`.
    """
    document = parse_json(text, what=what)
    return source_texts.keep_source_texts(document, _decode(text, what))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # One byte more than allowed tells too much from just enough, for pipes as well as for files.
            content = file.read(TEXT_BYTES_MAX + 1)
    except OSError as refusal:
        reason = (refusal.strerror or str(refusal)).lower()
        raise InvalidRequest(f"{path} cannot be read: {reason}", hint="Check the path and its permissions.") from None
    return content


def parse_json(text: str | bytes, what: str = "input") -> Any:
    """The value of a JSON text; `what` names it in messages.

    Raises TooLarge beyond `TEXT_BYTES_MAX`, BadJson with line and column for text that is not JSON
    or whose objects repeat a key, and ValueNotStorable with a JSON pointer for values that the
    log could not give back: NaN and Infinity, NUL characters, lone surrogates, integers beyond
    64 bit, numbers beyond a float, more than 64 levels.
    """
    decoded = _decode(text, what)
    marks = _Marks()
    try:
        value = marks.decoder_for(decoded).decode(decoded)
    except json.JSONDecodeError as refusal:
        message = refusal.msg[:1].lower() + refusal.msg[1:]
        raise BadJson(
            f"{what} is not JSON: {message} at line {refusal.lineno}, column {refusal.colno}",
            details={"line": refusal.lineno, "column": refusal.colno},
        ) from None
    except RecursionError:
        # The parser's own limit is far above ours.
        raise _too_deep(what, None) from None
    if marks.any or _PERHAPS_BAD_CHARACTER.search(decoded) or _is_too_deep(value):
        _refuse_first_problem(value, what)
    return value


@dataclass(frozen=True, slots=True)
class _Mark:
    """Marks a place in a parsed value where the text had something that cannot be stored."""

    problem: str
    repeated_key: str | None = None


class _Marks:
    """The parser's hooks for one text. They do not know their position, so they leave marks; a later walk finds the
    pointer."""

    def __init__(self) -> None:
        self.any = False

    def decoder_for(self, text: str) -> json.JSONDecoder:
        return json.JSONDecoder(
            parse_int=self._integer if _PERHAPS_WIDE_INTEGER.search(text) else None,
            parse_float=self._float if _PERHAPS_WIDE_FLOAT.search(text) else None,
            parse_constant=lambda literal: self._mark(f"the number {literal}, which is not JSON"),
            object_pairs_hook=self._object,
        )

    def _mark(self, problem: str, repeated_key: str | None = None) -> _Mark:
        self.any = True
        return _Mark(problem, repeated_key)

    def _integer(self, digits: str) -> int | _Mark:
        if len(digits) <= INTEGER_DIGITS_MAX and _INTEGER_MIN <= (value := int(digits)) <= _INTEGER_MAX:
            return value
        return self._mark("an integer of more than 64 bits")

    def _float(self, digits: str) -> float | _Mark:
        value = float(digits)
        return value if math.isfinite(value) else self._mark("a number beyond what a float can hold")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Mark:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key in counts if counts[key] > 1)
        return self._mark(f"the key {repeated!r} twice", repeated)


def _decode(text: str | bytes, what: str) -> str:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > TEXT_BYTES_MAX:
        raise TooLarge(
            f"{what} is larger than {TEXT_BYTES_MAX // 1_048_576} MB",
            hint="Keep large data outside (a file, an object store) and pass a reference.",
        )
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as refusal:
            line = raw.count(b"\n", 0, refusal.start) + 1
            column = refusal.start - raw.rfind(b"\n", 0, refusal.start)
            raise BadJson(
                f"{what} is not UTF-8 text: the byte 0x{raw[refusal.start]:02x} at line {line}, column {column}",
                hint="Save it as UTF-8.",
                details={"line": line, "column": column},
            ) from None
    # Editors on Windows begin files with a byte order mark; it means nothing, and the text is accepted.
    return text.removeprefix("\ufeff")


def _is_too_deep(root: Any) -> bool:
    level = [root]
    for _ in range(VALUE_DEPTH_MAX):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return any(isinstance(value, (dict, list)) for value in level)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_first_problem(root: Any, what: str) -> None:
    """Raise for the first value in document order that cannot be stored; return if there is none."""
    stack: list[tuple[Any, str, int]] = [(root, "", 1)]
    while stack:
        value, pointer, depth = stack.pop()
        if isinstance(value, _Mark):
            raise _refusal(what, value, pointer)
        if isinstance(value, str) and (problem := _problem_of_text(value)) is not None:
            raise _refusal(what, _Mark(f"text with {problem}"), pointer)
        if not isinstance(value, (dict, list)):
            continue
        if depth > VALUE_DEPTH_MAX:
            raise _too_deep(what, pointer)
        if isinstance(value, list):
            stack.extend((value[index], f"{pointer}/{index}", depth + 1) for index in range(len(value) - 1, -1, -1))
            continue
        for key in value:
            if (problem := _problem_of_text(key)) is not None:
                raise _refusal(what, _Mark(f"a key with {problem}"), pointer)
        stack.extend((child, pointer + pointer_to(key), depth + 1) for key, child in reversed(value.items()))


def _problem_of_text(text: str) -> str | None:
    if "\x00" in text:
        return "a NUL character"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "a lone surrogate"
    return None


def _refusal(what: str, mark: _Mark, pointer: str) -> AnabranchError:
    message = f"{what} has {mark.problem} at {pointer or 'its root'}"
    if mark.repeated_key is not None:
        hint = "Name each key of an object once."
        return BadJson(message, hint=hint, details={"pointer": pointer, "key": mark.repeated_key})
    hint = "Write 64-bit integers, finite numbers and plain text; send larger numbers as text."
    return ValueNotStorable(message, hint=hint, details={"pointer": pointer})


def _too_deep(what: str, pointer: str | None) -> ValueNotStorable:
    shown = "" if pointer is None else f" at {pointer}"
    return ValueNotStorable(
        f"{what} has more than {VALUE_DEPTH_MAX} levels of nesting{shown}",
        hint="Flatten the value; deeper data is refused everywhere.",
        details={"pointer": pointer},
    )
