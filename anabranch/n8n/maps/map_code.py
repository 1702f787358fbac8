"""Nodes of n8n that run code: JavaScript and Python with n8n's names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.js_code import VARIABLES, ZONES, item_code, items_code
from anabranch.n8n.js_reading import absent_in, reads_files, with_named_nodes, without_pause
from anabranch.n8n.kept_data import each_code, keeping_code, kept_name, made_code, static_scopes
from anabranch.n8n.maps import continue_on_fail
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.python_code import is_valid, names_of_nodes, python_absent, python_program, variables_in
from anabranch.n8n.refs import INDEX, ITEM, PairedByCode, Ref, variable
from anabranch.n8n.texts import expression

# Items of another output than the first.
_OTHER_OUTPUT = re.compile(r"\.all\(\s*[1-9]|\$items\([^()]*,\s*[1-9]")


@maps("code", becomes="javascript, python", needs_items=True)
def code(job: MappingJob) -> None:
    """`code`: JavaScript or Python with n8n's names."""
    language = str(job.fixed("language", default="javaScript"))
    each = job.fixed("mode", default="runOnceForAllItems") == "runOnceForEachItem"
    job.reads_all = not each
    if language.startswith("python"):
        _python(job, str(job.option("pythonCode", default="")), each=each)
    elif language == "javaScript":
        _javascript(job, str(job.option("jsCode", default="")), each=each)
    else:
        raise NotMapped(f"the language {language}")


@maps("function", becomes="javascript", needs_items=True)
def function(job: MappingJob) -> None:
    """`function`: the older form, for all items."""
    _javascript(job, str(job.option("functionCode", default="")), each=False)


@maps("functionItem", becomes="javascript")
def function_item(job: MappingJob) -> None:
    """`functionItem`: the older form, for each item; `item` is the item itself."""
    _javascript(job, f"const item = $json;\n{job.option('functionCode', default='')}", each=True)


def _javascript(job: MappingJob, source: str, *, each: bool) -> None:
    source = with_named_nodes(source)
    pause, rest = (0, source) if each else without_pause(source)
    if pause:
        source = rest
        job.add("delay", {"duration": pause}, suffix="pause", writes=False)
    if (absent := absent_in(source, job.around.timezone)) is not None:
        raise NotMapped(f"its code uses {absent}")
    scopes = static_scopes(source)
    if scopes is None:
        raise NotMapped("which of the data that are kept from run to run its code uses is computed")
    if scopes:
        _javascript_that_keeps(job, source, scopes, each=each)
        return
    if _OTHER_OUTPUT.search(source):
        job.differs("its code gets the first output of a node, where it asks for another")
    if each and job.node.kind == "code" and _ALL_OF_EACH.search(source):
        job.differs("its code for each item gets all items, where n8n fails")
    reads = reads_files(source)
    if reads or (job.around.reads_files and not each and job.error_way == "stop" and job.needed_feed().files):
        _javascript_of_files(job, source, each=each, reads=reads)
        return
    feed = continue_on_fail.begin(job) if each else job.needed_feed()
    names = job.around.code_names(job, source, per_item=each and feed.many)
    goes_on = job.error_way != "stop"
    if each:
        leaves_out = _may_leave_out(job, source)
        code = item_code(source, ITEM if feed.many else feed.value, names, INDEX if feed.many else None,
                         may_leave_out=leaves_out)  # fmt: skip
        job.add("javascript", {"code": code}, suffix="each" if goes_on or leaves_out else "", each=feed,
                **job.attempts(), **job.on_error())  # fmt: skip
        if goes_on:
            continue_on_fail.end_of_each(job, leaves_out=leaves_out)
        elif leaves_out:
            _leave_what_is_there(job)
        else:
            job.leave()
        return
    pairs = job.node.name in job.around.paired and job.error_way != "apart"
    code = items_code(source, feed, names, catches=goes_on, pairs=pairs)
    job.add("javascript", {"code": code}, suffix="all" if job.error_way == "apart" else "", **job.attempts())
    _leave_code(job, pairs=pairs)


# What n8n refuses in code for each item.
_ALL_OF_EACH = re.compile(r"\$input\s*\??\.\s*(?:all|first|last)\s*\(")

# What returns something else than an object or a list that is written there: it may be null, also from the data.
_RETURN = re.compile(r"\breturn\b(?!\s*[{\[])")


def _may_leave_out(job: MappingJob, source: str) -> bool:
    """Whether code for each item may return null: n8n leaves that item out. The older form fails for it."""
    return job.node.kind == "code" and _RETURN.search(source) is not None


def _leave_what_is_there(job: MappingJob) -> None:
    """The items that code for each item did not leave out."""
    made = variable(job.nodes[-1]["id"]).js
    results = f"{made} ?? []" if job.is_mapped else f"[{made}]"
    job.add("javascript", {"code": f"const there = ({results}).map((item, of) => ({{item, of}}))"
                                   ".filter(each => each.item !== null);\n"
                                   "return {items: there.map(each => each.item), of: there.map(each => each.of)};"},
            retry={"maxAttempts": 1})  # fmt: skip
    kept = variable(job.node_id)
    job.leave(kept.field("items"), many=True, pairing=kept.field("of"))


def _leave_code(job: MappingJob, *, pairs: bool) -> None:
    """Leave with the output of code for all items; `pairs`: with the items that each belongs to."""
    if not pairs:
        _leave_all(job, pairing=_not_asked(job))
        return
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=PairedByCode(made.field("of")))


def _not_asked(job: MappingJob) -> PairedByCode | str:
    """Which item code makes of which: of the only one, or it can be had of the code."""
    return PairedByCode(None) if job.needed_feed().many else "same"


