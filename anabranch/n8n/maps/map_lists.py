"""Nodes of n8n that work on lists of items: they split, join, sort, and count them."""

from __future__ import annotations

import json
from typing import Any

from anabranch.n8n.javascript import prelude
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps.list_programs import AGGREGATE, SOME_FIELDS, SORT, SPLIT_OUT, SUMMARIZE, UNIQUE
from anabranch.n8n.maps.programs import GET, MERGE, SHUFFLE
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.phrases import NeverBegins
from anabranch.n8n.refs import ItemFeed, Moved, Ref, Traced, every, variable
from anabranch.n8n.texts import expression


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


# Versions of `itemLists` that take fields in another way than the one before.
_SECOND, _SECOND_1, _SECOND_2, _LIKE_NEW, _BY_TYPE = 2, 2.1, 2.2, 3, 3.1


def _old_lists(job: MappingJob) -> float:
    """The version of an `itemLists`; 0: it is one of the nodes that were made of it."""
    return job.node.version if job.node.kind == "itemLists" else 0


@maps("splitOut", becomes="javascript")
def split_out(job: MappingJob) -> None:
    """`splitOut`: one item for each item of lists in fields."""
    written = job.option("fieldToSplitOut", default="")
    if job.node.kind == "splitOut" and written == "":
        raise NeverBegins("its parameter `fieldToSplitOut` is empty")
    old = _old_lists(job)
    listed = [name.strip() for name in str(job.fixed("fieldToSplitOut", default="")).split(",")]
    names = [name if 0 < old < _LIKE_NEW else name.removeprefix("$json.") for name in listed]
    into = _fields(job, "options", "destinationFieldName")
    include = job.fixed("include", default="noOtherFields")
    if "$binary" in names or (not any(names) and written != "="):
        raise NotMapped("binary data are split" if any(names) else "it names no field")
    if into and len(into) != len(names):
        raise NotMapped("it has other numbers of fields and of names for them")
    if 0 < old < _SECOND and (include != "noOtherFields" or len(names) > 1):
        job.differs("other fields of the items are kept as the second version of the node does")
    options = {"fields": names, "into": into, "include": include,
               "dots": job.option("options", "disableDotNotation") is not True,
               "other": _fields(job, "fieldsToInclude"),
               "needsField": 0 < old < _SECOND_1,
               "needs": "list" if 0 < old < _SECOND else "object" if 0 < old < _SECOND_2 else ""}  # fmt: skip
    job.program(f"const options = {json.dumps(options)};\n{SPLIT_OUT}")
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


@maps("aggregate", becomes="set, javascript", needs_items=True)
def aggregate(job: MappingJob) -> None:
    """`aggregate`: one item of all."""
    feed = job.needed_feed()
    if job.option("options", "includeBinaries") is True:
        raise NotMapped("binary data are put together")
    if job.option("options", "groupByFields"):
        raise NotMapped("it makes groups")
    if job.fixed("aggregate", default="aggregateIndividualFields") == "aggregateAllItemData":
        name = str(job.fixed("destinationFieldName", default="data"))
        include = job.fixed("include", default="allFields")
        keep = _fields(job, "fieldsToInclude") if include == "specifiedFields" else []
        drop = _fields(job, "fieldsToExclude") if include == "allFieldsExcept" else []
        source = expression(feed.items.template)
        if keep or drop:
            job.program(f"const keep = {json.dumps(keep)}, drop = {json.dumps(drop)};\n{SOME_FIELDS}", suffix="fields")
            source = expression(f"ctx.{job.node_id}_fields")
        job.add("set", {"values": {name: source}})
        job.leave(many=False, pairing=_of_all(feed, keep, drop))
    else:
        wanted = _aggregated(job)
        if not wanted:
            job.always_fails("No fields specified")
            return
        options = {"fields": wanted, "merge": job.option("options", "mergeLists") is True,
                   "keepMissing": job.option("options", "keepMissing") is True,
                   "needsField": 0 < _old_lists(job) < _SECOND_1,
                   "dots": job.option("options", "disableDotNotation") is not True}  # fmt: skip
        job.program(f"const options = {json.dumps(options)};\n{AGGREGATE}")
        job.leave(many=False, pairing=_of_all(feed))


