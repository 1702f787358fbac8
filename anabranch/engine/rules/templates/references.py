"""References in templates: where a text names a variable, as spans for completion and renaming.

Pure. Used by `graph.analysis`. Tokens are Jinja2's, as for evaluation; a text that does not compile has no references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.rules.templates.path import ROOT, Path
from anabranch.engine.rules.templates.template import compile_template
from anabranch.engine.rules.templates.text import expressions_in
from anabranch.errors import TemplateError

# Needed only for texts with expressions:
if TYPE_CHECKING:
    from jinja2 import lexer

    from anabranch.engine.rules.templates import expression
else:
    lexer = deferred("jinja2.lexer")
    expression = deferred("anabranch.engine.rules.templates.expression")

_BLANK = ("whitespace",)


@dataclass(frozen=True, slots=True)
class ContextReference:
    """One reference to a name of the context."""

    start: int
    end: int
    """From `start` on, the name itself: `orders` of `ctx.orders.id`; without the quotes where it stands in brackets."""
    path: Path
    """As far as it is written out: `("orders", "id")`."""


def context_references(text: str) -> Iterator[ContextReference]:
    """Every reference in a text, in order; none if it does not compile."""
    if "{{" not in text:
        return
    try:
        compile_template(text, secrets=True)
    except TemplateError:
        return
    for begin, end in expressions_in(text):
        yield from _in_expression(text[begin:end], begin)


def utf16_offset(text: str, offset: int) -> int:
    """An offset in a text in UTF-16 units, as JavaScript counts."""
    return offset if text.isascii() else len(text[:offset].encode("utf-16-le", "surrogatepass")) // 2


def _in_expression(source: str, offset: int) -> Iterator[ContextReference]:
    tokens = list(_tokens(source))
    for index, (kind, value, _) in enumerate(tokens):
        if kind != "name" or value != ROOT or (index and tokens[index - 1][1] in (".", "|")):
            continue
        steps = list(_steps(tokens, index + 1))
        if steps:
            start, end, _ = steps[0]
            yield ContextReference(offset + start, offset + end, tuple(name for _, _, name in steps))


def _steps(tokens: list[tuple[str, str, int]], index: int) -> Iterator[tuple[int, int, str]]:
    """(start, end, name) of the steps after `ctx`, up to the first that is not a name."""
    while index + 1 < len(tokens):
        kind, value, offset = tokens[index + 1]
        if tokens[index][1] == "." and kind == "name":
            yield offset, offset + len(value), value
            index += 2
        elif tokens[index][1] == "[" and kind == "string" and index + 2 < len(tokens) and tokens[index + 2][1] == "]":
            yield offset + 1, offset + len(value) - 1, value[1:-1]
            index += 3
        else:
            return


def _tokens(source: str) -> Iterator[tuple[str, str, int]]:
    """(kind, text, offset) of every token except blanks."""
    # The lexer turns each line end into one character; offsets must not change.
    plain = source.replace("\r\n", " \n").replace("\r", "\n")
    offset = 0
    for _, kind, value in lexer.get_lexer(expression.ENVIRONMENT).tokeniter(plain, None, state="variable"):
        if kind not in _BLANK:
            yield kind, value, offset
        offset += len(value)
