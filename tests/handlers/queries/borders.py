"""Texts of SQL that try to be cut differently by a server than by us, and what our cut says that they mean.

`texts` makes them: from a grammar of tokens that are glued together in every way, and by mangling what the
grammar made. `plain` writes our reading of a text in a form that leaves no server a choice: no comments, one
space between tokens, every literal and quoted name spelled anew. If a server gives the same answer to both,
it has cut the text where we have.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from anabranch.queries.drivers.driver_requests import QueryRequest
from anabranch.queries.lexing import SourceKind, Token, Unreadable, tokens_of

VALUE = "v /*"
"""Of every parameter."""

_LETTERS = "abexnuqEXNU01_$é'\"`\\ -/*;:%#@[]{}|!\n\r\t\x0b\x0c\x01\x1f\x7f\x85\u00a0\u2028"

_SPACES = [" ", "\n", "\r", "\t", "", "", "  ", "\r\n", "/* c */", "/*'*/", "/*/*x*/*/", "/*/ */", "-- c\n", "--'\n",
           "--\n", "--\r", "-- c\r\n", "/**/", "-- \n", "/* \" -- */"]  # fmt: skip
_ODD_SPACES = ["\x0b", "\x0c", "\x01", "\u00a0", "#c\n", "--x\n", "--\x01x\n", "/* /*/", "*/", "#'\n"]

_COMMON = ["'a'", "'it''s'", "''", "'\\'", "'a\\'b'", "'a\\\\'", "'--'", "'/*'", "'*/'", "'a\nb'", '"a"', '"a""b"',
           "1", "1.5", ".5", "1e3", "0x1F", "1_000", "NULL", "true", "(1)", "(SELECT 2)", "('b')", "lower('A')",
           "x'41'", "X'4''1'", "b'01'", "n'a'", "N'it''s'", "x'4z'", "e'a'", "E'\\'", "':a'",
           ":p", ":p", ":q", "'a' = :p", "$:p", "x:p", "--:p", "-:p", ":é(+'a')",
           "length('a')", "CASE WHEN 'a' = 'b' THEN 'c' ELSE 'd' END", "(SELECT 'x' FROM (SELECT 1 AS a) AS t)",
           ]  # fmt: skip
_OWN: Mapping[SourceKind, Sequence[str]] = {
    SourceKind.POSTGRESQL: ["E'a'", "E'a\\'b'", "E'\\\\'", "e'\\''", "$$a$$", "$$'$$", "$x$ $$ $x$", "$a$'$a$", "U&'a'",
                            "u&'\\0041'", "a$1", "$1$", "B'01'", "E'\\x41'", "E'\\101'", "E'\\u0041'", "'1'::int",
                            "'a'::text", "int '1'", "date'2026-01-31'", "'{1,2}'::int[]"],
    SourceKind.SQLITE: ["`a`", "[a]", "[a'b]", "'a' || [b]", "[a]]", "x''", "$a", "@a", "?1", "CAST('1' AS int)"],
    SourceKind.MYSQL: ['"it\\"s"', '"a\'b"', "'\\\\'", "'\\''", "'\\0'", "'\\%'", "_utf8mb4'a'", "_latin1'\\''", "\\N",
                       "@a", "@@version", "/*!1*/", "/*!50000 1*/", "/*M! 1*/", "{d '2026-01-31'}", "0b01", "0X1F",
                       "1a", "`a`", "'a' LIKE 'a'", "'a' COLLATE utf8mb4_bin"],
}  # fmt: skip
_JOINS = [", ", ",", " || ", "||", " ", "", " + ", "-", "- -", "--", " = ", "/", "*", " AND ", "\n"]
_NAMED = {SourceKind.POSTGRESQL: ' AS "n"', SourceKind.SQLITE: " AS n", SourceKind.MYSQL: " AS n"}


def texts(kind: SourceKind, dice: random.Random) -> Iterator[str]:
    """Texts without end; the same for the same dice."""
    pieces = [*_COMMON, *_OWN[kind] * 2]
    while True:
        items = dice.randint(1, 4)
        text = "SELECT"
        for number in range(items):
            text += _space(dice) or " "
            text += dice.choice(pieces)
            text += _space(dice) if dice.random() < 0.5 else ""
            if dice.random() < 0.1:
                text += _NAMED[kind]
            if number < items - 1:
                # Mostly a comma: a text that is no SQL at all tells little.
                text += dice.choice(_JOINS) if dice.random() < 0.25 else ", "
        roll = dice.random()
        if roll < 0.25:
            text = _mangled(text, dice)
        elif roll < 0.3:
            text = "SELECT " + "".join(dice.choice(_LETTERS) for _ in range(dice.randint(1, 25)))
        yield text


def _space(dice: random.Random) -> str:
    return dice.choice(_ODD_SPACES if dice.random() < 0.04 else _SPACES)


def accepted(text: str, kind: SourceKind) -> list[Token] | None:
    """Our cut of a text; None if we refuse it."""
    try:
        tokens = list(tokens_of(text, kind))
    except Unreadable:
        return None
    if any(token.kind == "mark" and token.value == ";" for token in tokens):
        return None
    return tokens


def rendered(tokens: Sequence[Token], text: str, kind: SourceKind) -> str:
    """The text as a server gets it: with what the driver writes for each parameter."""
    pieces: list[str | Sequence[str]] = []
    position = 0
    for token in tokens:
        if token.kind == "parameter":
            pieces += [text[position : token.start], [token.value]]
            position = token.end
    request = QueryRequest([*pieces, text[position:]], "select", {}, False, 1, 1, 1, 1)
    return request.render(lambda name: placeholder(name, tokens, kind))


def placeholder(name: str, tokens: Sequence[Token], kind: SourceKind) -> str:
    """What the driver writes for a parameter; MySQL's writes the value, which is `VALUE` here."""
    number = parameters(tokens).index(name) + 1
    return {SourceKind.POSTGRESQL: f"${number}", SourceKind.SQLITE: f"?{number}", SourceKind.MYSQL: f"'{VALUE}'"}[kind]


