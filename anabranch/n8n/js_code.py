"""Code of n8n as code of ours: the names that n8n gives its code, bound to the same values by a small prelude.

Pure. Called by the mapping of code nodes, and for expressions that templates cannot say. The prelude is ordinary code
in front of the user's, in the same sealed process: it gives no way out that code does not have anyway.
"""

# ruff: noqa: E501 - lines of JavaScript
from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.n8n.javascript import prelude
from anabranch.n8n.refs import ItemFeed, Ref
from anabranch.n8n.time_zones import zones_code

EXTENSIONS = ("isNumeric", "toSentenceCase", "toSnakeCase", "removeTags", "urlEncode", "urlDecode", "base64Encode",
              "base64Decode", "quote", "toBoolean", "parseJson", "toJsonString", "round", "floor", "ceil", "abs",
              "isInteger", "isEven", "isOdd", "first", "last", "sum", "compact", "chunk", "append",
              "removeMarkdown", "pluck", "unique", "union", "difference", "intersection", "average", "max", "min")  # fmt: skip
"""What n8n's expressions have beside JavaScript, and the prelude of expressions gives."""

VARIABLES = "$vars"
"""In place of the name of a node: what variables it reads."""

ZONES = "$zones"
"""In the same way: the time zones of dates."""

_MODULES = {"crypto": "$crypto", "luxon": "{DateTime, Duration}", "buffer": "{Buffer}"}
_VALUE = "const $value = f => { try { return f() ?? null } catch (fault) { if (fault?.$unpaired || fault?.fails) throw fault; return null; } };"
_DATES = (
    "if (typeof DateTime !== 'undefined') { DateTime.prototype.format = DateTime.prototype.toFormat;"
    " for (const way of ['plus', 'minus']) { const native = DateTime.prototype[way];"
    " DateTime.prototype[way] = function (amount, unit) {"
    " return native.call(this, unit === undefined ? amount : {[unit]: Number(amount)}); }; } }"
)
_CLONE = "const $copy = v => v === undefined ? undefined : JSON.parse(JSON.stringify(v));"
_WRAP = (
    "const $wrap = (list, files) => (list ?? []).map((json, item) =>"
    " ({json: $copy(json), ...(files?.[item] ? {binary: $copy(files[item])} : {}), pairedItem: {item}}));"
)
_FILE_HELPERS = (
    "const fileHelpers = {prepareBinaryData: async (data, path, type) => $files.made(data, path, type),"
    " getBinaryDataBuffer: async (index, name) => { const file = items[index]?.binary?.[name]; if (!file)"
    " throw new Error(`The item has no binary field '${name}' [item ${index}]`);"
    " return Buffer.from(file.data, 'base64'); }};"
)
_PAIRS = (
    "const $pairs = (list, at) => { const found = list?.[at]; if (typeof found === 'number') return found;"
    " throw Object.assign(new Error('Which item of the node belongs to this one is not known'), {$unpaired: true}); };"
)
# As n8n follows which item belongs to which: `ways` has for each input of a node `[what is there, step]` of its ways.
_TRACE = (
    "const $trace = (ways, from, at) => { const unknown = () => Object.assign("
    "new Error('Which item of the node belongs to this one is not known'), {$unpaired: true});"
    # What never came by the node: in n8n an error of JavaScript, which leaves an expression without a value.
    " const nowhere = () => Object.assign(new Error('This item did not come by way of the node'), {$nowhere: true});"
    " const follow = (name, input, at) => { if (typeof at !== 'number') throw unknown();"
    " if (input >= ways[name].length) throw nowhere(); for (const [there, step] of ways[name][input]) {"
    " const found = there(); if (found === null) continue;"
    " if (typeof found === 'number' && at >= found) { at -= found; continue; } const [node, pair] = step(at);"
    " if (node === null) { if (pair === null || pair === undefined) throw unknown(); return pair; } const faults = [];"
    " const items = [pair].flat().flatMap(each => { try { return [each !== null && typeof each === 'object'"
    " ? follow(node, each.input ?? 0, each.item) : follow(node, 0, each)]; }"
    " catch (fault) { if (!fault?.$unpaired && !fault?.$nowhere) throw fault; faults.push(fault); return []; } });"
    " if (!items.length) throw faults[0] ?? unknown();"
    " if (items.some(each => each !== items[0])) throw unknown(); return items[0]; }"
    " throw unknown(); }; return follow(from, 0, at); };"
)
# As n8n pairs what code returns: by what an item says, with the only item, or by number where they are as many.
_PAIR = (
    "const $named = pair => Array.isArray(pair) ? (new Set(pair.map($named)).size === 1 ? $named(pair[0]) : null)"
    " : typeof pair === 'number' ? pair : pair?.input ? null : pair?.item ?? null; "
    "const $pair = made => made.map((each, at) => $others.has(each) ? null"
    " : each?.pairedItem !== undefined ? $named(each.pairedItem)"
    " : items.length === 1 ? 0 : made.length === items.length ? at : null);"
)
_INPUT = (
    "const $input = {all: () => items, first: () => items[0], last: () => items[items.length - 1],"
    " item: $current, json: $current?.json, itemMatching: i => items[i]};"
)
_NODE_BY_NAME = (
    "const $ = name => { if (!Object.hasOwn($known, name)) throw new Error(`there is no node ${name} here`);"
    " const [list, one, files, file] = $known[name](); const all = $wrap(list, files);"
    " all.forEach(each => $others.add(each));"
    " return {all: () => all, first: () => all[0], last: () => all[all.length - 1],"
    " get item() { const json = $copy(one()), binary = file?.(); return {json, ...(binary ? {binary: $copy(binary)} : {})}; },"
    " itemMatching: i => all[i], isExecuted: (list ?? []).some(each => each !== undefined && each !== null),"
    " get json() { return this.item?.json; }, get data() { return this.item?.json; }}; };"
)
_NODES = (
    "const $node = new Proxy({}, {get: (_, name) => { const node = $(name), all = node.all();"
    " const at = all.length === 1 ? all[0] : all[$itemIndex];"
    " return Object.create(node, {item: {get: () => at}, json: {get: () => at?.json},"
    " data: {get: () => at?.json}, binary: {get: () => at?.binary}}); }});"
)
_ITEM_OF_NODE = (
    "const $item = () => ({$node: new Proxy({}, {get: (_, name) =>"
    " ({json: $(name).first()?.json, data: $(name).first()?.json})})});"
)
_OR_ONE = "const $none = [{}], $orOne = list => list?.length ? list : $none;"


