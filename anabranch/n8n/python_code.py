"""Python code of n8n as code of ours: its names, bound by a prelude.

Pure. n8n's names begin with `_`, which our sandbox gives to nobody: they are written without it. Items are dicts:
`item["json"]["name"]`; attributes of n8n's names, as in `_json.name`, are written so, too. Code that reads attributes
of other values is not mapped.
"""

from __future__ import annotations

import ast
import io
import json
import re
import textwrap
import tokenize
from collections.abc import Mapping

_NAMES = {
    "_input": "n8n_input",
    "_json": "n8n_json",
    "_items": "items",
    "_item": "item",
    "_data": "n8n_json",
    "_env": "n8n_vars",
    "_vars": "n8n_vars",
    "_": "n8n_node",
}
_MODULES = frozenset(
    {"base64", "binascii", "bisect", "collections", "datetime", "decimal", "fractions", "hashlib", "heapq", "hmac",
     "itertools", "json", "math", "random", "re", "statistics", "textwrap", "time", "unicodedata", "urllib", "uuid",
     "zlib"}
)  # fmt: skip
_REFUSED = frozenset({"async", "await", "exec", "eval", "open", "getattr", "setattr", "globals", "locals", "class"})
_VARIABLES = re.compile(r"(?<![\w.])_(?:env|vars)\b(?:\.\w+\(?|\[\s*(?:'[^'\\]*'|\"[^\"\\]*\")\s*\])?")
_LINE_BEGINS = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT})

_HEAD = """def n8n_wrap(value):
    return {"json": value}
def n8n_all(made):
    rows = [] if made is None else made if isinstance(made, list) else [made]
    return [row["json"] if isinstance(row.get("json"), dict) else row for row in rows]"""

# As n8n pairs what code returns: by what an item says, with the only item, or by number where they are as many.
_PAIRS = """def n8n_index(pair):
    found = pair.get("item") if isinstance(pair, dict) and not pair.get("input") else pair
    if isinstance(found, list):
        indexes = [n8n_index(each) for each in found]
        return indexes[0] if indexes and all(each == indexes[0] for each in indexes) else None
    return found if isinstance(found, int) else None
def n8n_paired(made):
    rows = [] if made is None else made if isinstance(made, list) else [made]
    def pair(at, row):
        if any(row is other for other in n8n_others):
            return None
        if "pairedItem" in row:
            return n8n_index(row["pairedItem"])
        return 0 if len(items) == 1 else at if len(rows) == len(items) else None
    return {"items": n8n_all(made), "of": [pair(at, row) for at, row in enumerate(rows)]}
"""


def python_absent(code: str) -> str | None:
    """The name that Python code uses and our sandbox lacks; None if none is known to be missing."""
    try:
        tokens = _tokens(code)
    except (tokenize.TokenError, SyntaxError):
        return "something that cannot be read"
    named = {index for begin, end in _chains(tokens) for index in range(begin, end)}
    for index, token in enumerate(tokens):
        if token.type != tokenize.NAME:
            continue
        begins = index == 0 or tokens[index - 1].type in _LINE_BEGINS
        following = tokens[index + 1].string if index + 1 < len(tokens) else ""
        if token.string in ("import", "from") and begins and following not in _MODULES:
            return f"the module {following}"
        if token.string in _REFUSED:
            return token.string
        if token.string.startswith("_") and token.string not in _NAMES:
            return f"the name {token.string}"
        if token.string == "_" and following == "(" and tokens[index + 2].type != tokenize.STRING:
            return "a node whose name is computed"
        if token.string == "json" and index and tokens[index - 1].string == "." and index not in named:
            return "attributes of items"
    return None