def _of_all(feed: ItemFeed, keep: list[str] | None = None, drop: list[str] | None = None) -> Traced:
    """One item belongs to all items, or to those of which a field is taken."""
    if not keep and not drop:
        return Traced(f"() => {every(f'({feed.items.js} ?? []).length')}")
    taken = f"!{json.dumps(drop)}.includes(name) && ({json.dumps(not keep)} || {json.dumps(keep)}.includes(name))"
    return Traced(
        f"() => ({feed.items.js} ?? []).flatMap((item, at) => Object.keys(item).some(name => {taken}) ? [at] : [])"
    )


def _aggregated(job: MappingJob) -> list[dict[str, Any]]:
    """The fields that become lists, each with the name of its list, which is empty if it is that of the field."""
    wanted = []
    for each in job.option("fieldsToAggregate", "fieldToAggregate", default=[]):
        renamed = each.get("renameField") is True
        field, name = str(each.get("fieldToAggregate", "")), str(each.get("outputFieldName") or "") if renamed else ""
        if field.startswith("=") or name.startswith("="):
            raise NotMapped("the name of a field is computed")
        wanted.append({"field": field, "name": name, "renamed": renamed})
    return wanted


@maps("sort", becomes="javascript")
def sort(job: MappingJob) -> None:
    """`sort`: by fields, or at random, which the log keeps; by code is not mapped here."""
    kind = job.fixed("type", default="simple")
    if kind == "random":
        job.program(SHUFFLE)
        made = variable(job.node_id)
        job.leave(made.field("items"), many=True, pairing=made.field("of"))
        return
    if kind != "simple":
        raise NotMapped("it sorts by code")
    fields = [each for each in job.option("sortFieldsUi", "sortField", default=[]) if isinstance(each, dict)]
    by = [{"field": str(each.get("fieldName", "")), "order": str(each.get("order", "ascending"))} for each in fields]
    if not fields:
        job.always_fails("No sorting specified. Please add a field to sort by")
        return
    if any(each["field"].startswith("=") or each["order"].startswith("=") for each in by):
        raise NotMapped("what it sorts by is computed")
    options = {"by": by, "dots": job.option("options", "disableDotNotation") is not True}
    job.program(f"const options = {json.dumps(options)};\n{SORT}")
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


@maps("limit", becomes="limit")
def limit(job: MappingJob) -> None:
    """`limit`: the first or the last items."""
    feed = job.needed_feed()
    keep = "last" if job.fixed("keep", default="firstItems") == "lastItems" else "first"
    written = 0 if job.parameters.get("maxItems", 1) is None else job.option("maxItems", default=1)
    if isinstance(written, str) and written.startswith("="):
        count = _counted(job, written, feed, keep)
    else:
        count = job.texts(per_item=False).value(written)
    job.add("limit", {"source": expression(feed.items.template), "count": count, "keep": keep})
    if keep == "first":
        job.leave(many=True)
        return
    before, after = feed.items, variable(job.node_id)
    left_out = Ref(f"((({before.template}) | length) - ({after.template} | length))",
                   f"(({before.js})?.length - {after.js}?.length)")  # fmt: skip
    job.leave(many=True, pairing=Moved(left_out))


# What no list has, in place of infinitely many.
_ALL = "2 ** 31"


def _counted(job: MappingJob, written: str, feed: ItemFeed, keep: str) -> str:
    """How many items an expression asks for: n8n cuts lists with `slice`, which takes values of any type."""
    texts = job.texts(per_item=False)
    given = (
        f"(() => {{ try {{ return ({texts.thunk(written)})(); }} catch (fault) {{ if (fault?.$unpaired) throw fault; "
    )
    if keep == "last":
        js = f"(m => Number.isNaN(m) ? {_ALL} : Math.min(Math.max(Math.ceil(m), 0), {_ALL}))(Number({given}}} }})()))"
        return expression(texts.compute(js).text)
    bounded = f"Math.max(Math.min(Math.trunc(Number(m) || 0), {_ALL}), -({_ALL}))"
    asked = texts.compute(f"(m => m === undefined ? {_ALL} : {bounded})({given}}} }})())").text
    return expression(f"{asked} if {asked} >= 0 else [0, (({feed.items.template}) | length) + {asked}] | max")