def value_code(
    sources: Mapping[str, str],
    item: Ref,
    names: Mapping[str, tuple[Ref, Ref | None]],
    index: Ref | None,
    items: Ref,
) -> str:
    """A code node's code for the values of expressions: an object of them, null where one fails."""
    return f"{_prelude(' '.join(sources.values()), item, items, names, index, of_expressions=True)} {_VALUE}\nreturn {_values(sources)};"


def values_code(
    sources: Mapping[str, str], feed: ItemFeed, names: Mapping[str, tuple[Ref, Ref | None]], head: str, tail: str
) -> str:
    """Code that has the values of expressions in `values`: behind `head`, which they read, and before `tail`."""
    prelude_ = _prelude(" ".join(sources.values()), feed.first, feed.items, names, None, of_expressions=True)
    return f"{prelude_} {_VALUE}\n{head}const values = {_values(sources)};\n{tail}"


def _values(sources: Mapping[str, str]) -> str:
    body = ",\n".join(f"  {json.dumps(name)}: $value(() => (\n{js}\n))" for name, js in sources.items())
    return f"{{\n{body}\n}}"


def items_code(
    code: str,
    feed: ItemFeed,
    names: Mapping[str, tuple[Ref, Ref | None]],
    *,
    catches: bool = False,
    pairs: bool = False,
    files: Ref | None = None,
    files_of: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """Code that runs once for all items and returns items. `catches`: one with the error, if it fails.

    `pairs`: it returns `{items, of}`, with the number of the item that each belongs to, or null.

    With `files`, those of the items, it returns `{items, files}`. `files_of`: the files of other nodes as JavaScript,
    all and those of the one item.
    """
    used = f"{code} items $others" if pairs else code
    head = _prelude(used, feed.first, feed.items, names, None, files=files, files_of=files_of)
    if pairs:
        head = f"{head} {_PAIR}"
    tail = (
        "const $one = each => { if (each === null || typeof each !== 'object' || Array.isArray(each))"
        " throw new Error('an item is not an object'); return each.json && typeof each.json === 'object' ? each.json : each; };"
    )
    before, after = (
        ("try {", "} catch (fault) { return [{error: fault?.message ?? String(fault)}]; }") if catches else ("", "")
    )
    if files is not None:
        return (
            f"{head} {tail}\nconst $result = await (async () => {{\n{code}\n}})();\n"
            "const $made = [$result ?? []].flat();\n"
            f"return {{{'of: $pair($made), ' if pairs else ''}items: $made.map($one),"
            " files: $made.map(each => each.binary ?? null)};"
        )
    listed = "($result === undefined || $result === null ? [] : Array.isArray($result) ? $result : [$result])"
    answer = f"return {listed}.map($one);"
    if pairs:
        answer = f"const $made = {listed};\nreturn {{items: $made.map($one), of: $pair($made)}};"
        after = after.replace(
            "return [{error: fault?.message ?? String(fault)}];",
            "return {items: [{error: fault?.message ?? String(fault)}], of: $pair([{}])};",
        )
    return f"{head} {tail}\n{before}const $result = await (async () => {{\n{code}\n}})();\n{answer}{after}"


def item_code(
    code: str, item: Ref, names: Mapping[str, tuple[Ref, Ref | None]], index: Ref | None, *, may_leave_out: bool = False
) -> str:
    """Code that runs once for each item and returns one. `may_leave_out`: or null in place of an item."""
    head = _prelude(code + "$input", item, item.listed(), names, index)
    return (
        f"{head} const item = $input.item;\nconst $result = await (async () => {{\n{code}\n}})();\n{'if ($result === null) return null;' if may_leave_out else ''}"
        'if (Array.isArray($result)) throw new Error("Code doesn\'t return a single object");\nconst $one = $result;\n'
        "if ($one === null || typeof $one !== 'object') throw new Error('the code returned no item');\n"
        "return $one.json && typeof $one.json === 'object' ? $one.json : $one;"
    )


def _require(source: str) -> str:
    """The modules that it may load."""
    named = ", ".join(f"{name}: {value}" for name, value in _MODULES.items() if name in source)
    return f"const require = name => ({{{named}}})[name.replace('node:', '')];"


def _known(names: Mapping[str, tuple[Ref, Ref | None]], files_of: Mapping[str, tuple[str, str]]) -> str:
    """The items of other nodes, and their files, by the names of these."""
    known = ", ".join(
        f"{json.dumps(name)}: () => [{everything.js}, () => {'$pairs()' if one is None else one.js}"
        + (f", {files_of[name][0]}, () => {files_of[name][1]}" if name in files_of else "")
        + "]"
        for name, (everything, one) in names.items()
        if name not in (VARIABLES, ZONES)
    )
    return f"const $known = {{{known}}};"


def _prelude(
    source: str,
    item: Ref,
    items: Ref,
    names: Mapping[str, tuple[Ref, Ref | None]],
    index: Ref | None,
    *,
    of_expressions: bool = False,
    files: Ref | None = None,
    files_of: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """The names that the source uses."""
    variables = names[VARIABLES][0].js if VARIABLES in names else "{}"
    parts = [
        (prelude("buffer"), ("Buffer", "btoa", "atob", "TextEncoder", "TextDecoder")),
        (prelude("crypto"), ("$crypto",)),
        (names[ZONES][0].js if ZONES in names else zones_code("UTC", ()), ("$zone",)),
        (prelude("luxon"), ("DateTime", "Duration", "$now", "$today", "luxon")),
        (_require(source), ("require(", "require (")),
        (prelude("american"), (".toLocale", "Intl")),
        (prelude("values"), ("$n8n.",)),
        (prelude("extensions"), tuple(f".{name}(" for name in EXTENSIONS) if of_expressions else ()),
        (_DATES, (".format(", ".plus(", ".minus(") if of_expressions else ()),
        (_CLONE, ("$copy",)),
        (_WRAP, ("$wrap",)),
        (_OR_ONE, ("$orOne",)),
        (f"const $itemIndex = {'0' if index is None else index.js};", ("$itemIndex",)),
        ("const $position = $itemIndex;", ("$position",)),
        ("const $runIndex = 0;", ("$runIndex",)),
        (prelude("files"), ("$files",)),
        (_FILE_HELPERS, ("fileHelpers",)),
        (f"const items = $wrap({items.js}{f', {files.js}' if files else ''});", ("items",)),
        (
            "const $current = items[0] ?? {json: {}};"
            if files
            else f"const $current = {{json: $copy({item.js}) ?? {{}}}};",
            ("$current",),
        ),
        ("const $binary = $current?.binary ?? {};", ("$binary",)),
        ("const $json = $current.json;", ("$json",)),
        ("const $data = $json;", ("$data",)),
        (_INPUT, ("$input",)),
        ("const $others = new WeakSet();", ("$others",)),
        (_PAIRS, ("$pairs",)),
        (_TRACE, ("$trace",)),
        (_known(names, files_of or {}), ("$known",)),
        (_NODE_BY_NAME, ("$(",)),
        (f"const $vars = {variables} ?? {{}};", ("$vars",)),
        ("const $env = $vars;", ("$env",)),
        (_NODES, ("$node",)),
        ("const $items = name => name === undefined ? items : $(name).all();", ("$items",)),
        (prelude("conditions"), ("n8nPasses",)),
        (_ITEM_OF_NODE, ("$item(",)),
        ("const $if = (test, chosen, other) => test ? chosen : other;", ("$if(",) if of_expressions else ()),
        (
            "const $ifEmpty = (value, other) => value === undefined || value === null || value === ''"
            " || (typeof value === 'object' && !Object.keys(value).length) ? other : value;",
            ("$ifEmpty(",) if of_expressions else (),
        ),
        ("const $execution = {id: ctx[\"run\"]?.id, mode: 'production'};", ("$execution",)),
    ]
    used = source
    lines: list[str] = []
    for line, names_in_it in reversed(parts):
        if any(name in used for name in names_in_it):
            lines.insert(0, line)
            used += line
    return "// The names of n8n, bound to what this node gets.\n" + " ".join(line.rstrip() for line in lines)
