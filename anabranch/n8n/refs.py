"""References to values of other nodes, written for templates and for JavaScript at once.

Pure. What a node gets and what it gives are described by these (`ItemFeed`), so that a template and a code node read
the same value.
"""

from __future__ import annotations

import json
import re
from typing import Any

from anabranch.dataclass import dataclass

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

# Words that mean something to templates: after a dot they are not names of fields.
WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"})


@dataclass(frozen=True, slots=True)
class Ref:
    """A value: an expression of templates, and one of JavaScript with the same value."""

    template: str
    js: str
    python: str | None = None
    """In Python, where that is a plain path."""

    def at(self, index: Ref) -> Ref:
        """The item with this number."""
        python = None if self.python is None or index.python is None else f"{self.python}[{index.python}]"
        return Ref(f"{self.template}[{index.template}]", f"{self.js}?.[{index.js}]", python)

    def field(self, name: str) -> Ref:
        """The field with this name."""
        python = None if self.python is None else f"{self.python}[{json.dumps(name)}]"
        return Ref(self.template + step(name), f"{self.js}?.[{json.dumps(name)}]", python)

    def listed(self) -> Ref:
        """A list of this one item."""
        return Ref(f"[{self.template}]", f"[{self.js}]", None if self.python is None else f"[{self.python}]")


def variable(name: str) -> Ref:
    """The variable of a node."""
    return Ref(f"ctx.{name}", f"ctx[{json.dumps(name)}]", f"ctx[{json.dumps(name)}]")


def number(value: int) -> Ref:
    """A number as it is."""
    return Ref(str(value), str(value), str(value))


@dataclass(frozen=True, slots=True)
class Moved:
    """Which item of the input an item belongs to: the one so many places behind its own."""

    by: Ref
    loop: str | None = None
    """The loop in which the number of places is known."""

    def at(self, index: Ref) -> Ref:
        """The number of the item that the one with this number belongs to."""
        if index == number(0):
            return self.by
        python = None
        if self.by.python is not None and index.python is not None:
            python = f"({self.by.python} + {index.python})"
        return Ref(f"({self.by.template} + {index.template})", f"({self.by.js} + {index.js})", python)


@dataclass(frozen=True, slots=True)
class PairedByCode:
    """Which item of the input an item belongs to: what code says of each item, which may be nothing."""

    of: Ref | None
    """A list of numbers and of nulls; None: nobody needed it so far."""

    def at(self, index: Ref) -> Ref:
        """The number of the item that the one with this number belongs to: for code, which fails for none."""
        of = self.of or Ref("none", "null")
        return Ref(of.at(index).template, f"$pairs({of.js}, {index.js})")


@dataclass(frozen=True, slots=True)
class Traced:
    """Which items of the inputs an item belongs to, where only code can say it."""

    js: str
    """A function of JavaScript that makes of the item's number the number of an item of the first input,
    `{item, input}`, a list of these, or null."""


def every(count: str) -> str:
    """The numbers of so many items as JavaScript."""
    return f"[...Array({count}).keys()]"


def times(ref: Ref, factor: int) -> Ref:
    """A number so many times."""
    if factor == 1:
        return ref
    python = None if ref.python is None else f"({ref.python} * {factor})"
    return Ref(f"({ref.template} * {factor})", f"({ref.js} * {factor})", python)


def first_there(refs: list[Ref]) -> Ref:
    """The first of these that is not missing."""
    if len(refs) == 1:
        return refs[0]
    template = refs[-1].template
    for ref in reversed(refs[:-1]):
        template = f"({ref.template} | default({template}))"
    return Ref(template, "(" + " ?? ".join(ref.js for ref in refs) + ")")


def no_files(*, many: bool) -> Ref:
    """The files of items that have none."""
    return Ref("[]", "[]") if many else Ref("{}", "{}")


ITEM = variable("item")
INDEX = variable("index")


@dataclass(frozen=True, slots=True)
class ItemFeed:
    """The flow out of a node by one handle, or into a node: one item, or a list of items."""

    value: Ref
    """The item itself, or the list. Items are what n8n calls `json`."""
    many: bool
    loop: str | None = None
    """The node for batches whose current item it is: a value that is known in its loop only."""
    files: Ref | None = None
    """n8n's binary data: an object of files by name for the item, or a list of them; None: nothing is known of it."""

    @property
    def items(self) -> Ref:
        """As a list, whichever it is."""
        return self.value if self.many else self.value.listed()

    @property
    def first_files(self) -> Ref | None:
        """The files of the first item."""
        return self.files.at(number(0)) if self.many and self.files is not None else self.files

    def alone(self) -> ItemFeed:
        """The first item, as one."""
        return ItemFeed(self.first, many=False, loop=self.loop, files=self.first_files)

    def as_list(self) -> ItemFeed:
        """As a list, whichever it is."""
        files = self.files if self.many or self.files is None else self.files.listed()
        return ItemFeed(self.items, many=True, loop=self.loop, files=files)

    @property
    def first(self) -> Ref:
        """The first item."""
        return self.value.at(number(0)) if self.many else self.value


def step(key: str) -> str:
    """A step of a path by a name."""
    if _IDENTIFIER.fullmatch(key) and key not in WORDS:
        return f".{key}"
    return f"[{quoted(key)}]"


def quoted(text: str) -> str:
    """Text as an expression of templates writes it."""
    return "'" + "".join(_ESCAPES.get(char) or (char if char.isprintable() else _code(char)) for char in text) + "'"


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def literal(value: Any) -> str:
    """A JSON value as an expression of templates writes it."""
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(str(key))}: {literal(each)}" for key, each in value.items()) + "}"
    return repr(value) if value >= 0 else f"({value!r})"