def _javascript_that_keeps(job: MappingJob, source: str, scopes: list[str], *, each: bool) -> None:
    """Code between a node that reads what the workflow keeps, and one that writes what the code changed of it.

    It fails behind that, so that what it changed before it failed is kept as well.
    """
    if reads_files(source):
        raise NotMapped("its code uses binary data, and data that are kept from run to run")
    if job.node.settings.get("retryOnFail") is True:
        raise NotMapped("its code uses data that are kept from run to run, and is tried again")
    if each and job.error_way != "stop":
        raise NotMapped("its code uses data that are kept from run to run for each item, and goes on after failures")
    feed = job.needed_feed()
    names = job.around.code_names(job, source, per_item=each and feed.many)
    pairs = not each and job.node.name in job.around.paired and job.error_way != "apart"
    if each:
        if _may_leave_out(job, source):
            job.differs("an item for which the code returns null fails, where n8n leaves the item out")
        code = item_code(source, ITEM if feed.many else feed.value, names, INDEX if feed.many else None)
        code = each_code(code, feed.value.js) if feed.many else code
    else:
        code = items_code(source, feed, names, catches=job.error_way != "stop", pairs=pairs)
    kept = [kept_name(scope, job.node_id) for scope in scopes]
    job.keeps = tuple(kept)
    read = job.add("readVariables", {"of": "workflow", "names": kept}, suffix="kept")
    ran = job.add(
        "javascript",
        {"code": keeping_code(code, scopes, node_id=job.node_id, read=read)},
        suffix="code",
        retry={"maxAttempts": 1},
    )
    job.add("writeVariables", {"values": expression(f"ctx.{ran}.changed")}, suffix="keep", writes=False)
    job.add(
        "javascript",
        {"code": made_code(ran)},
        suffix="all" if job.error_way == "apart" else "",
        retry={"maxAttempts": 1},
    )
    if each:
        job.leave(many=feed.many)
    else:
        _leave_code(job, pairs=pairs)


def _javascript_of_files(job: MappingJob, source: str, *, each: bool, reads: bool) -> None:
    """Code for all items that reads or makes their `binary`, or hands it on with the items."""
    feed = job.needed_feed()
    files = feed.as_list().files
    if each or job.error_way != "stop" or files is None:
        raise NotMapped("its code uses binary data")
    names = job.around.code_names(job, source, per_item=False)
    files_of = job.around.code_files(job, names)
    if reads and set(names) - set(files_of) - {VARIABLES, ZONES}:
        raise NotMapped("its code uses binary data, and nodes of which no files are known")
    pairs = job.node.name in job.around.paired
    code = items_code(source, feed, names, files=files, files_of=files_of, pairs=pairs)
    job.add("javascript", {"code": code}, **job.attempts())
    made = variable(job.node_id)
    pairing = PairedByCode(made.field("of")) if pairs else _not_asked(job)
    job.leave(made.field("items"), many=True, files=made.field("files"), pairing=pairing)


def _leave_all(job: MappingJob, pairing: PairedByCode | str | None = None) -> None:
    """The items that code made of all, those with an error apart if the node says so."""
    if job.error_way != "apart":
        job.leave(many=True, pairing=pairing)
        return
    job.takes_list = True
    before = variable(job.nodes[-1]["id"])
    continue_on_fail.end(job, "results.forEach(item => put(item, -1));", head=f"const results = {before.js} ?? [];\n",
                 whole=True)  # fmt: skip


def _python(job: MappingJob, source: str, *, each: bool) -> None:
    if not is_valid(source):
        job.always_fails("SyntaxError: the code is not Python")
        return
    if (absent := python_absent(source)) is not None:
        raise NotMapped(f"its code uses {absent}")
    feed = continue_on_fail.begin(job) if each else job.needed_feed()
    if feed.value.python is None:
        raise NotMapped(_NOT_FOR_PYTHON)
    each = each and feed.many
    items = '[ctx["item"]]' if each else feed.items.python or ""
    read_as = ".item" if _ITEM_OF_NODE.search(source) else ".all()"
    read = " ".join(f"$({json.dumps(name)}){read_as}" for name in names_of_nodes(source))
    names = dict(job.around.code_names(job, f"{read} {variables_in(source)}", per_item=each))
    variables, _ = names.pop(VARIABLES, None), names.pop(ZONES, None)
    nodes = _for_python(names)
    kept = "{}" if variables is None else f"({variables[0].python} or {{}})"
    goes_on = job.error_way != "stop"
    if each and goes_on:
        code = python_program(source, items, nodes, each=True, variables=kept)
        job.add("python", {"code": code}, suffix="each", each=feed, **job.attempts(), **job.on_error())
        continue_on_fail.end_of_each(job)
        return
    pairs = not each and job.node.name in job.around.paired and job.error_way != "apart"
    code = python_program(source, items, nodes, each=each, catches=goes_on, pairs=pairs, variables=kept)
    job.add("python", {"code": code}, suffix="all" if job.error_way == "apart" else "", each=feed if each else None,
            **job.attempts())  # fmt: skip
    if each:
        job.leave(many=feed.many)
    else:
        _leave_code(job, pairs=pairs)


_ITEM_OF_NODE = re.compile(r"\)\s*(?:\.\s*item\b|\[\s*['\"]item)")
_NOT_FOR_PYTHON = "its Python code gets items that only templates and JavaScript can read"


def _for_python(names: Mapping[str, tuple[Ref, Ref | None]]) -> dict[str, tuple[str, str]]:
    found = {}
    for name, (everything, one) in names.items():
        item = "None" if one is None else one.python
        if everything.python is None or item is None:
            raise NotMapped(_NOT_FOR_PYTHON)
        found[name] = everything.python, item
    return found