def is_valid(code: str) -> bool:
    """Whether it can be read as Python at all: what cannot fails in n8n, too."""
    try:
        ast.parse(f"def n8n_main():\n{textwrap.indent(code, '    ')}\n    pass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def names_of_nodes(code: str) -> list[str]:
    """The nodes of n8n that code reads by name."""
    tokens = _tokens(code)
    return [str(ast.literal_eval(tokens[index + 2].string)) for index, token in enumerate(tokens)
            if token.string == "_" and tokens[index + 1].string == "("]  # fmt: skip


def variables_in(code: str) -> str:
    """The names of `_env` and `_vars` that it reads, as JavaScript would write them."""
    return " ".join(found[0].replace("_", "$", 1) for found in _VARIABLES.finditer(code))


def _chains(tokens: list[tokenize.TokenInfo]) -> list[tuple[int, int]]:
    """The positions of n8n's names with all that is read of them: their first tokens, and those behind the last."""
    found, index = [], 0
    while index < len(tokens):
        end = index + 1
        following = tokens[end].string if end < len(tokens) else ""
        name = tokens[index].string if tokens[index].type == tokenize.NAME else ""
        if name in _NAMES and (name != "_" or following == "("):
            while end < len(tokens) and tokens[end].string in (".", "[", "("):
                if tokens[end].string == ".":
                    end += 2
                    continue
                depth = 0
                while end < len(tokens):
                    depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(tokens[end].string, 0)
                    end += 1
                    if not depth:
                        break
            found.append((index, end))
        index = end
    return found


def python_program(
    code: str,
    items: str,
    nodes: Mapping[str, tuple[str, str]],
    *,
    each: bool,
    catches: bool = False,
    pairs: bool = False,
    variables: str = "{}",
) -> str:
    """Code of n8n with its names bound to these items: an expression of Python that gives a list.

    `nodes`: all items, and the one that belongs to the current one, of the nodes that it reads. `pairs`: it gives
    `{items, of}`, with the number of the item that each belongs to, or null.
    """
    known = "".join(f"    if name == {json.dumps(name)}:\n        return n8n_lists({everything}, {one})\n"
                    for name, (everything, one) in nodes.items())  # fmt: skip
    of_nodes = "" if not nodes else (
        "def n8n_lists(rows, one):\n"
        "    found = {'all': [n8n_wrap(row) for row in (rows or [])], 'item': n8n_wrap(one)}\n"
        "    n8n_others.extend([*found['all'], found['item']])\n"
        "    return found\n"
        f"def n8n_node(name):\n{known}"
    )  # fmt: skip
    head = (
        f"{_HEAD}\n{_PAIRS if pairs else ''}n8n_others = []\n"
        f"items = [{{**n8n_wrap(row), 'pairedItem': {{'item': at}}}} for at, row in enumerate({items} or [])]\n"
        'item = items[0] if items else {"json": {}}\nn8n_json = item["json"]\n'
        f'n8n_input = {{"all": items, "item": item}}\nn8n_vars = {variables}\n{of_nodes}'
    )
    body = textwrap.indent(_renamed(code), "    ")
    answer = "return n8n_all(n8n_main())[0]" if each else "return n8n_all(n8n_main())"
    error = '[{"error": str(fault)}]'
    if pairs:
        answer, error = "return n8n_paired(n8n_main())", f'{{"items": {error}, "of": [0 if len(items) == 1 else None]}}'
    if catches:
        answer = f"try:\n    {answer}\nexcept Exception as fault:\n    return {error}"
    return f"{head}def n8n_main():\n{body}\n{answer}"


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(code).readline))


_LISTS = {"all": '["all"]', "first": '["all"][0]', "last": '["all"][-1]'}


def _renamed(code: str) -> str:
    """The code with n8n's names written as ours, and their attributes as keys."""
    tokens = _tokens(code)
    edits: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    for begin, end in _chains(tokens):
        edits.append((tokens[begin].start, tokens[begin].end, _NAMES[tokens[begin].string]))
        index = begin + 1
        while index + 1 < end:
            name = tokens[index + 1]
            if tokens[index].string == "." and name.type == tokenize.NAME:
                calls = [token.string for token in tokens[index + 2 : index + 4]]
                if name.string in _LISTS and calls == ["(", ")"]:
                    edits.append((tokens[index].start, tokens[index + 3].end, _LISTS[name.string]))
                elif calls[:1] != ["("]:
                    edits.append((tokens[index].start, name.end, f"[{json.dumps(name.string)}]"))
                index += 1
            index += 1
    lines = code.splitlines(keepends=True)
    for (row, begin_at), (last_row, end_at), text in reversed(edits):
        if row == last_row:
            lines[row - 1] = lines[row - 1][:begin_at] + text + lines[row - 1][end_at:]
    return "".join(lines)
