"""Nodes of n8n that set and rename the fields of items."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import continue_on_fail
from anabranch.n8n.maps.list_programs import PATHS, RENAME, SET_WITHIN
from anabranch.n8n.maps.programs import (
    GET,
    PUT,
    PUT_BESIDE,
)
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.maps.set_values import FIRST_WITH_TYPES, PROTOTYPE, is_lenient, raw_fields, typed_value
from anabranch.n8n.refs import ItemFeed, no_files, variable
from anabranch.n8n.texts import Source, Texts, expression, js_of, split

_TYPES = {"string": "string", "number": "number", "boolean": "boolean", "array": "array", "object": "object",
          "stringValue": "string", "numberValue": "number", "booleanValue": "boolean", "arrayValue": "array",
          "objectValue": "object"}  # fmt: skip
# What an export leaves out has the value that n8n's editor begins with.
_LEFT_OUT = {"stringValue": "", "numberValue": "", "booleanValue": "true", "arrayValue": "", "objectValue": "{}"}
_WITH_ASSIGNMENTS = 3.3
# A name of JSON with a dot or bracket. Each character is looked at once.
_DEEP_NAME = re.compile(r'"[^".\[]*+[.\[][^"]*+"\s*+:')


# -- fields ---------------------------------------------------------------------------------------


@maps("set", becomes="set")
def set_(job: MappingJob) -> None:
    """`set`, all its versions: fields with values, beside those of the item or in their place."""
    feed, texts = continue_on_fail.begin(job), job.texts()
    dots = job.option("options", "dotNotation", default=True) is not False
    if job.fixed("mode", default="manual") == "raw":
        config: dict[str, Any] = {"values": raw_fields(job, texts)}
        _included(job, config, feed)
        if dots and _names_within(job.option("jsonOutput")):
            _set_within(job, {**config, "values": {}}, config["values"])
            return
    else:
        fields = list(_old_fields(job) if job.node.version < 3 else _new_fields(job))
        if not dots and job.node.version >= FIRST_WITH_TYPES:
            fields = _without_brackets(fields)
        keeps = job.option("keepOnlySet") is not True if job.node.version < 3 else False
        config, includes = {"values": {}}, keeps
        if keeps:
            config["base"] = item_of(job, feed)
        elif job.node.version >= 3:
            _included(job, config, feed)
            includes = "base" in config
        computed = [field for field in fields if isinstance(field[0], str) and field[0].startswith("=")]
        if computed and (is_lenient(job) or job.error_way != "stop"):
            job.differs("a value that cannot be converted fails the run")
        if computed and includes:
            _set_by_name(job, texts, fields, dots=dots)
            return
        if _is_deep(fields, dots=dots, includes=includes):
            _set_within(job, config, {name: typed_value(job, texts, value, kind) for name, value, kind in fields})
            return
        config["values"] = _values(job, texts, [field for field in fields if field not in computed], dots=dots)
        if computed:
            config["base"] = _computed(texts, computed, dots=dots)
    if job.error_way == "stop":
        job.add("set", config, each=feed)
        job.leave(files=feed.files if _keeps_files(job, config) else no_files(many=feed.many))
        return
    job.add("set", config, suffix="fields", each=feed, **job.on_error())
    continue_on_fail.end_of_each(job)


def _keeps_files(job: MappingJob, config: Mapping[str, Any]) -> bool:
    """Whether the files of an item go on behind it."""
    if job.node.version < 3:
        return job.option("keepOnlySet") is not True
    if job.node.version < 3.4:
        return job.option("options", "includeBinary") is True
    return "base" in config and job.option("options", "stripBinary") is not True


def _is_deep(fields: list[tuple[Any, Any, str]], *, dots: bool, includes: bool) -> bool:
    """Whether fields are set within fields, in a way that no object of values can say."""
    names = [name for name, _, _ in fields if isinstance(name, str) and not name.startswith("=")]
    is_odd = re.compile(r"\[|(?:^|\.)(?:[0-9]*)(?:\.|$)").search
    return dots and any("[" in name or ("." in name and (includes or is_odd(name))) for name in names)


def _names_within(written: Any) -> bool:
    """Whether JSON may name fields within fields."""
    text = written if isinstance(written, str) else json.dumps(written)
    # An expression within a name may give a dot, and may have quotes of its own.
    named = "".join("." if isinstance(piece, Source) else piece for piece in split(text))
    return any(_DEEP_NAME.search(each) is not None for each in (text, named))


def _set_within(job: MappingJob, config: dict[str, Any], values: Any) -> None:
    """Fields within fields, and items of lists: put there by a code node."""
    if job.error_way != "stop":
        raise NotMapped("it sets fields within fields, and goes on after failures")
    feed = job.needed_feed()
    kept = variable(job.add("set", config, suffix="kept", each=feed))
    given = variable(job.add("set", {"values": values}, suffix="fields", each=feed))
    listed = [f"{ref.js} ?? []" if feed.many else f"[{ref.js}]" for ref in (kept, given)]
    code = f"const options = {{}}, kept = {listed[0]}, given = {listed[1]};\n{PATHS}{SET_WITHIN}\n"
    code += "return made;" if feed.many else "return made[0];"
    job.add("javascript", {"code": code}, retry={"maxAttempts": 1})
    job.leave()


def _set_by_name(job: MappingJob, texts: Texts, fields: list[tuple[Any, Any, str]], *, dots: bool) -> None:
    """Fields of which a name is computed, beside all those of the item, as they are once the names are computed."""
    if job.error_way != "stop" or (job.node.version >= 3 and job.fixed("include", default="all") != "all"):
        raise NotMapped("the name of a field is computed, beside fields that are kept")
    puts = "".join(f"put({js_of(name)}, {js_of(value)}, {json.dumps(kind)}); " for name, value, kind in fields)
    options = json.dumps({"dots": dots})
    phrase = texts.compute(
        f"(() => {{ const options = {options};\n{GET}\n{PUT_BESIDE}\n{puts}return whole($json); }})()"
    )
    texts.counts.as_code += sum(str(part).startswith("=") for field in fields for part in field[:2])
    job.add("set", {"base": expression(phrase.text), "values": {}}, each=job.needed_feed())
    job.leave()


def item_of(job: MappingJob, feed: ItemFeed) -> str:
    """The item, as a template."""
    return "{{ctx.item}}" if feed.many else expression(feed.value.template)


def _included(job: MappingJob, config: dict[str, Any], feed: ItemFeed) -> None:
    """The other fields of the item, as an option says."""
    default = "all" if job.node.version < 3.3 and job.node.version >= 3 else "none"
    if job.node.version >= 3.3:
        include = "none"
        if job.fixed("includeOtherFields", default=False) is True:
            include = str(job.fixed("include", default="all"))
    else:
        include = str(job.fixed("include", default=default)) if job.node.version >= 3 else "none"
    if include == "none":
        return
    if include == "all":
        config["base"] = item_of(job, feed)
        return
    named = job.fixed("includeFields" if include == "selected" else "excludeFields", default="")
    names = [name.strip() for name in str(named).split(",") if name.strip()]
    if job.option("options", "dotNotation", default=True) is not False and any("." in n or "[" in n for n in names):
        job.differs("fields within fields are neither kept nor left out by their names")
    config["base"] = item_of(job, feed)
    config["keep" if include == "selected" else "drop"] = names


def _old_fields(job: MappingJob) -> list[tuple[Any, Any, str]]:
    made = []
    given = job.option("values", default={})
    for kind in ("boolean", "number", "string"):
        listed = given.get(kind) if isinstance(given, dict) else None
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                made.append((each.get("name", ""), each.get("value", ""), f"old {kind}"))
    return [field for field in made if field[0] != PROTOTYPE]


def _new_fields(job: MappingJob) -> list[tuple[Any, Any, str]]:
    made = []
    for each in job.option("assignments", "assignments", default=[]):
        if isinstance(each, dict) and each.get("type") == "binary":
            raise NotMapped("it sets a file")
        if isinstance(each, dict):
            if "value" not in each and job.node.version >= _WITH_ASSIGNMENTS:
                job.differs("a field that is given no value is null, where n8n may fail")
            made.append((each.get("name", ""), each.get("value"), _TYPES.get(str(each.get("type", "string")), "any")))
    for each in job.option("fields", "values", default=[]):
        if isinstance(each, dict):
            kind = str(each.get("type", "stringValue"))
            made.append((each.get("name", ""), each.get(kind, _LEFT_OUT.get(kind)), _TYPES.get(kind, "any")))
    return [field for field in made if field[0] != PROTOTYPE]


def _without_brackets(fields: list[tuple[Any, Any, str]]) -> list[tuple[Any, Any, str]]:
    """The fields of names that are not paths: brackets and quotes around a name are not part of it."""
    bare = re.compile(r"\['.*'\]|\[\".*\"\]", re.DOTALL)
    return [(name[2:-2] if isinstance(name, str) and bare.fullmatch(name) else name, *rest) for name, *rest in fields]


def _values(job: MappingJob, texts: Texts, fields: list[tuple[Any, Any, str]], *, dots: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value, kind in fields:
        if not isinstance(name, str) or name.startswith("="):
            raise NotMapped("the name of a field is computed")
        made_value = typed_value(job, texts, value, kind)
        if dots:
            put_at(made, name.split("."), made_value)
        else:
            made[name] = made_value
    return made


def _computed(texts: Texts, fields: list[tuple[Any, Any, str]], *, dots: bool) -> str:
    """An object of the fields whose names are computed."""
    puts = "".join(f"put({js_of(name)}, {js_of(value)}, {json.dumps(kind)}); " for name, value, kind in fields)
    phrase = texts.compute(f"(() => {{ const dots = {json.dumps(dots)};\n{PUT}\n{puts}return made; }})()")
    texts.counts.as_code += sum(str(part).startswith("=") for field in fields for part in field[:2])
    return expression(phrase.text)


def put_at(into: dict[str, Any], path: list[str], value: Any) -> None:
    """Enter a value into fields within fields. Raises NotMapped."""
    if PROTOTYPE in path:
        raise NotMapped(f"a field has the name {PROTOTYPE}")
    for key in path[:-1]:
        inner = into.setdefault(key, {})
        if not isinstance(inner, dict):
            raise NotMapped("it sets a field within one that is not an object")
        into = inner
    if "[" in path[-1]:
        raise NotMapped("it sets an item of a list")
    into[path[-1]] = value


@maps("renameKeys", becomes="javascript")
def rename(job: MappingJob) -> None:
    """`renameKeys`: other names for fields, one after the other, behind the other fields."""
    if job.option("additionalOptions", "regexReplacement"):
        raise NotMapped("fields are renamed by a pattern")
    pairs = [[str(each.get("currentKey", "")), str(each.get("newKey", ""))]
             for each in job.option("keys", "key", default=[]) if isinstance(each, dict)]  # fmt: skip
    if any(name.startswith("=") for pair in pairs for name in pair):
        raise NotMapped("the name of a field is computed")
    options = {"pairs": [pair for pair in pairs if all(pair) and pair[0] != pair[1]]}
    job.program(f"const options = {json.dumps(options)};\n{RENAME}{'' if job.is_mapped else '[0]'};")
    job.leave(files=job.needed_feed().files)