@maps("removeDuplicates", becomes="javascript; readVariables, writeVariables")
def remove_duplicates(job: MappingJob) -> None:
    """`removeDuplicates` within the items of this run."""
    within = "removeDuplicateInputItems"
    if not _old_lists(job) and job.node.version >= _SECOND and job.fixed("operation", default=within) != within:
        _remove_seen(job)
        return
    compare = job.fixed("compare", default="allFields")
    named = "fieldsToCompare" if compare == "selectedFields" else "fieldsToExclude"
    old, chosen = _old_lists(job), {} if compare == "allFields" else job.option("options", default={})
    options = {"compare": compare, "fields": [] if compare == "allFields" else _fields(job, named),
               "only": chosen.get("removeOtherFields") is True,
               "nullsPass": not old and job.node.version > 1, "byType": old >= _BY_TYPE,
               "dots": chosen.get("disableDotNotation") is not True}  # fmt: skip
    job.program(f"const options = {json.dumps(options)};\n{UNIQUE}")
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


# What n8n keeps unless the node says otherwise. 22 characters for each are within the size of a variable.
_SEEN_MAX = 10_000

_UNSEEN = """const seen = new Set((known.match(/.{22}/gs) ?? [])), kept = [...seen], groups = Object.create(null);
if (seen.size + items.length > most) throw new Error('The number of items to be processed exceeds the maximum'
  + ' history size. Please increase the history size or reduce the number of items to be processed.');
values.forEach((value, index) => (groups[value ?? ''] ??= []).push(index));
const fresh = [], old = [];
for (const [value, of] of Object.entries(groups)) {
  const mark = $crypto.createHash('md5').update(value).digest('base64').slice(0, 22);
  (seen.has(mark) ? old : fresh).push(...of);
  if (!seen.has(mark)) kept.push(mark);
}
const listed = of => of.map(index => items[index]);
const changed = kept.length > seen.size ? {[name]: kept.slice(-most).join('')} : {};
return {items: listed(fresh), of: fresh, discarded: listed(old), discardedOf: old, changed};"""


def _remove_seen(job: MappingJob) -> None:
    """Items whose value came in an earlier run: hashes of the values are kept in a variable of the workflow."""
    if job.fixed("operation") != "removeItemsSeenInPreviousExecutions":
        raise NotMapped("it forgets items of earlier runs")
    if job.fixed("logic", default="removeItemsWithAlreadySeenKeyValues") != "removeItemsWithAlreadySeenKeyValues":
        raise NotMapped("it compares with the largest number or date of earlier runs")
    scope = job.fixed("options", "scope", default="node")
    most = job.fixed("options", "historySize", default=_SEEN_MAX)
    if scope not in ("node", "workflow") or not isinstance(most, int) or not 0 < most <= _SEEN_MAX:
        raise NotMapped("it remembers more items than a variable can hold")
    if job.error_way != "stop":
        raise NotMapped("it remembers items from run to run, and goes on after failures")
    feed, name = job.needed_feed(), "n8n.seen" if scope == "workflow" else f"n8n.seen.{job.node_id}"
    job.keeps = (name,)
    value = job.texts().value(job.option("dedupeValue", default=""))
    listed = ItemFeed(feed.items, many=True)
    values = job.add("set", {"values": {"value": value}}, suffix="value", each=feed)
    read = job.add("readVariables", {"of": "workflow", "names": [name]}, suffix="kept")
    one = variable(values).js
    given = f"({one} ?? [])" if feed.many else f"[{one}]"
    head = (
        f"const items = {listed.value.js} ?? [], name = {json.dumps(name)}, most = {most}, "
        f"known = ctx[{json.dumps(read)}]?.[name] ?? '', values = {given}.map(each => each?.value ?? null);\n"
    )
    code = f"{prelude('buffer').strip()} {prelude('crypto').strip()}\n{head}{_UNSEEN}"
    ran = job.add("javascript", {"code": code}, suffix="code", **job.attempts())
    job.add("writeVariables", {"values": expression(f"ctx.{ran}.changed")}, writes=False)
    made = variable(ran)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))
    job.leave(made.field("discarded"), many=True, pairing=made.field("discardedOf"), output=1)


