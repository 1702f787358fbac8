"""Phrases: template expressions made from expressions of n8n; and what the names of n8n mean at a node.

Pure. Used by `expressions`, which makes them, and by the mappings, which put them into configs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.n8n.refs import Ref

FALSY = "['', 0, false, none]"


class Untranslatable(Exception):
    """An expression has no exact counterpart in our templates."""


class InvalidExpression(Exception):
    """An expression that n8n cannot read, either: the node fails there, too."""


class NeverBegins(Exception):
    """A parameter that n8n demands is missing: it executes no workflow in which such a node may be reached."""


class NameScope(Protocol):
    """The meaning of n8n's names at one node."""

    @property
    def timezone(self) -> str:
        """In which dates are written."""

    @property
    def title(self) -> str:
        """The name of the workflow in n8n."""

    def resume_address(self) -> str:
        """`$execution.resumeUrl`. Raises Untranslatable."""

    def json(self) -> Ref:
        """`$json`. Raises Untranslatable."""

    def item_index(self) -> Ref:
        """`$itemIndex`."""

    def node(self, name: str, which: str) -> Ref:
        """The `item` of a node that belongs to the current one, the `first`, the `last`, the one at the same `index`,
        or `all` as a list. Raises Untranslatable."""

    def inputs(self, which: str) -> Ref:
        """The same of what flows into this node. Raises Untranslatable."""

    def files(self) -> Ref:
        """`$binary`. Raises Untranslatable."""

    def variable(self, name: str) -> Ref:
        """`$vars` and `$env`. Raises Untranslatable."""

    def parameters(self, name: str) -> Mapping[str, Any]:
        """The parameters of a node. Raises Untranslatable."""

    def check_inputs(self, js: str) -> None:
        """Refuses JavaScript that reads all that flows in where that is not known. Raises Untranslatable."""

    def check_nodes(self, js: str) -> None:
        """Refuses JavaScript that reads a node that is not there. Raises Untranslatable."""

    def with_passes(self, js: str) -> str:
        """An expression of JavaScript with what it reads of the state of the loop around it and of parameters."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A template expression that an expression of n8n became."""

    text: str
    kind: str = "any"
    """`text`, `number`, `boolean`, `list`, `object`, `date`, `null`, or `any`."""
    is_atom: bool = True
    """It stands before a filter as it is."""
    is_path: bool = False
    """A path, which may be missing."""
    throws: bool = False
    """It fails where JavaScript throws, so that the whole expression has no value."""
    is_odd: bool = False
    """It fails where JavaScript goes on, with NaN or undefined."""
    is_whole: bool = False
    """A number that never has a point."""
    is_element: bool = False
    """What stands in a list at a number. JavaScript finds characters of a text so, too, and this does not."""

    @property
    def atom(self) -> str:
        """As what a filter applies to: in brackets, if it needs them."""
        return self.text if self.is_atom else f"({self.text})"

    @property
    def value(self) -> str:
        """As an operand: a missing path is null, and what arithmetic makes is 3, not 3.0."""
        if self.kind == "number" and not (self.is_atom or self.is_whole or CONSTANT.fullmatch(self.text)):
            return f"(({self.text}) | js_number)"
        return f"({self.text} | default(none))" if self.is_path else self.atom

    @property
    def truth(self) -> str:
        """As a condition."""
        if self.kind == "boolean":
            return self.atom
        return f"({self.value} not in {FALSY})"

    def whole(self) -> str:
        """The value of a parameter: nothing where it fails."""
        if self.is_path:
            return f"{self.text} | default(none)"
        return self.text if self.kind == "null" or _never_fails(self.text) else f"{self.value} | otherwise(none)"

    def embedded(self) -> str:
        """Within a text."""
        if self.is_path:
            return f"{self.text} | js_text"
        return f"{self.atom} | otherwise(none) | js_text"

    def as_text(self) -> str:
        """As an operand that is joined to a text."""
        if self.kind == "text" and not self.is_path:
            return self.atom
        return f"({self.atom} | js_text('undefined'))"

    def as_number(self) -> str:
        """As an operand of arithmetic."""
        return self.atom if self.kind == "number" else f"({self.atom} | js_number)"


CONSTANT = re.compile(r"'(?:[^'\\]|\\.)*'|-?[0-9.]+|true|false|none|now|ctx\.run\.id|ctx\.workflow\.name")


def _never_fails(text: str) -> bool:
    return bool(CONSTANT.fullmatch(text))


def constant_kind(value: Any) -> str:
    """The kind of a constant phrase."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "object"
