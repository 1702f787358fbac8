"""Tokenize SQL as each kind of database does.

Called by `statement` only. It must agree with the database about where strings, names and comments end: what looks like
text here and is code there would bypass the list of refused functions. So any doubtful text is refused: an open quote
or comment, a control character, an unneeded form of quoting, two literals side by side (which servers join, each by
rules of its own). `tests/handlers/queries/test_borders.py` compares it with real servers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache

from anabranch.dataclass import dataclass


class SourceKind(StrEnum):
    """A kind of database that can be a data source."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text that is neither space nor comment.

    `kind` is `word`, `name` (a quoted identifier, `value` without its quotes), `string`,
    `parameter` (`value` is its name) or `mark` (anything else, one character or `::`).
    """

    kind: str
    value: str
    start: int
    end: int


class Unreadable(Exception):
    """The text cannot be tokenized safely; the message says where and why."""


# The characters of names, as the databases see them: all beyond ASCII, including Unicode spaces. Python's classes (\s,
# \w) would split such texts elsewhere.
_LETTER = r"[A-Za-z_\u0080-\U0010ffff]"
_LETTERS = r"[A-Za-z0-9_$\u0080-\U0010ffff]"

_SPACE = r"(?P<space>[ \t\n\r]+)"
_PARAMETER = rf"(?P<cast>::|:=)|:(?P<parameter>[A-Za-z_][A-Za-z0-9_]*)(?!{_LETTERS})"
_NUMBER = rf"(?P<number>0[xX][0-9a-fA-F]+|\d[\d_.]*(?:[eE][+-]?\d+)?)(?P<joined>{_LETTER})?"
_WORD = rf"(?P<word>{_LETTER}{_LETTERS}*)"
_MARK = r"(?P<mark>.)"
_PLAIN_STRING = r"(?P<string>'(?:[^']|'')*')"
# Bits and bytes, with nothing in them that a server would end them at; every other form is refused.
_BINARY = r"(?P<binary>(?:[xX]'[0-9a-fA-F]*'|[bB]'[01]*')(?!'))"
_ODD_BINARY = r"(?P<odd>[xXbB]')"
_QUOTED = r'"(?P<quoted>(?:[^"]|"")*)"'
_BACKTICKED = r"`(?P<backticked>(?:[^`]|``)*)`"

_PATTERNS = {
    SourceKind.POSTGRESQL: (
        _SPACE,
        r"(?P<comment>--[^\r\n]*)",
        r"(?P<open_comment>/\*)",
        r"(?P<refused>[uU]&['\"])",
        _BINARY,
        _ODD_BINARY,
        r"(?P<escaped>[eE]'(?:[^'\\]|\\.|'')*')",
        _PLAIN_STRING,
        _QUOTED,
        rf"(?P<dollar>(?P<tag>\$(?:{_LETTER}[A-Za-z0-9_\u0080-\U0010ffff]*)?\$).*?(?P=tag))",
        r"(?P<positional>\$\d*)",
        _PARAMETER,
        _NUMBER,
        _WORD,
        _MARK,
    ),
    SourceKind.SQLITE: (
        _SPACE,
        r"(?P<comment>--[^\n]*)",
        r"(?P<open_comment>/\*)",
        _BINARY,
        _ODD_BINARY,
        _PLAIN_STRING,
        _QUOTED,
        _BACKTICKED,
        r"\[(?P<bracketed>[^\]]*)\]",
        r"(?P<positional>[?@$#])",
        _PARAMETER,
        r"(?P<refused>:)",
        _NUMBER,
        _WORD,
        _MARK,
    ),
    SourceKind.MYSQL: (
        _SPACE,
        r"(?P<comment>\#[^\n]*|--(?=[ \t\n\r]|\Z)[^\n]*)",
        # `--` is a comment only before a space, and what is written for a parameter begins with one.
        r"(?P<refused>/\*M?[!+]|\\|--)",
        r"(?P<open_comment>/\*)",
        _BINARY,
        _ODD_BINARY,
        r"(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")",
        _BACKTICKED,
        r"(?P<positional>[?@])",
        _PARAMETER,
        _NUMBER,
        _WORD,
        _MARK,
    ),
}
# Everything below a space but tab and line ends, DEL, and the control characters beyond ASCII.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokens_of(text: str, kind: SourceKind) -> Iterator[Token]:
    """The tokens of a text in order. Raises Unreadable."""
    strange = _CONTROL.search(text)
    if strange is not None:
        raise Unreadable(
            f"the SQL holds a control character (U+{ord(strange[0]):04X}) at character {strange.start() + 1}"
        )
    position, lexer, literal_end, word_end = 0, _lexer(kind), -1, -1
    while position < len(text):
        found = lexer.match(text, position)
        assert found is not None, "the last alternative matches any character"
        position = found.end()
        if found["open_comment"]:
            position = _comment_end(text, found.start(), nests=kind is SourceKind.POSTGRESQL)
            continue
        token = _token(found)
        if token is None:
            continue
        is_literal = token.kind == "string" or (token.kind == "parameter" and kind is SourceKind.MYSQL)
        if is_literal and literal_end >= 0:
            raise Unreadable(f"two literals stand side by side at character {literal_end}; write `||` or concat()")
        if token.kind == "string" and word_end == token.start:
            raise Unreadable(f"a word touches the literal at character {token.start + 1}; put a space between them")
        literal_end = token.end if is_literal else -1
        word_end = token.end if token.kind == "word" else -1
        yield token


@cache
def _lexer(kind: SourceKind) -> re.Pattern[str]:
    """Compiled when it is first needed: the three take 60 ms, which most commands would wait for in vain."""
    return re.compile("|".join(_PATTERNS[kind]), re.DOTALL)


def _token(found: re.Match[str]) -> Token | None:
    parts = {name: value for name, value in found.groupdict().items() if value is not None}
    start, end, whole = found.start(), found.end(), found.group()
    if "space" in parts or "comment" in parts:
        return None
    if parts.keys() & {"refused", "positional", "joined", "odd"}:
        raise Unreadable(f"`{whole}` at character {start + 1} cannot be used here; parameters are written `:name`")
    if parts.keys() & {"string", "escaped", "dollar", "binary"}:
        return Token("string", whole, start, end)
    for quoting, quote in (("quoted", '"'), ("backticked", "`"), ("bracketed", "]")):
        if quoting in parts:
            return Token("name", parts[quoting].replace(quote * 2, quote), start, end)
    if "parameter" in parts:
        return Token("parameter", parts["parameter"], start, end)
    if "word" in parts:
        return Token("word", whole, start, end)
    if whole in ("'", '"', "`"):
        raise Unreadable(f"the quote {whole} at character {start + 1} is not closed")
    return Token("mark", whole, start, end)


def _comment_end(text: str, start: int, *, nests: bool) -> int:
    if not nests:  # the first end is the end, also that of `/*/`
        end = text.find("*/", start + 2)
        if end >= 0:
            return end + 2
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start) if nests else ():
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise Unreadable(f"the comment that begins at character {start + 1} is not closed")