@maps("summarize", becomes="javascript", needs_items=True)
def summarize(job: MappingJob) -> None:
    """`summarize`: figures of all items, or of groups."""
    wanted = [each for each in job.option("fieldsToSummarize", "values", default=[]) if isinstance(each, dict)]
    by = _fields(job, "fieldsToSplitBy")
    if not any(each.get("field") for each in wanted):
        job.always_fails("You need to add at least one aggregation to 'Fields to Summarize' with non empty 'Field'")
        return
    if any(str(value).startswith("=") for each in wanted for value in each.values()):
        raise NotMapped("what it summarizes is computed")
    if _old_lists(job):
        job.differs("its figures are those of the node `summarize`")
    is_first = job.node.version == 1
    single = job.fixed("options", "outputFormat", default="separateItems") == "singleItem"
    options = {"fields": [_shown(each) for each in wanted], "by": by,
               "dots": job.option("options", "disableDotNotation") is not True,
               "skipEmpty": job.option("options", "skipEmptySplitFields") is True, "single": single,
               "asTexts": is_first,
               "needsField": is_first and job.option("options", "continueIfFieldNotFound") is not True}  # fmt: skip
    job.program(f"const options = {json.dumps(options)};\n{SUMMARIZE}")
    made = variable(job.node_id)
    if by and not single:
        job.leave(made.field("items"), many=True, pairing=Traced(f"at => {made.field('of').js}?.[at]"))
    else:
        job.leave(
            made.field("items").at(Ref("0", "0")), many=False, pairing=Traced(f"() => {made.field('of').js}?.[0]")
        )


def _shown(each: dict[str, Any]) -> dict[str, Any]:
    """A figure with those of its fields that count for its kind."""
    kind = each.get("aggregation", "count")
    known = {"aggregation", "field"} | ({"separateBy"} if kind == "concatenate" else set())
    known |= {"includeEmpty"} if kind in ("append", "concatenate", "count", "countUnique") else set()
    known |= {"customSeparator"} if each.get("separateBy") == "other" else set()
    return {name: value for name, value in each.items() if name in known} | {"field": str(each.get("field", ""))}


@maps("itemLists", becomes="as the node for its operation", needs_items=True)
def item_lists(job: MappingJob) -> None:
    """`itemLists`: the older node of which the others were made."""
    operation = job.fixed("operation", default="splitOutItems")
    if operation == ("aggregateItems" if job.node.version >= _LIKE_NEW else "concatenateItems"):
        job.always_fails(f"The version of the node has no operation {operation}")
        return
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


@maps("merge", becomes="merge, javascript")
def merge(job: MappingJob) -> None:
    """`merge`: the items of several inputs together."""
    mode = _merge_mode(job)
    if not job.feeds:
        raise NotMapped("nothing flows into it")
    if mode == "empty":
        job.add("javascript", {"code": "return {};"}, retry={"maxAttempts": 1})
        job.leave(many=False, pairing=Traced(f"() => {_of_inputs(job)}"))
        return
    if mode.startswith("input"):
        number = int(mode.removeprefix("input")) - 1
        if number not in job.feeds:
            raise NotMapped("nothing flows into the input that it takes")
        source = job.feeds[number]
        job.add("merge", {"mode": "append", "sources": [expression(source.items.template)]})
        job.leave(many=True, pairing=Traced(f"at => ({{item: at, input: {number}}})"))
        return
    if mode == "append":
        sources = [job.feeds[number] for number in sorted(job.feeds)]
        merged = job.add("merge", {"mode": "append", "sources": [expression(feed.items.template) for feed in sources]})
        job.leave(
            variable(merged), many=True, pairing=Traced(f"at => {_of_inputs(job)}[at]"), files=_files_of(job, sources)
        )
        return
    _merge_by(job, mode)


