"""Nodes of n8n that work on items: fields, lists, texts, dates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anabranch.n8n.dates import format_of
from anabranch.n8n.expressions import Phrase
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import going_on
from anabranch.n8n.maps.programs import (
    AGGREGATE,
    GET,
    HTML_VALUES,
    MERGE,
    PUT,
    SET_WITHIN,
    SOME_FIELDS,
    SORT,
    SPLIT_OUT,
    SUMMARIZE,
    UNIQUE,
)
from anabranch.n8n.refs import INDEX, ItemFeed, Ref, quoted, variable
from anabranch.n8n.texts import Source, Texts, expression, js_of, split

_TYPES = {"string": "string", "number": "number", "boolean": "boolean", "array": "array", "object": "object",
          "stringValue": "string", "numberValue": "number", "booleanValue": "boolean", "arrayValue": "array",
          "objectValue": "object"}  # fmt: skip


# -- fields ---------------------------------------------------------------------------------------


def set_(job: MappingJob) -> None:
    """`set`, all its versions: fields with values, beside those of the item or in their place."""
    feed, texts = going_on.begin(job), job.texts()
    dots = job.option("options", "dotNotation", default=True) is not False
    if job.option("options", "includeBinary") is True:
        job.remarks.append("binary data do not flow here")
    if job.fixed("mode", default="manual") == "raw":
        config: dict[str, Any] = {"values": _raw(job, texts)}
        _included(job, config, feed)
    else:
        fields = list(_old_fields(job) if job.node.version < 3 else _new_fields(job))
        keeps = job.option("keepOnlySet") is not True if job.node.version < 3 else False
        config, includes = {"values": {}}, keeps
        if keeps:
            config["base"] = _item(job, feed)
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
        job.leave()
        return
    job.add("set", config, suffix="fields", each=feed, **job.on_error())
    going_on.end_of_each(job)


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


def _item(job: MappingJob, feed: ItemFeed) -> str:
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
        config["base"] = _item(job, feed)
        return
    named = job.fixed("includeFields" if include == "selected" else "excludeFields", default="")
    names = [name.strip() for name in str(named).split(",") if name.strip()]
    config["base"] = _item(job, feed)
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
        _put(made, name.split(".") if dots else [name], _typed(texts, value, kind))
    return made


def _computed(texts: Texts, fields: list[tuple[Any, Any, str]], *, dots: bool) -> str:
    """An object of the fields whose names are computed."""
    puts = "".join(f"put({js_of(name)}, {js_of(value)}, {json.dumps(kind)}); " for name, value, kind in fields)
    said = texts.compute(f"(() => {{ const dots = {json.dumps(dots)};\n{PUT}\n{puts}return made; }})()")
    texts.counts.as_code += sum(str(part).startswith("=") for field in fields for part in field[:2])
    return expression(said.text)


def _put(into: dict[str, Any], path: list[str], value: Any) -> None:
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
            _always_fails(job, "No fields specified")
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


def _always_fails(job: MappingJob, message: str) -> None:
    """A node that fails in n8n, too, as it is written."""
    if job.error_way != "stop":
        raise NotMapped(message)
    job.add("stopWithError", {"message": message}, writes=False)
    job.remarks.append("as it is written, it fails in n8n, too")


def sort(job: MappingJob) -> None:
    """`sort`: by fields; at random and by code are not mapped here."""
    if job.fixed("type", default="simple") != "simple":
        raise NotMapped("it sorts at random or by code")
    fields = [each for each in job.option("sortFieldsUi", "sortField", default=[]) if isinstance(each, dict)]
    by = [{"field": str(each.get("fieldName", "")), "order": str(each.get("order", "ascending"))} for each in fields]
    if not fields:
        _always_fails(job, "No sorting specified. Please add a field to sort by")
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


# -- texts and dates ------------------------------------------------------------------------------


def html(job: MappingJob) -> None:
    """`html`, `htmlExtract`: parts of a page by CSS selectors, or a page of a template."""
    operation = job.fixed(
        "operation", default="generateHtmlTemplate" if job.node.kind == "html" else "extractHtmlContent"
    )
    texts, feed = job.texts(), job.needed_feed()
    if operation == "generateHtmlTemplate":
        written = job.option("html", default="")
        page = texts.text(written if isinstance(written, str) and written.startswith("=") else f"={written}")
        job.add("set", {"values": {"html": page}}, each=feed)
        job.leave()
        return
    if operation != "extractHtmlContent":
        raise NotMapped("it makes a table")
    if job.fixed("sourceData", default="json") != "json":
        raise NotMapped("it reads a file")
    source = _field_of_item(job, feed, str(job.fixed("dataPropertyName", default="data")))
    values: dict[str, Any] = {}
    wanted = job.option("extractionValues", "values", default=[])
    for each in wanted:
        name, selector = str(each.get("key", "")), str(each.get("cssSelector", ""))
        if name.startswith("=") or selector.startswith("="):
            raise NotMapped("what it extracts is computed")
        take = str(each.get("returnValue", "text"))
        value: dict[str, Any] = {"selector": selector, "take": "attribute" if take in ("attribute", "value") else take}
        if take in ("attribute", "value"):
            value["attribute"] = "value" if take == "value" else str(each.get("attribute", ""))
            if not value["attribute"]:
                raise NotMapped("it takes an attribute without a name")
        if not selector:
            raise NotMapped("it extracts by no selector")
        if each.get("returnArray") is True:
            value["all"] = True
        if each.get("skipSelectors"):
            job.differs("text of parts that are to be skipped is not left out")
        values[name] = value
    if any(value["take"] == "html" for value in values.values()):
        job.differs("HTML that is taken is written in another way")
    if job.node.kind == "html" and job.node.version > 1.1 and any(value["take"] == "text" for value in values.values()):
        job.differs("text is what stands in the elements, without the links, marks and line breaks that n8n adds")
    given = job.option("options", default={})
    options = {"trim": given.get("trimValues") is True, "clean": given.get("cleanUpText") is True,
               "attributes": [name for name, value in values.items() if value["take"] == "attribute"]}  # fmt: skip
    for value in values.values():
        value["trim"] = False
    job.add("html", {"source": source, "values": values}, suffix="found", each=feed)
    found = variable(job.nodes[-1]["id"])
    listed = f"{found.js} ?? []" if feed.many else f"[{found.js}]"
    code = f"const found = {listed}, options = {json.dumps(options)};\n{HTML_VALUES}\n"
    job.add(
        "javascript", {"code": code + ("return made;" if feed.many else "return made[0];")}, retry={"maxAttempts": 1}
    )
    job.leave()


def _field_of_item(job: MappingJob, feed: ItemFeed, name: str) -> str:
    item = Ref("ctx.item", "") if feed.many else feed.value
    keys = name.split(".")
    for key in keys:
        item = item.field(key)
    return expression(item.template)


def markdown(job: MappingJob) -> None:
    """`markdown`: to HTML or from it."""
    texts, feed = job.texts(), job.needed_feed()
    to_html = job.fixed("mode", default="htmlToMarkdown") == "markdownToHtml"
    source = texts.text(job.option("markdown" if to_html else "html", default=""))
    key = str(job.fixed("destinationKey", default="data"))
    if [name for name in job.option("options", default={}) if name not in ("completeHTMLDocument",)]:
        job.differs("options of the conversion have no counterpart")
    job.add("markdown", {"operation": "toHtml" if to_html else "fromHtml", "source": source}, suffix="text", each=feed)
    job.differs("blanks and the writing of lists and headings are not those of n8n's converter")
    _put_beside(job, feed, key)


def _put_beside(job: MappingJob, feed: ItemFeed, key: str, *, include: bool = True) -> None:
    """The result of the node before, in a field of the item."""
    before = variable(job.nodes[-1]["id"])
    result = before.at(INDEX) if feed.many else before
    config: dict[str, Any] = {"values": {}}
    _put(config["values"], key.split("."), expression(result.template))
    if include:
        if "." in key:
            raise NotMapped("it sets a field within one that it keeps")
        config["base"] = _item(job, feed)
    job.add("set", config, each=feed)
    job.leave()


def xml(job: MappingJob) -> None:
    """`xml`: to JSON or from it."""
    feed = job.needed_feed()
    name = str(job.fixed("dataPropertyName", default="data"))
    options: Mapping[str, Any] = job.option("options", default={})
    if job.fixed("mode", default="xmlToJson") != "xmlToJson":
        job.differs("declaration and blanks are written in another way")
        job.add(
            "xml", {"operation": "write", "source": _item(job, feed), "attributePrefix": "$"}, suffix="text", each=feed
        )
        _put_beside(job, feed, name, include=False)
        return
    merged = options.get("mergeAttrs", True) is not False
    if not merged or options.get("explicitRoot") is False or options.get("normalizeTags") or options.get("ignoreAttrs"):
        job.differs("attributes and names of elements are written in another way")
    config = {"operation": "parse", "source": _field_of_item(job, feed, name), "attributePrefix": "", "textKey": "_",
              "alwaysLists": options.get("explicitArray") is True}  # fmt: skip
    job.add("xml", config, each=feed)
    job.leave()


_HASHES = {"MD5": "md5", "SHA1": "sha1", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512",
           "SHA3-256": "sha3-256", "SHA3-512": "sha3-512"}  # fmt: skip


def crypto(job: MappingJob) -> None:
    """`crypto`: hashes, signatures with a shared key, random values."""
    texts, feed = job.texts(), job.needed_feed()
    action, key = job.fixed("action", default="hash"), str(job.fixed("dataPropertyName", default="data"))
    if job.option("binaryData") is True:
        raise NotMapped("it reads a file")
    config: dict[str, Any]
    match action:
        case "generate" if job.fixed("encodingType", default="uuid") == "uuid":
            config = {"operation": "uuid"}
        case "generate":
            form, length = job.fixed("encodingType", default="uuid"), job.option("stringLength", default=32)
            if form not in ("hex", "base64") or not isinstance(length, int):
                raise NotMapped("a random text of this form")
            job.differs("the random text has twice as many characters as bytes")
            config = {"operation": "random", "bytes": length, "encoding": str(form)}
        case "hash" | "hmac":
            algorithm = _HASHES.get(str(job.fixed("type", default="MD5")))
            if algorithm is None:
                raise NotMapped("the algorithm is computed, or is not known here")
            config = {"operation": action, "algorithm": algorithm,
                      "encoding": str(job.fixed("encoding", default="hex")).lower(),
                      "source": texts.text(job.option("value", default=""))}  # fmt: skip
            if action == "hmac":
                (name,) = job.secret("crypto", "key")
                config["key"] = f"{{{{secret.{name}}}}}"
                job.remarks.append("its key becomes a secret: enter it")
        case _:
            raise NotMapped("it signs with a private key")
    job.add("crypto", config, suffix="value", each=feed)
    _put_beside(job, feed, key)


def date_time(job: MappingJob) -> None:
    """`dateTime`: the present, formats, sums and differences of dates."""
    if job.node.version < 2:
        _old_date_time(job)
        return
    texts, feed = job.texts(), job.needed_feed()
    operation = job.fixed("operation", default="getCurrentDate")
    include = job.option("options", "includeInputFields") is True
    zone = job.fixed("options", "timezone", default=job.around.timezone)
    zone = zone if isinstance(zone, str) else job.around.timezone
    name = str(job.fixed("outputFieldName", default=_DATE_FIELDS.get(str(operation), "newDate")))
    config: dict[str, Any] = {"timezone": zone}
    match operation:
        case "getCurrentDate":
            said = (
                "now"
                if job.option("includeTime", default=True) is not False
                else f"now | date_start('day', {quoted(zone)})"
            )
            values = {name: expression(said)}
            job.add("set", {"values": values} | ({"base": _item(job, feed)} if include else {}), each=feed)
            job.leave()
            return
        case "formatDate":
            config |= {
                "operation": "format",
                "source": texts.value(job.option("date", default="")),
                "format": _format(job),
            }
        case "addToDate" | "subtractFromDate":
            amount = texts.said(job.option("duration", default=0))
            whole = f"({amount.as_number()} | int)"
            config |= {
                "operation": "add",
                "source": texts.value(job.option("magnitude", default="")),
                "amount": expression(whole if operation == "addToDate" else f"0 - {whole}"),
                "unit": str(job.fixed("timeUnit", default="days")),
            }
        case "getTimeBetweenDates":
            units = job.option("units", default=["day"])
            if not isinstance(units, list) or len(units) != 1:
                raise NotMapped("a difference in several units")
            config |= {"operation": "difference", "source": texts.value(job.option("endDate", default="")),
                       "other": texts.value(job.option("startDate", default="")),
                       "unit": f"{str(units[0]).rstrip('s')}s"}  # fmt: skip
            job.add("dateTime", config, suffix="value", each=feed)
            unit = config["unit"]
            before = variable(job.nodes[-1]["id"])
            result = before.at(INDEX) if feed.many else before
            between: dict[str, Any] = {name: {unit: expression(result.template)}}
            job.add("set", {"values": between} | ({"base": _item(job, feed)} if include else {}), each=feed)
            job.leave()
            return
        case "extractDate" | "roundDate":
            raise NotMapped(f"the operation {operation}")
        case _:
            raise NotMapped(f"the operation {operation}")
    job.add("dateTime", config, suffix="value", each=feed)
    _put_beside(job, feed, name, include=include)


_DATE_FIELDS = {"getCurrentDate": "currentDate", "formatDate": "formattedDate", "getTimeBetweenDates": "timeDifference"}
_FORMATS = {"MM/dd/yyyy", "yyyy/MM/dd", "MMMM dd yyyy", "MM-dd-yyyy", "yyyy-MM-dd"}


def _format(job: MappingJob) -> str:
    form = str(job.fixed("format", default="MM/dd/yyyy"))
    if form == "custom":
        form = str(job.fixed("customFormat", default="yyyy-MM-dd"))
    written = format_of(form)
    if written is None:
        raise NotMapped(f"the date format {form}")
    return written


def _old_date_time(job: MappingJob) -> None:
    texts, feed = job.texts(), job.needed_feed()
    name = str(job.fixed("dataPropertyName", default="data"))
    zone = job.fixed("options", "toTimezone", default=job.around.timezone)
    config: dict[str, Any] = {"timezone": str(zone), "source": texts.value(job.option("value", default=""))}
    if job.fixed("action", default="format") == "calculate":
        amount = texts.said(job.option("duration", default=0))
        whole = f"({amount.as_number()} | int)"
        less = job.fixed("operation", default="add") == "subtract"
        config |= {"operation": "add", "amount": expression(f"0 - {whole}" if less else whole),
                   "unit": str(job.fixed("timeUnit", default="days"))}  # fmt: skip
    else:
        form = str(job.fixed("toFormat", default="MM/DD/YYYY"))
        written = format_of(form, moment=True)
        if written is None:
            raise NotMapped(f"the date format {form}")
        config |= {"operation": "format", "format": written}
    if job.option("options", "fromFormat") or job.option("options", "fromTimezone"):
        raise NotMapped("it reads a date of another form")
    job.differs("dates are read as ISO 8601 with an offset, or as milliseconds")
    job.add("dateTime", config, suffix="value", each=feed)
    _put_beside(job, feed, name)
