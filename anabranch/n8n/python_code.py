"""Python code of n8n as code of ours: its names, bound by a prelude.

Pure. n8n's names begin with `_`, which our sandbox gives to nobody: they are written without it. Items are dicts:
`item["json"]["name"]`; code that reads attributes of items is not mapped.
"""

from __future__ import annotations

import io
import textwrap
import tokenize

_NAMES = {"_input": "n8n_input", "_json": "n8n_json", "_items": "items", "_item": "item", "_data": "n8n_json"}
_MODULES = frozenset(
    {"base64", "binascii", "bisect", "collections", "datetime", "decimal", "fractions", "hashlib", "heapq", "hmac",
     "itertools", "json", "math", "random", "re", "statistics", "textwrap", "time", "unicodedata", "urllib", "uuid",
     "zlib"}
)  # fmt: skip
_REFUSED = frozenset({"async", "await", "exec", "eval", "open", "getattr", "setattr", "globals", "locals", "class"})
_LINE_BEGINS = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT})

_HEAD = """def n8n_wrap(value):
    return {"json": value}
def n8n_all(made):
    rows = [] if made is None else made if isinstance(made, list) else [made]
    return [row["json"] if isinstance(row.get("json"), dict) else row for row in rows]"""


def python_absent(code: str) -> str | None:
    """What Python code uses that is not there in our sandbox; None if nothing is known to be missing."""
    try:
        tokens = _tokens(code)
    except (tokenize.TokenError, SyntaxError):
        return "something that cannot be read"
    for place, token in enumerate(tokens):
        if token.type != tokenize.NAME:
            continue
        begins = place == 0 or tokens[place - 1].type in _LINE_BEGINS
        following = tokens[place + 1].string if place + 1 < len(tokens) else ""
        if token.string in ("import", "from") and begins and following not in _MODULES:
            return f"the module {following}"
        if token.string in _REFUSED:
            return token.string
        if token.string.startswith("_") and token.string not in _NAMES and (token.string != "_" or following == "("):
            return f"the name {token.string}"
        if token.string == "json" and place and tokens[place - 1].string == ".":
            return "attributes of items"
    return None


def python_program(code: str, items: str, *, each: bool, catches: bool = False) -> str:
    """Code of n8n with its names bound to these items: an expression of Python that gives a list."""
    head = (
        f"{_HEAD}\nitems = [n8n_wrap(row) for row in ({items} or [])]\n"
        'item = items[0] if items else {"json": {}}\nn8n_json = item["json"]\n'
        'n8n_input = {"all": items, "item": item}\n'
    )
    body = textwrap.indent(_renamed(code), "    ")
    answer = "return n8n_all(n8n_main())[0]" if each else "return n8n_all(n8n_main())"
    if catches:
        answer = f'try:\n    {answer}\nexcept Exception as fault:\n    return [{{"error": str(fault)}}]'
    return f"{head}def n8n_main():\n{body}\n{answer}"


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(code).readline))


def _renamed(code: str) -> str:
    """The code with n8n's names written as ours."""
    lines = code.splitlines(keepends=True)
    for token in reversed(_tokens(code)):
        if token.type == tokenize.NAME and token.string in _NAMES:
            row, begin = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:begin] + _NAMES[token.string] + line[token.end[1] :]
    renamed = "".join(lines)
    for method, value in (
        ("all()", '["all"]'),
        ("first()", '["all"][0]'),
        ("last()", '["all"][-1]'),
        ("item", '["item"]'),
    ):
        renamed = renamed.replace(f"n8n_input.{method}", f"n8n_input{value}")
    return renamed
