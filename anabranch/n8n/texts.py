"""Parameters of n8n nodes as node configs: texts with `{{ … }}` in them, and plain values.

Pure. Called by the mapping of nodes. A text that begins with `=` has expressions, every other text is meant as it is
written: braces in it are not templates of ours, either, and are written so that they stay text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.templates.budget import Refused
from anabranch.engine.rules.templates.expression import Expression
from anabranch.engine.rules.templates.text import EXPRESSION_LENGTH_MAX, EXPRESSIONS_MAX, TEMPLATE_LENGTH_MAX
from anabranch.n8n.expressions import translate
from anabranch.n8n.js_reading import check_expression, with_calls_on_any_value
from anabranch.n8n.phrases import NameScope, Phrase, Untranslatable, constant_kind
from anabranch.n8n.refs import literal

# 1,600 characters leave room in an expression of 2,048 for what is done with the text.
LONG = 1_600

# 64 K characters: more than pages and queries in workflows have, and read within a moment.
TEXT_LENGTH_MAX = 65_536

# 256 K characters of code, as much as a code node may have; some have whole lists in them.
CODE_LENGTH_MAX = 262_144

# 200 characters: what is shorter is not nested too deeply.
DEEP = 200

# Values that only templates can say otherwise, in JavaScript.
_CONSTANTS = {"none": "undefined", "true": "true", "false": "false", "ctx.run.id": 'ctx["run"]?.id',
              "ctx.workflow.name": 'ctx["workflow"]?.name'}  # fmt: skip

_TOO_LONG = "it is longer than an expression of ours may be"
_BRACE = re.compile(r"\{(?=[{%#])")


@dataclass(frozen=True, slots=True)
class Source:
    """The JavaScript between `{{` and `}}`."""

    js: str


@dataclass(slots=True)
class Counts:
    """The outcomes for the expressions of a node."""

    rewritten: int = 0
    as_code: int = 0
    left: list[str] = field(default_factory=list)
    """Why each of the others could not be translated."""

    @property
    def total(self) -> int:
        """All expressions."""
        return self.rewritten + self.as_code + len(self.left)


@dataclass(slots=True)
class Texts:
    """Writes the parameters of one node for us, and counts its expressions."""

    scope: NameScope
    compute: Callable[[str], Phrase]
    """Makes a code node compute an expression, and says where its value stands. Raises Untranslatable."""
    counts: Counts = field(default_factory=Counts)

    def value(self, written: Any) -> Any:
        """A parameter: texts, and lists and objects of them. Raises Untranslatable."""
        if isinstance(written, str):
            return self._text(written)
        if isinstance(written, list):
            return [self.value(each) for each in written]
        if isinstance(written, dict):
            return {key: self.value(each) for key, each in written.items()}
        return written

    def text(self, written: Any) -> str:
        """A parameter that has to be text: numbers and booleans are written out."""
        made = self.value(written)
        if made is None:
            return ""
        return made if isinstance(made, str) else json.dumps(made)

    def phrase(self, written: Any) -> Phrase:
        """A parameter as one expression, to be used in a larger one. Raises Untranslatable."""
        if not isinstance(written, str):
            return Phrase(literal(written), constant_kind(written))
        if not written.startswith("="):
            return Phrase(literal(written), "text")
        pieces = split(written[1:])
        if len(pieces) == 1 and isinstance(pieces[0], Source):
            return self._phrase(pieces[0])
        parts = [
            literal(piece) if isinstance(piece, str) else f"({self._phrase(piece).embedded()})" for piece in pieces
        ]
        if len(parts) < 2:
            return Phrase(parts[0] if parts else "''", "text")
        if sum(map(len, parts)) + 4 * len(parts) > LONG:
            return self._joined_by_code(pieces)
        return Phrase(" ~ ".join(parts), "text", is_atom=False)

    def tried(self, written: str) -> tuple[Phrase | None, int]:
        """An expression, if templates say it, and how many of n8n's are in it; nothing is counted or computed.

        Its kind is `text` or `boolean` if it always is that. Of a path it is known that nothing but what is missing
        fails; others are null where they fail.
        """
        pieces = split(written[1:])
        sources = [piece for piece in pieces if isinstance(piece, Source)]
        try:
            phrases = [translate(source.js, self.scope) for source in sources]
        except Untranslatable:
            return None, 0
        if len(pieces) == 1 and phrases:
            return _whole(phrases[0]), 1
        ahead = iter(phrases)
        parts = [literal(each) if isinstance(each, str) else f"({next(ahead).embedded()})" for each in pieces]
        return Phrase(" ~ ".join(parts or ["''"]), "text", is_atom=len(parts) < 2), len(sources)

    def thunk(self, written: Any) -> str:
        """A parameter as a function of JavaScript without arguments. Raises Untranslatable."""
        if not isinstance(written, str) or not written.startswith("="):
            return f"() => ({json.dumps(written)})"
        pieces = split(written[1:])
        made = [Source(self._checked(piece)) if isinstance(piece, Source) else piece for piece in pieces]
        if len(made) == 1 and isinstance(made[0], Source):
            return f"() => (\n{made[0].js}\n)"
        return f"() => {_js_of_pieces(made)}"

    def _checked(self, source: Source) -> str:
        phrase = None
        with suppress(Untranslatable):
            phrase = translate(source.js, self.scope)  # what n8n cannot read, either, is said here
        js = with_calls_on_any_value(self.scope.with_passes(source.js))
        reason = check_expression(js, self.scope.timezone)
        if reason is None:
            self.counts.as_code += 1
            return js
        if phrase is not None and phrase.text in _CONSTANTS:
            self.counts.rewritten += 1
            return _CONSTANTS[phrase.text]
        self.counts.left.append(f"`{_shown(source.js)}`: {reason}")
        raise Untranslatable(f"`{_shown(source.js)}`: {reason}")

    def _joined_by_code(self, pieces: list[str | Source]) -> Phrase:
        """A text that is too long for one expression."""
        return self.compute(_js_of_pieces(pieces))

    def _text(self, written: str) -> str:
        if not written.startswith("="):
            return escaped(written)
        pieces = split(written[1:])
        if len(pieces) == 1 and isinstance(pieces[0], Source):
            return expression(self._phrase(pieces[0]).whole())
        if len(pieces) > EXPRESSIONS_MAX:
            raise Untranslatable(_TOO_LONG)
        made = [
            _literal(piece) if isinstance(piece, str) else expression(self._phrase(piece).embedded())
            for piece in pieces
        ]
        text = _joined(made)
        if len(text) > TEMPLATE_LENGTH_MAX or len(made) > EXPRESSIONS_MAX:
            raise Untranslatable(_TOO_LONG)
        return text

    def _phrase(self, source: Source) -> Phrase:
        try:
            phrase = translate(source.js, self.scope)
            if len(phrase.embedded()) > EXPRESSION_LENGTH_MAX - 4:
                raise Untranslatable(_TOO_LONG)
            if len(phrase.text) > DEEP:
                _check_depth(phrase)
        except Untranslatable as refusal:
            try:
                phrase = self.compute(source.js)
            except Untranslatable:
                self.counts.left.append(f"`{_shown(source.js)}`: {refusal}")
                raise Untranslatable(f"`{_shown(source.js)}`: {refusal}") from None
            self.counts.as_code += 1
        else:
            self.counts.rewritten += 1
        return phrase


def _whole(phrase: Phrase) -> Phrase | None:
    if (phrase.is_path and "|" not in phrase.text) or (
        phrase.kind == "boolean" and not (phrase.throws or phrase.is_odd)
    ):
        return phrase
    if phrase.kind not in ("any", "text", "boolean", "list"):
        return None
    return Phrase(f"{phrase.atom} | otherwise(none)", is_atom=False)


def fits(text: str) -> bool:
    """Whether a text is short and flat enough for an expression of ours."""
    try:
        Expression(text)
    except Refused:
        return False
    return len(text) <= EXPRESSION_LENGTH_MAX - 4


def _check_depth(phrase: Phrase) -> None:
    try:
        Expression(phrase.embedded())
    except Refused as refusal:
        raise Untranslatable(str(refusal)) from None


def longest(written: Any) -> int:
    """How many characters the longest text in a parameter has."""
    length, left = 0, [written]
    while left:
        value = left.pop()
        if isinstance(value, str):
            length = max(length, len(value))
        elif isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
    return length


def without_sign(written: Any) -> Any:
    """A parameter that is not an expression although it begins with `=`, as the text that it stands for."""
    is_text = isinstance(written, str) and written.startswith("=") and "{{" not in written
    return written[1:] if is_text else written


def js_of(written: Any) -> str:
    """A parameter as an expression of JavaScript."""
    if not isinstance(written, str) or not written.startswith("="):
        return json.dumps(written)
    pieces = split(written[1:])
    if len(pieces) == 1 and isinstance(pieces[0], Source):
        return f"(() => {{ try {{ return ({pieces[0].js}\n) }} catch {{ return null }} }})()"
    return _js_of_pieces(pieces)


def _js_of_pieces(pieces: list[str | Source]) -> str:
    made = [json.dumps(piece) if isinstance(piece, str) else f"f(() => ({piece.js}\n))" for piece in pieces]
    return "(f => [" + ", ".join(made) + "].join(''))(f => { try { return f() } catch { return '' } })"


def split(text: str) -> list[str | Source]:
    """The texts and expressions of what follows the `=`."""
    pieces: list[str | Source] = []
    position = 0
    while (opening := text.find("{{", position)) >= 0:
        closing = _closing(text, opening + 2)
        if closing < 0:
            break
        if opening > position:
            pieces.append(text[position:opening])
        pieces.append(Source(text[opening + 2 : closing].strip().rstrip("; \t\n")))
        position = closing + 2
    if position < len(text):
        pieces.append(text[position:])
    return pieces


def _closing(text: str, begin: int) -> int:
    return text.find("}}", begin)


def expression(text: str) -> str:
    """An expression with its braces."""
    space = " " if text.startswith(("-", "{")) else ""
    return "{{" + space + text + (" " if text.endswith("}") else "") + "}}"


def escaped(text: str) -> str:
    """A text without expressions."""
    return _literal(text) if "{{" in text else text


def _literal(text: str) -> str:
    return _BRACE.sub("{{ '{' }}", text)


def _joined(pieces: list[str]) -> str:
    made = ""
    for piece in pieces:
        if made.endswith("{") and piece.startswith("{"):
            made = made[:-1] + "{{ '{' }}"
        made += piece
    return made


def _shown(js: str) -> str:
    line = " ".join(js.split())
    return line if len(line) <= 60 else line[:57] + "…"
