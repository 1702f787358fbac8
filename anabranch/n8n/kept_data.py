"""Values from outside the run that code and expressions of n8n read: variables and static workflow data.

Pure. `$env` and `$vars` become variables of the tenant, read by a node in front. Static data become variables of the
workflow: read in front of the code, which finds an object of them, and written behind it if it changed them.
"""

from __future__ import annotations

import json
import re

_BARE_READ = re.compile(r"(?<![\w$.])\$(?:env|vars)\b")
_NAMED_READ = re.compile(
    r"(?<![\w$.])\$(?:env|vars)\b\s*(?:\??\.\s*([A-Za-z_]\w*)\b(?!\s*\()|(?:\?\.)?\[\s*(?:'([^'\\]*)'|\"([^\"\\]*)\")\s*\])"
)
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")

_STATIC = re.compile(r"(?:(?<![\w$.])|(?<=\bthis\.))\$?getWorkflowStaticData\b")
_STATIC_CALL = re.compile(
    r"""(?<![\w$.])(?:this\.)?\$?getWorkflowStaticData\s*\(\s*(?P<quote>['"`])(?P<scope>global|node)(?P=quote)\s*\)"""
)


def variables_read(code: str) -> list[str] | None:
    """The names that code reads of `$env` and `$vars`; None: some are computed, or are not names of variables."""
    named = list(_NAMED_READ.finditer(code))
    names = sorted({next(group for group in each.groups() if group is not None) for each in named})
    if len(named) < len(_BARE_READ.findall(code)) or not all(map(VARIABLE_NAME.fullmatch, names)):
        return None
    return names


def static_scopes(code: str) -> list[str] | None:
    """The static data that it reads: `global`, `node`; None: that is computed."""
    calls = list(_STATIC_CALL.finditer(code))
    if len(calls) < len(_STATIC.findall(code)):
        return None
    return sorted({call["scope"] for call in calls})


def kept_name(scope: str, node_id: str) -> str:
    """The variable of the workflow that holds static data."""
    return "n8n.global" if scope == "global" else f"n8n.node.{node_id}"


def keeping_code(code: str, scopes: list[str], *, node_id: str, read: str) -> str:
    """Code around `code`, which reads static data: it gives what that made or why it failed, and what it changed.

    `read` is the variable with what was read.
    """
    names = {scope: kept_name(scope, node_id) for scope in scopes}
    found = ", ".join(
        f"{scope}: ctx[{json.dumps(read)}]?.[{json.dumps(name)}] ?? {{}}" for scope, name in names.items()
    )
    head = (
        f"const $kept = JSON.parse(JSON.stringify({{{found}}})), $names = {json.dumps(names)}, $before = {{}};"
        " for (const scope in $kept) $before[scope] = JSON.stringify($kept[scope]);"
        " const $getWorkflowStaticData = scope => $kept[scope], getWorkflowStaticData = $getWorkflowStaticData;"
        " let $made = null, $fault = null;"
    )
    body = re.sub(r"\bthis\.getWorkflowStaticData\b", "getWorkflowStaticData", code)
    return (
        f"{head} try {{ $made = await (async () => {{\n{body}\n}})(); }}"
        " catch (fault) { $fault = fault?.message ?? String(fault); }\n"
        "const $changed = {};\n"
        "for (const scope in $kept) if (JSON.stringify($kept[scope]) !== $before[scope]) $changed[$names[scope]] ="
        " $kept[scope];\n"
        "return {made: $made, fault: $fault, changed: $changed};"
    )


def made_code(before: str) -> str:
    """Code that gives what code like this made, or fails as it did."""
    return (
        f"const {{made, fault}} = ctx[{json.dumps(before)}];\nif (fault !== null) throw new Error(fault);\nreturn made;"
    )


def each_code(code: str, items: str) -> str:
    """Code for one item, for all items one after the other."""
    return (
        f"const $outer = ctx, $list = {items} ?? [], $all = [];\n"
        "for (let $index = 0; $index < $list.length; $index += 1) $all.push(await (async ctx => {\n"
        f"{code}\n"
        "})({...$outer, item: $list[$index], index: $index}));\n"
        "return $all;"
    )
