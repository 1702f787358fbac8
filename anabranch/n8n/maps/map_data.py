"""Nodes of n8n that work on items: fields, lists, texts, dates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anabranch.n8n.expressions import Phrase
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import going_on
from anabranch.n8n.maps.programs import (
    AGGREGATE,
    GET,
    MERGE,
    PUT,
    SET_WITHIN,
    SOME_FIELDS,
    SORT,
    SPLIT_OUT,
    SUMMARIZE,
    UNIQUE,
)
from anabranch.n8n.refs import ItemFeed, Ref, quoted, variable
from anabranch.n8n.texts import Source, Texts, expression, js_of, split

_TYPES = {"string": "string", "number": "number", "boolean": "boolean", "array": "array", "object": "object",
          "stringValue": "string", "numberValue": "number", "booleanValue": "boolean", "arrayValue": "array",
          "objectValue": "object"}  # fmt: skip


# -- fields ---------------------------------------------------------------------------------------


def set_(job: MappingJob) -> None:
    """`set`, all its versions: fields with values, beside those of the item or in their place."""
    feed, texts = going_on.begin(job), job.texts()
    dots = job.option("options", "dotNotation", default=True) is not False
    if job.fixed("mode", default="manual") == "raw":
        config: dict[str, Any] = {"values": _raw(job, texts)}
        _included(job, config, feed)
    else:
        fields = list(_old_fields(job) if job.node.version < 3 else _new_fields(job))
        keeps = job.option("keepOnlySet") is not True if job.node.version < 3 else False
        config, includes = {"values": {}}, keeps
        if keeps:
            config["base"] = item_of(job, feed)
        elif job.node.version >= 3:
            _included(job, config, feed)
            includes = "base" in config
        computed = [field for field in fields if isinstance(field[0], str) and field[0].startswith("=")]
        if computed and includes:
            raise NotMapped("the name of a field is computed, beside fields that are kept")
        if _is_deep(fields, dots=dots, includes=includes):
            _set_within(job, texts, config, fields)
            return
        config["values"] = _values(job, texts, [field for field in fields if field not in computed], dots=dots)
        if computed:
            config["base"] = _computed(texts, computed, dots=dots)
    if job.error_way == "stop":
        job.add("set", config, each=feed)
        job.leave(files=feed.files if _keeps_files(job, config) else None)
        return
    job.add("set", config, suffix="fields", each=feed, **job.on_error())
    going_on.end_of_each(job)


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
    return dots and any("[" in name or ("." in name and includes) for name in names)


def _set_within(job: MappingJob, texts: Texts, config: dict[str, Any], fields: list[tuple[Any, Any, str]]) -> None:
    """Fields within fields, and items of lists: put there by a code node."""
    if job.error_way != "stop":
        raise NotMapped("it sets fields within fields, and goes on after failures")
    feed = job.needed_feed()
    values = {name: _typed(texts, value, kind) for name, value, kind in fields if name != ""}
    kept = variable(job.add("set", config, suffix="kept", each=feed))
    given = variable(job.add("set", {"values": values}, suffix="fields", each=feed))
    listed = [f"{ref.js} ?? []" if feed.many else f"[{ref.js}]" for ref in (kept, given)]
    code = f"const options = {{}}, kept = {listed[0]}, given = {listed[1]};\n{GET}\n{SET_WITHIN}\n"
    code += "return made;" if feed.many else "return made[0];"
    job.add("javascript", {"code": code}, retry={"maxAttempts": 1})
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
    config["base"] = item_of(job, feed)
    config["keep" if include == "selected" else "drop"] = names


def _old_fields(job: MappingJob) -> list[tuple[Any, Any, str]]:
    made = []
    given = job.option("values", default={})
    for kind, listed in given.items() if isinstance(given, dict) else ():
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                made.append((each.get("name", ""), each.get("value", ""), f"old {kind}"))
    return made


def _new_fields(job: MappingJob) -> list[tuple[Any, Any, str]]:
    made = []
    for each in job.option("assignments", "assignments", default=[]):
        if isinstance(each, dict) and each.get("type") == "binary":
            raise NotMapped("it sets a file")
        if isinstance(each, dict):
            made.append((each.get("name", ""), each.get("value"), _TYPES.get(str(each.get("type", "string")), "any")))
    for each in job.option("fields", "values", default=[]):
        if isinstance(each, dict):
            kind = str(each.get("type", "stringValue"))
            made.append((each.get("name", ""), each.get(kind), _TYPES.get(kind, "any")))
    return made


def _values(job: MappingJob, texts: Texts, fields: list[tuple[Any, Any, str]], *, dots: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value, kind in fields:
        if not isinstance(name, str) or name.startswith("="):
            raise NotMapped("the name of a field is computed")
        if name == "":
            continue
        put_at(made, name.split(".") if dots else [name], _typed(texts, value, kind))
    return made


def _computed(texts: Texts, fields: list[tuple[Any, Any, str]], *, dots: bool) -> str:
    """An object of the fields whose names are computed."""
    puts = "".join(f"put({js_of(name)}, {js_of(value)}, {json.dumps(kind)}); " for name, value, kind in fields)
    said = texts.compute(f"(() => {{ const dots = {json.dumps(dots)};\n{PUT}\n{puts}return made; }})()")
    texts.counts.as_code += sum(str(part).startswith("=") for field in fields for part in field[:2])
    return expression(said.text)


def put_at(into: dict[str, Any], path: list[str], value: Any) -> None:
    """Enter a value into fields within fields. Raises NotMapped."""
    for key in path[:-1]:
        inner = into.setdefault(key, {})
        if not isinstance(inner, dict):
            raise NotMapped("it sets a field within one that is no object")
        into = inner
    if "[" in path[-1]:
        raise NotMapped("it sets an item of a list")
    into[path[-1]] = value


def _typed(texts: Texts, value: Any, kind: str) -> Any:
    """The value of a field that has a type: written ones are converted here, computed ones when it runs."""
    if isinstance(value, str) and value.startswith("="):
        if kind.endswith("string") and len(split(value[1:])) != 1:
            return texts.value(value)
        said = texts.said(value)
        if kind.startswith("old"):
            return expression(said.whole()) if kind != "old string" or said.kind == "text" else expression(
                f"{said.text} | js_text" if said.is_path else f"{said.atom} | otherwise(none) | js_text")  # fmt: skip
        if kind == "any":
            return expression(said.whole())
        if said.kind == "text" and kind == "string":
            return texts_value(said) if said.text.startswith("'") else expression(said.whole())
        if said.is_path:
            return expression(f"{said.text} | js_type({quoted(kind)})")
        return expression(f"{said.atom} | otherwise(none) | js_type({quoted(kind)})")
    return _converted(texts, value, kind.removeprefix("old "))


def texts_value(said: Phrase) -> str:
    """A text that is known, as it is."""
    return expression(said.text)


def _converted(texts: Texts, value: Any, kind: str) -> Any:
    if value is None:
        return None
    try:
        match kind:
            case "number" if isinstance(value, str):
                number = float(value or 0)
                return int(number) if number.is_integer() else number
            case "boolean" if isinstance(value, str):
                return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
            case "array" | "object" if isinstance(value, str):
                return texts.value(json.loads(value))
            case "string" if isinstance(value, bool):
                return str(value).lower()
            case "string" if not isinstance(value, str):
                return json.dumps(value)
    except (ValueError, KeyError, RecursionError):
        raise NotMapped(f"a value is no {kind}") from None
    return texts.value(value)


def _raw(job: MappingJob, texts: Texts) -> Any:
    """An object that is written as JSON, perhaps with expressions in it."""
    return json_of(job.option("jsonOutput", default="{}"), texts)


def json_of(written: Any, texts: Texts) -> Any:
    """JSON text with expressions in it, as a value of ours. Raises NotMapped where it is no JSON."""
    if not isinstance(written, str):
        return texts.value(written)
    if not written.startswith("="):
        return texts.value(_parsed(written))
    pieces = split(written[1:])
    if len(pieces) == 1 and isinstance(pieces[0], Source):
        said = texts.said(written)
        if said.kind == "object":
            return expression(said.whole())
        return expression(f"({said.atom} | js_type('object')) | otherwise({said.value})")
    if not any(isinstance(piece, Source) for piece in pieces):
        return texts.value(_parsed("".join(str(piece) for piece in pieces)))
    said = texts.said(written)
    return expression(f"({said.atom}) | fromjson" if not said.is_atom else f"{said.text} | fromjson")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError):
        raise NotMapped("what it sends or sets is no valid JSON") from None


def rename(job: MappingJob) -> None:
    """`renameKeys`: other names for fields."""
    pairs = job.option("keys", "key", default=[])
    if job.option("additionalOptions", "regexReplacement"):
        raise NotMapped("fields are renamed by a pattern")
    names = {str(each["currentKey"]): str(each["newKey"]) for each in pairs
             if isinstance(each, dict) and each.get("currentKey") and each.get("newKey")}  # fmt: skip
    if any(name.startswith("=") or "." in name for pair in names.items() for name in pair):
        raise NotMapped("the name of a field is computed")
    feed = job.needed_feed()
    job.add("fields", {"source": expression(feed.value.template), "rename": names})
    job.leave()


# -- lists ----------------------------------------------------------------------------------------


def _fields(job: MappingJob, *path: str) -> list[str]:
    """A list of fields, in any of the forms that n8n writes it in."""
    written = job.fixed(*path, default="")
    if isinstance(written, str):
        return [name.strip() for name in written.split(",") if name.strip()]
    listed = written.get("fields", written.get("values", [])) if isinstance(written, dict) else written
    if not isinstance(listed, list):
        raise NotMapped("its fields are computed")
    names = [each.get("fieldName", each.get("field", "")) if isinstance(each, dict) else each for each in listed]
    if any(not isinstance(name, str) or name.startswith("=") for name in names):
        raise NotMapped("the name of a field is computed")
    return [name for name in names if name]


def split_out(job: MappingJob) -> None:
    """`splitOut`: one item for each item of lists in fields."""
    names = [name.removeprefix("$json.") for name in _fields(job, "fieldToSplitOut")]
    into = _fields(job, "options", "destinationFieldName")
    include = job.fixed("include", default="noOtherFields")
    if "$binary" in names or not names:
        raise NotMapped("binary data are split" if names else "it names no field")
    if into and len(into) != len(names):
        raise NotMapped("it has other numbers of fields and of names for them")
    options = {"fields": names, "into": into, "include": include,
               "dots": job.option("options", "disableDotNotation") is not True,
               "other": _fields(job, "fieldsToInclude")}  # fmt: skip
    job.program(f"const options = {json.dumps(options)};\n{GET}\n{SPLIT_OUT}")
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


def aggregate(job: MappingJob) -> None:
    """`aggregate`: one item of all."""
    feed = job.needed_feed()
    if job.option("options", "includeBinaries") is True:
        raise NotMapped("binary data are put together")
    if job.option("options", "groupByFields"):
        raise NotMapped("it makes groups")
    if job.fixed("aggregate", default="aggregateIndividualFields") == "aggregateAllItemData":
        name = str(job.fixed("destinationFieldName", default="data"))
        keep, drop = _fields(job, "fieldsToInclude"), _fields(job, "fieldsToExclude")
        include = job.fixed("include", default="allFields")
        source = expression(feed.items.template)
        if include != "allFields" and (keep or drop):
            job.program(f"const keep = {json.dumps(keep)}, drop = {json.dumps(drop)};\n{SOME_FIELDS}", suffix="fields")
            source = expression(f"ctx.{job.node_id}_fields")
        job.add("set", {"values": {name: source}})
    else:
        wanted = _aggregated(job)
        if not wanted:
            job.always_fails("No fields specified")
            return
        options = {"fields": wanted, "merge": job.option("options", "mergeLists") is True,
                   "keepMissing": job.option("options", "keepMissing") is True,
                   "dots": job.option("options", "disableDotNotation") is not True}  # fmt: skip
        job.program(f"const options = {json.dumps(options)};\n{GET}\n{AGGREGATE}")
    job.leave(many=False, pairing=None)


def _aggregated(job: MappingJob) -> list[list[str]]:
    wanted = []
    for each in job.option("fieldsToAggregate", "fieldToAggregate", default=[]):
        field, name = str(each.get("fieldToAggregate", "")), str(each.get("outputFieldName") or "")
        if field.startswith("=") or name.startswith("="):
            raise NotMapped("the name of a field is computed")
        if field:
            wanted.append([field, name or field.split(".")[-1]])
    return wanted


def sort(job: MappingJob) -> None:
    """`sort`: by fields; at random and by code are not mapped here."""
    if job.fixed("type", default="simple") != "simple":
        raise NotMapped("it sorts at random or by code")
    fields = [each for each in job.option("sortFieldsUi", "sortField", default=[]) if isinstance(each, dict)]
    by = [{"field": str(each.get("fieldName", "")), "order": str(each.get("order", "ascending"))} for each in fields]
    if not fields:
        job.always_fails("No sorting specified. Please add a field to sort by")
        return
    if any(each["field"].startswith("=") or each["order"].startswith("=") for each in by):
        raise NotMapped("what it sorts by is computed")
    options = {"by": by, "dots": job.option("options", "disableDotNotation") is not True}
    job.program(f"const options = {json.dumps(options)};\n{GET}\n{SORT}")
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


def limit(job: MappingJob) -> None:
    """`limit`: the first or the last items."""
    feed = job.needed_feed()
    count = job.texts(per_item=False).value(job.option("maxItems", default=1))
    keep = "last" if job.fixed("keep", default="firstItems") == "lastItems" else "first"
    job.add("limit", {"source": expression(feed.items.template), "count": count, "keep": keep})
    job.leave(many=True, pairing="same" if keep == "first" else None)


def remove_duplicates(job: MappingJob) -> None:
    """`removeDuplicates` within the items of this run."""
    if (
        job.node.version >= 2
        and job.fixed("operation", default="removeDuplicateInputItems") != "removeDuplicateInputItems"
    ):
        raise NotMapped("it remembers items from run to run")
    compare = job.fixed("compare", default="allFields")
    named = "fieldsToCompare" if compare == "selectedFields" else "fieldsToExclude"
    options = {"compare": compare, "fields": [] if compare == "allFields" else _fields(job, named),
               "only": job.option("options", "removeOtherFields") is True,
               "dots": job.option("options", "disableDotNotation") is not True}  # fmt: skip
    job.program(f"const options = {json.dumps(options)};\n{GET}\n{UNIQUE}")
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


def summarize(job: MappingJob) -> None:
    """`summarize`: figures of all items, or of groups."""
    wanted = [each for each in job.option("fieldsToSummarize", "values", default=[]) if isinstance(each, dict)]
    by = _fields(job, "fieldsToSplitBy")
    if not wanted or any(str(value).startswith("=") for each in wanted for value in each.values()):
        raise NotMapped("what it summarizes is computed")
    if job.option("options", "outputFormat", default="separateItems") != "separateItems" and by:
        raise NotMapped("its groups are put into one item")
    options = {"fields": wanted, "by": by, "dots": job.option("options", "disableDotNotation") is not True,
               "skipEmpty": job.option("options", "skipEmptySplitFields") is True}  # fmt: skip
    job.program(f"const options = {json.dumps(options)};\n{GET}\n{SUMMARIZE}")
    made = variable(job.node_id)
    if by:
        job.leave(many=True, pairing=None)
    else:
        job.leave(made.at(Ref("0", "0")), many=False, pairing=None)


def item_lists(job: MappingJob) -> None:
    """`itemLists`: the older node of which the others were made."""
    operation = job.fixed("operation", default="splitOutItems")
    match operation:
        case "splitOutItems":
            split_out(job)
        case "concatenateItems" | "aggregateItems":
            aggregate(job)
        case "removeDuplicates":
            remove_duplicates(job)
        case "sort":
            sort(job)
        case "limit":
            limit(job)
        case "summarize":
            summarize(job)
        case _:
            raise NotMapped(f"the operation {operation}")


def merge(job: MappingJob) -> None:
    """`merge`: the items of several inputs together."""
    mode = _merge_mode(job)
    sources = [job.feeds[place] for place in sorted(job.feeds)]
    if not sources:
        raise NotMapped("nothing flows into it")
    if mode.startswith("input"):
        place = int(mode.removeprefix("input")) - 1
        if place not in job.feeds:
            raise NotMapped("nothing flows into the input that it takes")
        source = job.feeds[place]
        job.add("merge", {"mode": "append", "sources": [expression(source.items.template)]})
        job.leave(many=True, pairing=None)
        return
    if mode == "append":
        job.add("merge", {"mode": "append", "sources": [expression(feed.items.template) for feed in sources]})
        job.leave(many=True, pairing=None)
        return
    clash = job.option("options", "clashHandling", "values", default={})
    options = {
        "mode": mode,
        "unpaired": job.option("options", "includeUnpaired") is True,
        "pairs": _pairs(job),
        "join": _join(job, mode),
        "output": str(job.fixed("outputDataFrom", default="both")),
        "first": job.option("options", "multipleMatches", default="all") == "first",
        "clash": clash.get("resolveClash"),
        "shallow": clash.get("mergeMode") == "shallowMerge",
        "fuzzy": job.option("options", "fuzzyCompare") is True,
        "overwrite": str(job.fixed("overwrite", default="always")),
        "dots": job.option("options", "disableDotNotation") is not True,
    }
    if clash.get("overrideEmpty") or options["overwrite"] != "always" or options["fuzzy"]:
        raise NotMapped("it has rules for fields that both have, or for values that are nearly equal")
    listed = ", ".join(f"{job.feeds[place].items.js} ?? []" for place in sorted(job.feeds))
    missing = "[]" if len(sources) == 1 else ""
    lists = ", ".join(filter(None, [listed, missing]))
    head = f"const $orOne = list => list?.length ? list : [{{}}], lists = [{lists}];"
    code = f"{head}\nconst options = {json.dumps(options)};\n{GET}\n{MERGE}"
    job.add("javascript", {"code": code}, retry={"maxAttempts": 1})
    job.leave(many=True, pairing="same" if mode == "position" else None)


def _merge_mode(job: MappingJob) -> str:
    mode = str(job.fixed("mode", default="append"))
    if job.node.version < 2:
        known = {"append": "append", "passThrough": f"input{str(job.option('output', default='input1'))[-1:]}",
                 "wait": "input1", "mergeByIndex": "position", "mergeByKey": "key", "multiplex": "all",
                 "removeKeyMatches": "key", "keepKeyMatches": "key"}  # fmt: skip
        if mode not in known:
            raise NotMapped(f"the mode {mode}")
        return known[mode]
    match mode:
        case "append":
            return "append"
        case "chooseBranch":
            if job.fixed("output", default="specifiedInput" if job.node.version >= 3 else "input1") == "empty":
                raise NotMapped("it hands on an empty item")
            if job.node.version >= 3:
                return f"input{job.option('useDataOfInput', default=1)}"
            return f"input{str(job.option('output', default='input1'))[-1:]}"
        case "combine":
            default = "combineByFields" if job.node.version >= 3 else "mergeByFields"
            by = str(job.fixed("combineBy", default=job.fixed("combinationMode", default=default)))
            known = {"combineByPosition": "position", "mergeByPosition": "position", "combineAll": "all",
                     "multiplex": "all", "combineByFields": "key", "mergeByFields": "key"}  # fmt: skip
            if by in known:
                return known[by]
    raise NotMapped(f"the mode {mode}")


def _pairs(job: MappingJob) -> list[list[str]]:
    one, other = job.option("propertyName1"), job.option("propertyName2")
    if isinstance(one, str) and isinstance(other, str):
        return [[one, other]]
    listed = job.option("mergeByFields", "values", default=[])
    if listed and isinstance(listed, list):
        return [[str(each.get("field1", "")), str(each.get("field2", ""))] for each in listed if isinstance(each, dict)]
    return [[name, name] for name in _fields(job, "fieldsToMatchString")]


def _join(job: MappingJob, mode: str) -> str:
    if job.node.version >= 2:
        return str(job.fixed("joinMode", default="keepMatches"))
    old = str(job.option("mode", default=""))
    if old == "mergeByIndex":
        return {"inner": "inner", "outer": "outer"}.get(str(job.option("join", default="left")), "left")
    return {"removeKeyMatches": "removeKeyMatches", "keepKeyMatches": "keepKeyMatches"}.get(old, "enrichInput1First")