def _of_inputs(job: MappingJob) -> str:
    """All items of all inputs, each as `{item, input}`, as JavaScript."""
    listed = ", ".join(f"...({feed.items.js} ?? []).map((_, item) => ({{item, input: {number}}}))"
                       for number, feed in sorted(job.feeds.items()))  # fmt: skip
    return f"[{listed}]"


def _merge_by(job: MappingJob, mode: str) -> None:
    """Items put together by their position or by fields, or each with each."""
    clash = job.option("options", "clashHandling", "values", default={})
    options = {
        "mode": mode,
        "version": job.node.version,
        "unpaired": job.option("options", "includeUnpaired") is True,
        "pairs": _pairs(job),
        "join": _join(job),
        "output": str(job.fixed("outputDataFrom", default="both")),
        "first": job.option("options", "multipleMatches", default="all") == "first",
        "clash": clash.get("resolveClash"),
        "shallow": clash.get("mergeMode") == "shallowMerge",
        "overwrite": str(job.fixed("overwrite", default="always")),
        "dots": job.option("options", "disableDotNotation") is not True,
    }
    if clash.get("overrideEmpty") or job.option("options", "fuzzyCompare") is True:
        raise NotMapped("it has rules for fields that both have, or for values that are nearly equal")
    if mode == "key" and job.node.version >= 2 and any("" in pair for pair in options["pairs"]):
        job.always_fails("You need to define at least one pair of fields to match on")
        return
    inputs = range(max(2, *job.feeds) + 1 if max(job.feeds) > 1 else 2)
    lists = ", ".join(f"{job.feeds[number].items.js} ?? []" if number in job.feeds else "[]" for number in inputs)
    head = f"const $orOne = list => list?.length ? list : [{{}}], lists = [{lists}];"
    code = f"{head}\nconst options = {json.dumps(options)};\n{GET}\n{MERGE}"
    job.add("javascript", {"code": code}, retry={"maxAttempts": 1})
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=Traced(f"at => {made.field('of').js}?.[at]"))


def _files_of(job: MappingJob, sources: list[ItemFeed]) -> Ref | None:
    """The files of items that are put behind each other, where those of all are known."""
    if not job.around.reads_files or any(feed.files is None for feed in sources):
        return None
    listed = ", ".join(f"[{feed.items.js} ?? [], {files.js}]" for feed in sources if (files := feed.as_list().files))
    code = f"return [{listed}].flatMap(([items, files]) => items.map((_, index) => files?.[index] ?? null));"
    return variable(job.add("javascript", {"code": code}, suffix="files", retry={"maxAttempts": 1}))


def _merge_mode(job: MappingJob) -> str:
    mode = str(job.fixed("mode", default="append"))
    if job.node.version < 2:
        known = {"append": "append", "passThrough": f"input{str(job.option('output', default='input1'))[-1:]}",
                 "wait": "empty", "mergeByIndex": "position", "mergeByKey": "key", "multiplex": "all",
                 "removeKeyMatches": "key", "keepKeyMatches": "key"}  # fmt: skip
        if mode not in known:
            raise NotMapped(f"the mode {mode}")
        return known[mode]
    match mode:
        case "append":
            return "append"
        case "chooseBranch":
            if job.fixed("output", default="specifiedInput" if job.node.version >= 3 else "input1") == "empty":
                return "empty"
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


def _join(job: MappingJob) -> str:
    if job.node.version >= 2:
        return str(job.fixed("joinMode", default="keepMatches"))
    old = str(job.option("mode", default=""))
    return str(job.option("join", default="left")) if old == "mergeByIndex" else old
