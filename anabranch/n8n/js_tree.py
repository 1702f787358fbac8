"""JavaScript expressions as a tree: the part of the language that expressions of n8n are written in.

Pure. Called by `expressions`, and with the syntax alone by `js_reading` and `sql_reading`. tree-sitter parses. Of that
the tree has one expression, no statements: literals, templates, members, calls, operators, arrow functions with an
expression as their body. Nothing is evaluated. Everything else raises NotRead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred

if TYPE_CHECKING:
    import tree_sitter
    import tree_sitter_javascript
    from tree_sitter import Node
else:
    tree_sitter = deferred("tree_sitter")
    tree_sitter_javascript = deferred("tree_sitter_javascript")

# 64 KiB: an expression is a line; what is longer is a program, and a code node's.
SOURCE_LENGTH_MAX = 65_536

# 60 levels: usual expressions have ten; each level costs stack. Templates have 24 (`EXPRESSION_DEPTH_MAX`).
DEPTH_MAX = 60

# 256 bytes at once, the most that is read after an error. In practice long texts are read up to 4 times, short ones up
# to 14 times where comments follow each token.
_PIECE_BYTES = 256
_READS_OF_PIECE_MAX = 8
_READS_MAX = 64

# What names may have that are not letters, digits or `_`, and letters as escapes.
_OF_NAMES = re.compile(r"[$#\u200c\u200d]|\\u(?:\{\w+\}|\w{4})")

# Strings of JavaScript are UTF-16, in which a half of a character may stand alone.
_ENCODING = "utf-16-le"
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0",
            "\n": "", "\r": "", "\r\n": "", "\u2028": "", "\u2029": ""}  # fmt: skip


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


def read_expression(source: str) -> Tree:
    """The tree of an expression, behind which `;` may stand. Raises NotRead."""
    if len(source) > SOURCE_LENGTH_MAX:
        raise NotRead("it is longer than an expression may be")
    syntax = Syntax(f"_ = {source}")
    first, *others = _parts(syntax.root)
    assignment = _parts(first)[0]
    if assignment.type != "assignment_expression" or any(each.type != "empty_statement" for each in others):
        raise NotRead("it has several expressions or statements")
    return syntax.tree(_field(assignment, "right"))


def is_expression(source: str) -> bool:
    """Whether brackets around it hold all of it."""
    try:
        statements = _parts(in_brackets(source).root)
    except NotRead:
        return False
    return [part.type for each in statements for part in _parts(each)] == ["parenthesized_expression"]


def texts_of(source: str) -> list[str]:
    """What stands in the texts and patterns of an expression, in pieces. Raises NotRead."""
    syntax = in_brackets(source)
    kinds = ("string_fragment", "escape_sequence", "regex_pattern")
    return [syntax.written(each) for each in syntax.nodes() if each.type in kinds]


def in_brackets(source: str) -> Syntax:
    """The syntax of an expression with brackets around it. Raises NotRead."""
    return Syntax(f"({source}\n)")


class Syntax:
    """The nodes of a program, with their places in it."""

    def __init__(self, source: str) -> None:
        """Raises NotJavaScript, and NotRead for what would take too long.

        tree-sitter continues after errors, and reads some texts again and again: 64 KiB made to do harm take gigabytes
        or minutes. So the text ends after the first error, and when it has been read too often. Only the log tells of
        an error before the end: the parser resumes a branch that it had paused.
        """
        text = self._text = source.encode(_ENCODING, "surrogatepass")
        faults: list[str] = []
        reads = count()
        reads_max = _READS_MAX + _READS_OF_PIECE_MAX * len(text) // _PIECE_BYTES

        def read(begin: int, _point: object) -> bytes:
            # The tree keeps this function, and Python collects no cycles with trees: no `self`, which keeps the tree.
            return b"" if next(reads) > reads_max or faults else text[begin : begin + _PIECE_BYTES]

        parser = tree_sitter.Parser(
            tree_sitter.Language(tree_sitter_javascript.language()),
            logger=lambda _kind, message: faults.append(message) if message.startswith("resume") else None,
        )
        self.root = parser.parse(read, encoding="utf16le").root_node
        if next(reads) > reads_max:
            raise NotRead("it takes too long to read")
        if self.root.has_error or not all(map(self._is_javascript, self.nodes())):
            raise NotJavaScript("invalid syntax")

    def _is_javascript(self, node: Node) -> bool:
        """Whether a node is JavaScript: tree-sitter also accepts JSX, line breaks at the ends of texts, and names of
        signs such as typographic quotation marks."""
        if node.type == "string":
            return all(one.end_byte == other.start_byte for one, other in pairwise(node.children))
        if node.type.endswith("identifier"):
            return _OF_NAMES.sub("_", self.code(node)).isidentifier()
        return not node.type.startswith("jsx_")

    def nodes(self) -> Iterator[Node]:
        """All of them, each before what is in it."""
        ahead = [self.root]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += reversed(node.children)

    def code(self, node: Node) -> str:
        """The source of a node."""
        return self.between(node.start_byte, node.end_byte)

    def between(self, begin: int, end: int | None) -> str:
        """The source from one place to another."""
        return self._text[begin:end].decode(_ENCODING, "surrogatepass")

    def replaced(self, edits: list[tuple[int, int, str]]) -> str:
        """The source with other code from one place to another; of two edits in a place the first comes first."""
        made, place = "", 0
        for begin, end, code in sorted(edits, key=itemgetter(0)):
            made += self.between(place, begin) + code
            place = end
        return made + self.between(place, None)

    def tree(self, node: Node, depth: int = 0) -> Tree:
        """The tree of an expression. Raises NotRead."""
        if depth > DEPTH_MAX:
            raise NotRead("it is nested too deeply")

        def field(name: str) -> Tree:
            return self.tree(_field(node, name), depth + 1)

        match node.type:
            case "number":
                return Literal(_number(self.code(node)))
            case "string":
                return Literal("".join(map(self.written, node.children[1:-1])))
            case "true" | "false" | "null" as word:
                return Literal({"true": True, "false": False, "null": None}[word])
            case "identifier" | "undefined" | "this":
                return Name(self.code(node))
            case "regex":
                return JsPattern(self.code(_field(node, "pattern")), "".join(map(self.code, node.children[3:])))
            case "template_string":
                return JsTemplate(self._template(node, depth))
            case "parenthesized_expression" | "computed_property_name" | "template_substitution":
                return self.tree(_parts(node)[1], depth + 1)
            case "spread_element":
                return Spread(self.tree(_parts(node)[1], depth + 1))
            case "member_expression":
                key = self._key(_field(node, "property"), depth)
                return JsMember(field("object"), key, _is_optional(node))
            case "subscript_expression":
                return JsMember(field("object"), field("index"), _is_optional(node))
            case "call_expression" if _field(node, "arguments").type == "arguments":  # not a template
                return Call(field("function"), self._values(_field(node, "arguments"), depth))
            case "new_expression":
                arguments = node.child_by_field_name("arguments")
                return NewExpression(field("constructor"), self._values(arguments, depth) if arguments else ())
            case "unary_expression":
                return Unary(_field(node, "operator").type, field("argument"))
            case "binary_expression":
                return Binary(_field(node, "operator").type, field("left"), field("right"))
            case "ternary_expression":
                return ConditionalExpression(field("condition"), field("consequence"), field("alternative"))
            case "array":
                return ArrayLiteral(self._values(node, depth))
            case "object":
                return ObjectLiteral(tuple(self._pair(each, depth) for each in _items(node)))
            case "arrow_function" if _parts(node)[0].type != "async":
                return Arrow(self._parameters(node), field("body"))
        raise NotRead(f"it has a form that is not read: {node.type.replace('_', ' ')}")

    def _values(self, node: Node, depth: int) -> tuple[Tree, ...]:
        return tuple(self.tree(each, depth + 1) for each in _items(node))

    def _pair(self, node: Node, depth: int) -> tuple[Tree | None, Tree]:
        match node.type:
            case "spread_element":
                return None, self.tree(_parts(node)[1], depth + 1)
            case "shorthand_property_identifier":
                return Literal(self.code(node)), Name(self.code(node))
            case "pair":
                return self._key(_field(node, "key"), depth + 1), self.tree(_field(node, "value"), depth + 1)
        raise NotRead("an object has a method")

    def _key(self, node: Node, depth: int) -> Tree:
        if node.type == "property_identifier":
            return Literal(self.code(node))
        return Literal(str(_number(self.code(node)))) if node.type == "number" else self.tree(node, depth)

    def _parameters(self, node: Node) -> tuple[str, ...]:
        only = node.child_by_field_name("parameter")
        parameters = [only] if only else _items(_field(node, "parameters"))
        if any(each.type != "identifier" for each in parameters):
            raise NotRead("a function has parameters of a kind that is not read")
        return tuple(map(self.code, parameters))

    def _template(self, node: Node, depth: int) -> tuple[str | Tree, ...]:
        parts: list[str | Tree] = []
        text = ""
        for each in node.children[1:-1]:
            if each.type == "template_substitution":
                parts += [text, self.tree(each, depth)]
                text = ""
            else:
                text += self.written(each)
        return tuple(part for part in (*parts, text) if part != "")

    def written(self, node: Node) -> str:
        """What a piece of a text, or an escape in it, stands for. Raises NotRead."""
        written = self.code(node)
        if node.type != "escape_sequence":
            return written.replace("\r\n", "\n").replace("\r", "\n")
        escape = written[1:]
        if escape[0] in "ux":
            code = int(escape[1:].strip("{}"), 16)
            if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
                raise NotRead("a text has half a character, or none")
            return chr(code)
        if escape.isdigit() and escape != "0":
            raise NotRead("a character is octal")
        return _ESCAPED.get(escape, escape)


def _items(node: Node) -> list[Node]:
    """What stands between brackets and commas: a comma for an empty place, which no tree has."""
    return _parts(node)[1:-1][::2]


def _parts(node: Node) -> list[Node]:
    return [each for each in node.children if not each.is_extra]  # comments


def _field(node: Node, name: str) -> Node:
    found = node.child_by_field_name(name)
    assert found is not None, f"{node.type} has {name}"
    return found


def _is_optional(node: Node) -> bool:
    return node.child_by_field_name("optional_chain") is not None


def _number(written: str) -> int | float:
    written = written.replace("_", "")
    if re.fullmatch(r"0\d+|.*n", written):
        raise NotRead("a number is octal, or a BigInt")
    if written[:2].lower() in ("0x", "0o", "0b"):
        return int(written, 0)
    number = float(written)
    return int(number) if number.is_integer() and "e" not in written.lower() and abs(number) < 2**53 else number
