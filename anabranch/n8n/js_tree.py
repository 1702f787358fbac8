"""JavaScript expressions as a tree: the part of the language that expressions of n8n are written in.

Pure. Called by `expressions`. It reads one expression, no statements: literals, templates, members, calls, operators,
arrow functions with an expression as their body. Nothing is evaluated. Everything else raises NotRead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

# 64 KiB: an expression is a line; what is longer is a program, and a code node's.
SOURCE_LENGTH_MAX = 65_536

# 60 levels: usual expressions have ten; each level costs stack.
DEPTH_MAX = 60


class NotRead(Exception):
    """The text is not an expression that is read here."""


class NotJavaScript(NotRead):
    """It is not JavaScript: nobody can read it."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, true, false or null."""

    value: Any


@dataclass(frozen=True, slots=True)
class JsPattern:
    """A regular expression."""

    source: str
    flags: str


@dataclass(frozen=True, slots=True)
class JsTemplate:
    """Text in backticks: texts and expressions in turn."""

    parts: tuple[str | Tree, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class JsMember:
    """`base.key` or `base[key]`; a name after a dot is a Literal."""

    base: Tree
    key: Tree
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`callee(arguments)`."""

    callee: Tree
    arguments: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class NewExpression:
    """`new Name(arguments)`."""

    callee: Tree
    arguments: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """`!x`, `-x`, `+x`, `typeof x`."""

    sign: str
    operand: Tree


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two values, logical ones too."""

    sign: str
    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class ConditionalExpression:
    """`test ? chosen : other`."""

    test: Tree
    chosen: Tree
    other: Tree


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """`[a, b]`."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class ObjectLiteral:
    """`{a: 1, [b]: 2, ...c}`; a spread has no key."""

    pairs: tuple[tuple[Tree | None, Tree], ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """`...x` in a list or in arguments."""

    operand: Tree


@dataclass(frozen=True, slots=True)
class Arrow:
    """`(a, b) => body`."""

    parameters: tuple[str, ...]
    body: Tree


Tree: TypeAlias = (
    Literal
    | JsPattern
    | JsTemplate
    | Name
    | JsMember
    | Call
    | NewExpression
    | Unary
    | Binary
    | ConditionalExpression
    | ArrayLiteral
    | ObjectLiteral
    | Spread
    | Arrow
)


def read_expression(source: str, depth: int = 0) -> Tree:
    """The tree of an expression, within so many texts in backticks. Raises NotRead."""
    if len(source) > SOURCE_LENGTH_MAX:
        raise NotRead("it is longer than an expression may be")
    return _Reader(list(tokens_of(source, depth))).read()


class _Token(NamedTuple):
    kind: str
    """`number`, `text`, `template`, `pattern`, `name`, `sign` or `end`."""
    value: Any


_BLANK = re.compile(r"(?:\s|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)++")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?")
_NAME = re.compile(r"[A-Za-z_$\u00c0-\uffff][\w$]*")
_SIGN = re.compile(r"\.\.\.|=>|===|!==|\*\*|\?\?|\?\.(?!\d)|==|!=|<=|>=|&&|\|\||>>>|<<|>>|[-+*/%<>!?:;,.()\[\]{}&|^~=]")
_PATTERN = re.compile(r"/((?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\])++)/([a-z]*)")
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}

# After these a slash divides; everywhere else it begins a pattern.
_ENDS_VALUE = frozenset({")", "]", "}"})


# 4 texts in backticks within each other: each is read once more with every text that is around it.
_TEMPLATES_DEEP_MAX = 4


def tokens_of(source: str, depth: int = 0) -> Iterator[_Token]:
    """The words and signs of a text, without blanks and comments. Raises NotRead."""
    position, after_value = 0, False
    while position < len(source):
        if blank := _BLANK.match(source, position):
            position = blank.end()
            continue
        token, position = _token(source, position, after_value=after_value, depth=depth)
        after_value = token.kind in ("number", "text", "template", "name") or token.value in _ENDS_VALUE
        if token.kind == "name" and token.value in ("typeof", "return", "in", "new", "instanceof", "void"):
            after_value = False
        yield token
    yield _Token("end", "")


def _token(source: str, position: int, *, after_value: bool, depth: int) -> tuple[_Token, int]:
    first = source[position]
    if first in "'\"":
        return _text(source, position, first)
    if first == "`":
        return _template(source, position + 1, depth + 1)
    if first.isdigit() or (first == "." and source[position + 1 : position + 2].isdigit()):
        found = _NUMBER.match(source, position)
        assert found is not None
        return _Token("number", _number(found[0].replace("_", ""))), found.end()
    if first == "/" and source.startswith("/*", position):
        raise NotJavaScript("a comment is not closed")
    if first == "/" and not after_value:
        if (pattern := _PATTERN.match(source, position)) is None:
            raise NotRead("`/` stands where nothing of the kind is read")
        return _Token("pattern", JsPattern(pattern[1], pattern[2])), pattern.end()
    if name := _NAME.match(source, position):
        return _Token("name", name[0]), name.end()
    if sign := _SIGN.match(source, position):
        return _Token("sign", sign[0]), sign.end()
    raise NotRead(f"`{first}` stands where nothing of the kind is read")


def _number(written: str) -> int | float:
    if written[:2].lower() in ("0x", "0o", "0b"):
        return int(written, 0)
    number = float(written)
    return int(number) if number.is_integer() and "e" not in written.lower() and abs(number) < 2**53 else number


def _text(source: str, position: int, quote: str) -> tuple[_Token, int]:
    end = position + 1
    while end < len(source) and source[end] != quote:
        if source[end] == "\n":
            break
        end += 2 if source[end] == "\\" else 1
    if end >= len(source) or source[end] != quote:
        raise NotJavaScript("a text is not closed")
    return _Token("text", _unescaped(source[position + 1 : end])), end + 1


def _template(source: str, position: int, depth: int) -> tuple[_Token, int]:
    if depth > _TEMPLATES_DEEP_MAX:
        raise NotRead(f"more than {_TEMPLATES_DEEP_MAX} texts in backticks stand within each other")
    parts: list[str | Tree] = []
    begin = position
    while position < len(source) and source[position] != "`":
        if source[position] == "\\":
            position += 2
        elif source.startswith("${", position):
            parts.append(_unescaped(source[begin:position]))
            end = _closing(source, position + 2, depth)
            parts.append(read_expression(source[position + 2 : end], depth))
            position = begin = end + 1
        else:
            position += 1
    if position >= len(source):
        raise NotRead("a text in backticks is not closed")
    parts.append(_unescaped(source[begin:position]))
    return _Token("template", JsTemplate(tuple(part for part in parts if part != ""))), position + 1


def _closing(source: str, position: int, depth: int) -> int:
    """The position of the brace that closes `${`."""
    opened, after_value = 0, False
    while position < len(source):
        if blank := _BLANK.match(source, position):
            position = blank.end()
            continue
        if source[position] == "}" and opened == 0:
            return position
        token, position = _token(source, position, after_value=after_value, depth=depth)
        after_value = token.kind != "sign" or token.value in _ENDS_VALUE
        opened += {"{": 1, "}": -1}.get(token.value, 0) if token.kind == "sign" else 0
    raise NotRead("`${` is not closed")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    written = escape[1]
    if len(written) > 1 and written[0] in "ux":
        code = int(written[1:].strip("{}"), 16)
        if code > 0x10FFFF:
            raise NotRead("there is no such character")
        return chr(code)
    return _ESCAPED.get(written, written)


_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"??"}),
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"===", "!==", "==", "!="}),
    frozenset({"<", "<=", ">", ">=", "in", "instanceof"}),
    frozenset({"<<", ">>", ">>>"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_STATEMENTS = frozenset({"function", "class", "async", "await", "var", "let", "const", "return", "if", "for", "while"})


class _Reader:
    """Reads tokens from left to right, an operator's right side deeper than its left."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def read(self) -> Tree:
        tree = self._expression()
        while self._takes(";"):
            pass
        if self._tokens[self._at].kind != "end":
            raise NotRead(f"it goes on after its end, with `{self._tokens[self._at].value}`")
        return tree

    def _expression(self) -> Tree:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise NotRead("it is nested too deeply")
        tree = self._arrow() or self._choice()
        self._depth -= 1
        return tree

    def _arrow(self) -> Tree | None:
        begin, names = self._at, []
        token = self._tokens[begin]
        if token.kind == "name" and self._is("=>", begin + 1):
            names, self._at = [token.value], begin + 1
        elif self._is("(", begin):
            at = begin + 1
            while self._tokens[at].kind == "name":
                names.append(self._tokens[at].value)
                at += 1
                if not self._is(",", at):
                    break
                at += 1
            if not (self._is(")", at) and self._is("=>", at + 1)):
                return None
            self._at = at + 1
        else:
            return None
        self._needs("=>")
        if self._is("{", self._at):
            raise NotRead("a function has statements")
        return Arrow(tuple(names), self._expression())

    def _choice(self) -> Tree:
        test = self._binary(0)
        if not self._takes("?"):
            return test
        chosen = self._expression()
        self._needs(":")
        return ConditionalExpression(test, chosen, self._expression())

    def _binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self._power()
        left = self._binary(level + 1)
        while (sign := self._tokens[self._at]).kind in ("sign", "name") and sign.value in _LEVELS[level]:
            self._at += 1
            left = Binary(sign.value, left, self._binary(level + 1))
        return left

    def _power(self) -> Tree:
        base = self._unary()
        return Binary("**", base, self._power()) if self._takes("**") else base

    def _unary(self) -> Tree:
        token = self._tokens[self._at]
        if (token.kind == "sign" and token.value in ("!", "-", "+", "~")) or token == ("name", "typeof"):
            self._at += 1
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise NotRead("it is nested too deeply")
            tree = Unary(token.value, self._unary())
            self._depth -= 1
            return tree
        return self._postfix(self._new() if token == ("name", "new") else self._primary())

    def _new(self) -> Tree:
        self._at += 1
        callee = self._primary()
        return NewExpression(callee, self._arguments() if self._takes("(") else ())

    def _postfix(self, tree: Tree) -> Tree:
        while True:
            if self._takes("."):
                tree = JsMember(tree, Literal(self._word()))
            elif self._takes("?."):
                if self._takes("("):
                    tree = Call(tree, self._arguments())
                elif self._takes("["):
                    tree = JsMember(tree, self._closed("]"), optional=True)
                else:
                    tree = JsMember(tree, Literal(self._word()), optional=True)
            elif self._takes("["):
                tree = JsMember(tree, self._closed("]"))
            elif self._takes("("):
                tree = Call(tree, self._arguments())
            else:
                return tree

    def _primary(self) -> Tree:
        token = self._tokens[self._at]
        self._at += 1
        match token.kind:
            case "number" | "text":
                return Literal(token.value)
            case "template" | "pattern":
                tree: Tree = token.value
                return tree
            case "name" if token.value in _WORDS:
                return Literal(_WORDS[token.value])
            case "name" if token.value not in _STATEMENTS:
                return Name(token.value)
        match token.value:
            case "(":
                return self._closed(")")
            case "[":
                return ArrayLiteral(self._items("]"))
            case "{":
                return self._object()
        raise NotRead(f"`{token.value}` stands where a value should")

    def _arguments(self) -> tuple[Tree, ...]:
        return self._items(")")

    def _items(self, closing: str) -> tuple[Tree, ...]:
        items: list[Tree] = []
        while not self._takes(closing):
            items.append(Spread(self._expression()) if self._takes("...") else self._expression())
            if not self._takes(",") and not self._is(closing, self._at):
                raise NotRead(f"`{closing}` is missing")
        return tuple(items)

    def _object(self) -> Tree:
        pairs: list[tuple[Tree | None, Tree]] = []
        while not self._takes("}"):
            pairs.append(self._pair())
            if not self._takes(",") and not self._is("}", self._at):
                raise NotRead("`}` is missing")
        return ObjectLiteral(tuple(pairs))

    def _pair(self) -> tuple[Tree | None, Tree]:
        if self._takes("..."):
            return None, self._expression()
        token = self._tokens[self._at]
        self._at += 1
        key: Tree
        if token.kind in ("name", "text"):
            key = Literal(token.value)
        elif token.kind == "number":
            key = Literal(str(token.value))
        elif token == ("sign", "["):
            key = self._closed("]")
        else:
            raise NotRead("an object has a key of a kind that is not read")
        if self._takes(":"):
            return key, self._expression()
        if token.kind == "name" and (self._is(",", self._at) or self._is("}", self._at)):
            return key, Name(token.value)
        raise NotRead("an object has a method")

    def _closed(self, closing: str) -> Tree:
        tree = self._expression()
        self._needs(closing)
        return tree

    def _word(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind != "name":
            raise NotRead("a name is missing after a dot")
        return str(token.value)

    def _is(self, sign: str, at: int) -> bool:
        return self._tokens[min(at, len(self._tokens) - 1)] == ("sign", sign)

    def _takes(self, sign: str) -> bool:
        if self._is(sign, self._at):
            self._at += 1
            return True
        return False

    def _needs(self, sign: str) -> None:
        if not self._takes(sign):
            raise NotRead(f"`{sign}` is missing")