def parameters(tokens: Sequence[Token]) -> Sequence[str]:
    """The names of the parameters, each once."""
    return list(dict.fromkeys(token.value for token in tokens if token.kind == "parameter"))


def plain(tokens: Sequence[Token], text: str, kind: SourceKind) -> str:
    """What the text means, if we have cut it right."""
    parts: list[str] = []
    before: Token | None = None
    for token in tokens:
        # Two marks are one operator where nothing stands between them, and so are a point and a number. Only
        # two minus signs are not: written together they could begin a comment.
        touches = before is not None and before.end == token.start
        is_joined = (
            touches
            and before is not None
            and "mark" in (before.kind, token.kind)
            and (before.value, token.value) != ("-", "-")
        )
        spelled = placeholder(token.value, tokens, kind) if token.kind == "parameter" else _spelled(token, text, kind)
        parts += ["" if is_joined and token.kind != "parameter" else " ", spelled]
        before = token
    return "".join(parts).strip(" ")


def _spelled(token: Token, text: str, kind: SourceKind) -> str:
    whole = text[token.start : token.end]
    if token.kind == "string":
        return _PLAIN[kind](whole)
    if token.kind == "name":
        if kind is SourceKind.POSTGRESQL:
            return 'U&"' + "".join(f"\\+{ord(character):06X}" for character in token.value) + '"'
        if kind is SourceKind.MYSQL:
            return "`" + token.value.replace("`", "``") + "`"
        # SQLite takes a name in double quotes for text where it knows no such name: the quotes stay what they are.
        return '"' + token.value.replace('"', '""') + '"' if whole[0] == '"' else whole
    return whole


def _postgresql(whole: str) -> str:
    if whole[0] in "xXbB":
        return whole
    if whole[0] == "$":
        tag = whole[: whole.index("$", 1) + 1]
        value = whole[len(tag) : -len(tag)]
    elif whole[0] in "eE":
        value = _escapes(whole[2:-1].replace("''", "'") if "\\" not in whole else _doubled(whole[2:-1]))
    else:
        value = whole[1:-1].replace("''", "'")
    return "E'" + "".join(f"\\U{ord(character):08X}" for character in value) + "'"


def _doubled(body: str) -> str:
    """A body with `''` written as `\\'`: a backslash before a quote belongs to that quote alone."""
    return re.sub(r"\\.|''", lambda part: "\\'" if part[0] == "''" else part[0], body, flags=re.DOTALL)


_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _escapes(body: str) -> str:
    def value(part: re.Match[str]) -> str:
        one = part[1]
        if one[0] in "xuU" and len(one) > 1:
            return chr(int(one[1:], 16))
        if one[0] in "01234567":
            return chr(int(one, 8) % 256)
        return _SIMPLE.get(one, one)

    return re.sub(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", value, body, flags=re.DOTALL)


def _sqlite(whole: str) -> str:
    if whole[0] in "xXbB":
        return whole
    return "'" + whole[1:-1].replace("''", "'").replace("'", "''") + "'"


_MYSQL_SIMPLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _mysql(whole: str) -> str:
    if whole[0] in "xXbB":
        return whole
    quote = whole[0]
    value = re.sub(
        r"\\(.)|" + quote * 2,
        lambda part: quote if part[1] is None else _MYSQL_SIMPLE.get(part[1], part[1]),
        whole[1:-1],
        flags=re.DOTALL,
    )
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"


_PLAIN: Mapping[SourceKind, Callable[[str], str]] = {
    SourceKind.POSTGRESQL: _postgresql,
    SourceKind.SQLITE: _sqlite,
    SourceKind.MYSQL: _mysql,
}


def _mangled(text: str, dice: random.Random) -> str:
    """A few characters added, left out or moved behind the first word."""
    characters = list(text)
    for _ in range(dice.randint(1, 3)):
        index = dice.randrange(6, len(characters) + 1)
        match dice.randrange(3):
            case 0:
                characters.insert(index, dice.choice(_LETTERS))
            case 1 if index < len(characters):
                del characters[index]
            case _:
                characters[index:index] = characters[6 : 6 + dice.randint(1, 8)]
    return "".join(characters)
