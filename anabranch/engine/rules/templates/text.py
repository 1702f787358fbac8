"""Find the expressions in a text: the scanner before the expression compiler.

Pure. Used by `template` only. It finds `{{ … }}` as Jinja2 does, including quoted text and nested braces, and keeps
everything else unchanged, also line ends and spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.dataclass import dataclass
from anabranch.engine.rules.templates.budget import Refused

# 64 KiB of text with expressions: a long letter or prompt. Text without expressions is not limited here.
TEMPLATE_LENGTH_MAX = 65_536

# 400 expressions of 2 KiB: more than a page of text needs, and a second of compiling at worst.
EXPRESSIONS_MAX = 400
EXPRESSION_LENGTH_MAX = 2_048

# 24 levels: usual expressions have five or six; each level costs stack during evaluation.
EXPRESSION_DEPTH_MAX = 24

# The limit for all templates of a workflow: compiling an expression takes some 90 µs, so these take half a second. The
# largest of 2,000 real workflows has a few hundred.
WORKFLOW_EXPRESSIONS_MAX = 5_000
WORKFLOW_EXPRESSION_CHARACTERS_MAX = 262_144

_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|['"]|[(\[{]|[)\]}]""", re.DOTALL)
_FORBIDDEN = re.compile(r"\{[%#]")


@dataclass(frozen=True, slots=True)
class ExpressionSource:
    """The text of one expression, between its braces."""

    text: str


class ExpressionCount:
    """Counts the expressions of many texts, without compiling them, until there are too many."""

    def __init__(self) -> None:
        self.expressions = 0
        self.characters = 0

    @property
    def is_too_much(self) -> bool:
        """Whether there are more than a workflow may have."""
        return self.expressions > WORKFLOW_EXPRESSIONS_MAX or self.characters > WORKFLOW_EXPRESSION_CHARACTERS_MAX

    def add(self, text: str) -> None:
        """Count the expressions of a text. An invalid template counts up to its error; it is refused elsewhere."""
        if "{{" not in text:
            return
        try:
            for piece in split(text):
                if isinstance(piece, ExpressionSource):
                    self.expressions += 1
                    self.characters += len(piece.text)
        except Refused:
            return


def split(text: str) -> Iterator[str | ExpressionSource]:
    """The literal pieces and the expressions of a text, in order. Raises Refused for an invalid template."""
    position, count, strip_next = 0, 0, False
    while (opening := text.find("{{", position)) >= 0:
        count += 1
        if len(text) > TEMPLATE_LENGTH_MAX or count > EXPRESSIONS_MAX:
            raise Refused(
                f"a template has at most {TEMPLATE_LENGTH_MAX} characters and {EXPRESSIONS_MAX} expressions; split it"
            )
        closing = _find_closing(text, opening + 2)
        inner = text[opening + 2 : closing]
        literal = _literal(text[position:opening], strip_next=strip_next)
        if _strips_before(inner):
            literal, inner = literal.rstrip(), inner[1:]
        strip_next = inner.endswith("-")
        if literal:
            yield literal
        yield ExpressionSource((inner[:-1] if strip_next else inner).strip())
        position = closing + 2
    literal = _literal(text[position:], strip_next=strip_next)
    if literal:
        yield literal


def expressions_in(text: str) -> Iterator[tuple[int, int]]:
    """(begin, end) of the text between the braces of each expression. Raises Refused for an invalid template."""
    position = 0
    while (opening := text.find("{{", position)) >= 0:
        closing = _find_closing(text, opening + 2)
        yield opening + 2, closing
        position = closing + 2


def _find_closing(text: str, start: int) -> int:
    """The position of the `}}` that ends the expression starting here."""
    limit, depth = start + EXPRESSION_LENGTH_MAX + 2, 0
    for token in _TOKEN.finditer(text, start, limit):
        mark = token[0]
        if mark in "([{":
            depth += 1
            if depth > EXPRESSION_DEPTH_MAX:
                raise Refused(f"an expression is nested more than {EXPRESSION_DEPTH_MAX} levels deep")
        elif mark == "}" and depth == 0:
            if text.startswith("}}", token.start()):
                return token.start()
        elif mark in ")]}":
            depth = max(0, depth - 1)
        elif len(mark) == 1 and len(text) <= limit:
            raise Refused("a text in an expression has no closing quote")
    if len(text) > limit:
        raise Refused(f"an expression is not closed by `}}}}` within {EXPRESSION_LENGTH_MAX} characters")
    raise Refused("an expression is not closed by `}}`; a literal `{{` is written `{{ '{{' }}`")


def _strips_before(inner: str) -> bool:
    """True for `{{- x`, which takes away the blanks before it, as in Jinja2."""
    if inner.startswith("-") and not inner[1:2].isspace():
        # Jinja2 takes the minus sign here as its whitespace mark, and uses the number unsigned.
        raise Refused("write a blank between `{{` and the sign `-`")
    return inner.startswith("-")


def _literal(piece: str, *, strip_next: bool) -> str:
    forbidden = _FORBIDDEN.search(piece)
    if forbidden is not None:
        raise Refused(
            f"`{forbidden[0]}` begins a statement or comment, which templates do not have; "
            f"for the literal text write `{{{{ '{forbidden[0]}' }}}}`"
        )
    return piece.lstrip() if strip_next else piece
