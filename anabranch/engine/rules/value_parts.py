"""Large parts of values: stored once by their content, and only referred to in logs.

Pure. `Payload` divides what is written, stores read it back. What is divided off depends on the part alone, not on what
it stands in: an input, the output that passes it on and the result of the run share one stored value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from anabranch.errors import ValueMissing

# 64 kB: below it a second table costs more than the bytes that it saves; above, lists and logs cut values off.
PART_BYTES_MIN = 65_536

# What a reference takes in a row, about: the hash in hex, the number of bytes, the path.
REFERENCE_BYTES = 128

# A text of so few characters has not more than 64 kB of JSON: an escaped character takes six bytes.
_SURELY_SMALL = (PART_BYTES_MIN - 2) // 6

Path = tuple[str | int, ...]


class StoredValue:
    """The content of a part: its JSON, and, once read, its value, which is shared and must not be changed."""

    __slots__ = ("_sha256", "_value", "raw")
    _value: Any

    def __init__(self, raw: bytes, sha256: str | None = None) -> None:
        self.raw = raw
        self._sha256 = sha256

    @property
    def sha256(self) -> str:
        """Its name: the hash of its JSON in hex. Computed once, on first use, in any thread."""
        if self._sha256 is None:
            self._sha256 = hashlib.sha256(self.raw).hexdigest()
        return self._sha256

    @property
    def value(self) -> Any:
        """Decoded once."""
        try:
            return self._value
        except AttributeError:
            self._value = orjson.loads(self.raw)
            return self._value


class Part:
    """A place in a value, and what is stored for it."""

    __slots__ = ("_sha256", "content", "path", "size")

    def __init__(self, path: Path, size: int, content: StoredValue | None, sha256: str | None = None) -> None:
        self.path = path
        self.size = size
        self.content = content
        """None: it was not fetched."""
        self._sha256 = sha256

    @property
    def sha256(self) -> str:
        """The name of what is stored for it."""
        if self._sha256 is not None:
            return self._sha256
        assert self.content is not None, "a part without a name has its content"
        return self.content.sha256


class Division:
    """A value as it is stored: its JSON with null in the places of its large parts, and these."""

    __slots__ = ("parts", "shell")

    def __init__(self, shell: bytes, parts: Sequence[Part]) -> None:
        self.shell = shell
        self.parts = parts

    @property
    def size(self) -> int:
        """Bytes of the whole value in JSON."""
        return len(self.shell) + sum(part.size - 4 for part in self.parts)

    @property
    def weight(self) -> int:
        """Bytes of what the log has of it."""
        return len(self.shell) + REFERENCE_BYTES * len(self.parts)

    @property
    def missing(self) -> Iterator[Part]:
        """The parts that were not fetched."""
        return (part for part in self.parts if part.content is None)

    @property
    def references(self) -> str:
        """The parts as a column of the log has them."""
        return orjson.dumps([[part.path, part.sha256, part.size] for part in self.parts]).decode()

    def raw(self) -> bytes:
        """The whole JSON. Raises ValueMissing."""
        return orjson.dumps(self._with([orjson.Fragment(content.raw) for content in self._contents()]))

    def value(self) -> Any:
        """The whole value; its parts are shared. Raises ValueMissing."""
        return self._with([content.value for content in self._contents()])

    def _contents(self) -> list[StoredValue]:
        contents = [part.content for part in self.parts if part.content is not None]
        if len(contents) < len(self.parts):
            raise ValueMissing(f"the stored value {next(self.missing).sha256} was not found")
        return contents

    def _with(self, contents: Sequence[Any]) -> Any:
        root = orjson.loads(self.shell)
        for part, content in zip(self.parts, contents, strict=True):
            if not part.path:
                return content
            holder = root
            for step in part.path[:-1]:
                holder = holder[step]
            holder[part.path[-1]] = content
        return root


def divide(value: Any, raw: bytes) -> Division:
    """Divide the large parts off a value of more than PART_BYTES_MIN bytes."""
    parts: list[Part] = []
    division = Division(orjson.dumps(_shell(value, raw, (), parts)), parts)
    if division.parts[0].path and division.raw() != raw:
        # JSON that is written in another way than we write it is kept to the letter.
        return Division(b"null", [Part((), len(raw), StoredValue(raw))])
    return division


def read_division(shell: bytes, references: str) -> Division:
    """A value as a row of a log has it; its parts are not fetched."""
    return Division(shell, [Part(tuple(path), size, None, sha256) for path, sha256, size in orjson.loads(references)])


def _shell(value: Any, raw: bytes, path: Path, parts: list[Part]) -> Any:
    """The part of a large value that is stored inline: all but its large parts if little stays then, else nothing."""
    children = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    large = [(step, child, text) for step, child in children if (text := _large(child)) is not None]
    rest = len(raw) - sum(len(text) for _, _, text in large) + REFERENCE_BYTES * len(large)
    if not large or rest > PART_BYTES_MIN:
        parts.append(Part(path, len(raw), StoredValue(raw)))
        return None
    shell = value.copy()
    for step, child, text in large:
        shell[step] = _shell(child, text, (*path, step), parts)
    return shell


def _large(value: Any) -> bytes | None:
    """The JSON of a value that has more than PART_BYTES_MIN bytes of it."""
    kind = type(value)
    if (kind is not str or len(value) <= _SURELY_SMALL) and (kind not in (dict, list) or not value):
        return None
    raw = orjson.dumps(value)
    return raw if len(raw) > PART_BYTES_MIN else None
