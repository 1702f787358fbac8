"""Nodes of n8n that decide how a run goes on: conditions, loops, waiting, other workflows, answers, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from anabranch.n8n.graph import loop_output
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import continue_on_fail
from anabranch.n8n.maps.condition_templates import LegacyCondition
from anabranch.n8n.maps.conditions import OLD, TestedConditions, condition_of, old_test, one_of, operation_of, typed
from anabranch.n8n.maps.map_triggers import request_item
from anabranch.n8n.maps.programs import LISTED_RESULTS
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.refs import INDEX, ITEM, ItemFeed, Moved, Ref, Traced, first_there, quoted, times, variable
from anabranch.n8n.texts import expression

_UNITS = {"seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}

# 366 days: no wait is longer.
_WAIT_MS_MAX = 366 * 86_400_000
_REQUEST_WAIT_MAX = "366d"


@maps("noOp", becomes="fields")
def passed_on(job: MappingJob) -> None:
    """`noOp`: nothing."""
    feed = job.needed_feed()
    job.add("fields", {"source": expression(feed.value.template)})
    job.leave(files=feed.files)


@maps("if", becomes="condition; of several items set")
def if_(job: MappingJob) -> None:
    """`if`: one item takes one way, of several items each its own."""
    _empty_item(job)
    condition = condition_of(job, job.texts())
    if not job.is_mapped:
        _condition_node(job, [("true", condition)])
        job.passes(output=0, handles=("true",))
        job.passes(output=1, handles=("else",))
        return
    _route(job, f"'true' if {condition} else 'false'")
    _routed(job, 0, "true")
    _routed(job, 1, "false")


@maps("filter", becomes="condition; of several items set")
def filter_(job: MappingJob) -> None:
    """`filter`: what does not pass goes nowhere."""
    _empty_item(job)
    condition = condition_of(job, job.texts())
    if not job.is_mapped:
        _condition_node(job, [("true", condition)])
        job.passes(handles=("true",))
        return
    _route(job, f"'true' if {condition} else 'false'")
    _routed(job, 0, "true")


def _empty_item(job: MappingJob) -> None:
    """n8n puts out an empty item by the first way where no item takes it, if the node is told so."""
    job.takes_list = job.node.settings.get("alwaysOutputData") is True


def _condition_node(job: MappingJob, branches: list[tuple[str, str]]) -> None:
    listed = [{"id": name, "expression": expression(condition)} for name, condition in branches]
    job.add("condition", {"branches": listed}, writes=False)


def _route(job: MappingJob, way: str) -> None:
    """Each item with the way that it takes."""
    values = {"item": "{{ctx.item}}", "index": "{{ctx.index}}", "to": expression(way)}
    job.add("set", {"values": values}, each=job.feed)


def _routed(job: MappingJob, output: int, way: str, *, may_fail: bool = False) -> None:
    """The items that take a way. `may_fail`: some of them stand for items whose conditions failed."""
    routes = variable(job.node_id)

    def taken(field: str) -> Ref:
        return Ref(
            f"({routes.template} | where('to', {quoted(way)}) | map('{field}'))",
            f'{routes.js}?.filter(each => each.to === "{way}").map(each => each.{field})',
        )

    of = taken("index")
    only = f"({routes.js} ?? []).length === 1 ? 0 : null"  # n8n pairs with the only item what says nothing
    job.leave(taken("item"), many=True, output=output,
              pairing=Traced(f"at => {of.js}?.[at] ?? ({only})") if may_fail else of)  # fmt: skip


@maps("switch", becomes="condition; of several items set")
def switch(job: MappingJob) -> None:
    """`switch`: the first rule that holds; with its version 3.x also an output of its own for the rest."""
    _empty_item(job)
    if job.fixed("mode", default="rules") == "expression":
        _switch_by_number(job)
        return
    tests, fallback = _switch_rules(job)
    if job.option("options", "allMatchingOutputs") is True:
        _switch_all(job, [test.condition(job) for _, test in tests], fallback)
        return
    if job.error_way == "beside" and any(test.may_fail for _, test in tests):
        _switch_that_goes_on(job, tests, fallback)
        return
    outputs = [output for output, _ in tests]
    conditions = one_of(
        job, [test for _, test in tests],
        within=(lambda listed: _first_way(outputs, listed, fallback)) if job.is_mapped else None,
    )  # fmt: skip
    rules = [(output, condition) for (output, _), condition in zip(tests, conditions, strict=True)]
    ways = [(f"out{output}" if index == output else f"out{output}_{index}", condition, output)
            for index, (output, condition) in enumerate(rules)]  # fmt: skip
    if not job.is_mapped:
        _condition_node(job, [(name, condition) for name, condition, _ in ways] or [("never", "false")])
        for output in dict.fromkeys(output for _, output in ((name, out) for name, _, out in ways)):
            handles = tuple(name for name, _, out in ways if out == output)
            job.passes(output=output, handles=(*handles, "else") if output == fallback else handles)
        if fallback is not None and fallback not in {output for _, _, output in ways}:
            job.passes(output=fallback, handles=("else",))
        return
    _route(job, _first_way(outputs, conditions, fallback))
    for output in {output for _, _, output in ways} | ({fallback} if fallback is not None else set()):
        _routed(job, output, f"out{output}")


def _switch_that_goes_on(job: MappingJob, tests: Sequence[tuple[int, TestedConditions]], fallback: int | None) -> None:
    """The first rule that holds, where conditions may fail."""
    listed = ", ".join(f"() => {test.js()}" for _, test in tests)
    ways, rest = [f"out{output}" for output, _ in tests], "none" if fallback is None else f"out{fallback}"
    found = f"{json.dumps(ways)}[[{listed}].findIndex(test => test())] ?? '{rest}'"
    outputs = sorted({0, *(output for output, _ in tests), *([] if fallback is None else [fallback])})
    _switch_by_code(job, found, outputs)


def _switch_by_code(job: MappingJob, found: str, outputs: Sequence[int]) -> None:
    """The way that JavaScript says. By its first way n8n hands on what failed in place of an item whose way cannot be
    said, if the node goes on after failures."""
    goes_on = job.error_way == "beside"
    failed = "return {to: 'failed', item: {error: fault.message}};" if goes_on else "throw fault;"
    computed = f"(() => {{ try {{ return {{to: {found}}}; }} catch (fault) {{ {failed} }} }})()"
    chosen = job.texts().compute(computed).text
    if job.is_mapped:
        fails = f"{chosen}.to == 'failed'"
        values = {"item": expression(f"{chosen}.item | default(ctx.item)"),
                  "index": expression(f"none if {fails} else ctx.index"),
                  "to": expression(f"'out0' if {fails} else {chosen}.to")}  # fmt: skip
        job.add("set", {"values": values}, each=job.feed)
        for output in outputs:
            _routed(job, output, f"out{output}", may_fail=goes_on and output == 0)
        return
    _condition_node(job, [(way, f"{chosen}.to == '{way}'") for way in (*(f"out{each}" for each in outputs), "failed")])
    for output in outputs[1:]:
        job.passes(output=output, handles=(f"out{output}",))
    if not goes_on:
        job.passes(output=0, handles=("out0",))
        return
    given, made = job.needed_feed().value, variable(job.nodes[0]["id"]).field(chosen.rsplit(".", 1)[1]).field("item")
    job.leave(first_there([made, given]), many=False, handles=("out0", "failed"))


def _first_way(outputs: Sequence[int], conditions: Sequence[str], fallback: int | None) -> str:
    """The output of the first condition that holds."""
    chosen = quoted("none" if fallback is None else f"out{fallback}")
    for output, condition in zip(reversed(outputs), reversed(conditions), strict=True):
        chosen = f"{quoted(f'out{output}')} if {condition} else ({chosen})"
    return chosen


def _switch_all(job: MappingJob, conditions: list[str], fallback: int | None) -> None:
    feed = job.needed_feed()
    each = feed if feed.many else ItemFeed(feed.items, many=True)
    values: dict[str, Any] = {"item": "{{ctx.item}}", "index": "{{ctx.index}}"}
    if not feed.many:
        raise NotMapped("it takes all ways whose rules hold")
    for index, condition in enumerate(conditions):
        values[f"out{index}"] = expression(f"true if {condition} else false")
    job.add("set", {"values": values}, each=each)
    routes = variable(job.node_id)
    for index in range(len(conditions)):
        job.leave(
            Ref(
                f"({routes.template} | where('out{index}') | map('item'))",
                f"{routes.js}?.filter(each => each.out{index}).map(each => each.item)",
            ),
            many=True,
            output=index,
            pairing=Ref(
                f"({routes.template} | where('out{index}') | map('index'))",
                f"{routes.js}?.filter(each => each.out{index}).map(each => each.index)",
            ),
        )
    if fallback is not None:
        raise NotMapped("it takes all ways whose rules hold, and has one for the rest")


def _switch_rules(job: MappingJob) -> tuple[list[tuple[int, TestedConditions]], int | None]:
    texts, written = job.texts(), job.option("rules", "values", default=job.option("rules", "rules", default=[]))
    rules: list[tuple[int, TestedConditions]] = []
    if not isinstance(written, list):
        raise NotMapped("its rules are computed")
    if job.node.version >= 3:
        for index, rule in enumerate(written):
            conditions = rule.get("conditions") if isinstance(rule, dict) else None
            if isinstance(conditions, dict):
                rules.append((index, typed(job, texts, conditions)))
        fallback = job.fixed("options", "fallbackOutput", default="none")
        if fallback == "extra":
            return rules, len(written)
        return rules, fallback if isinstance(fallback, int) else None
    kind = str(job.fixed("dataType", default="number"))
    names: list[Any] = []
    for rule in written:
        if not isinstance(rule, dict):
            continue
        output = rule.get("output", rule.get("outputKey", 0))
        if not isinstance(output, int):
            names.append(output)
            output = len(names) - 1
        operation = operation_of(rule, "smaller" if kind == "number" else "equal")
        _, empty = OLD.get(kind, ("", ""))
        test = LegacyCondition(kind, operation, job.option("value1", default=empty), rule.get("value2", empty))
        rules.append((output, old_test(texts, [test], any_of=False)))
    fallback = job.fixed("fallbackOutput", default=-1)
    return rules, fallback if isinstance(fallback, int) and fallback >= 0 else None


def _switch_by_number(job: MappingJob) -> None:
    """The output with the number that an expression gives; n8n fails where there is none of that number."""
    count = job.option("numberOutputs", default=job.option("outputsAmount", default=4))
    count = count if isinstance(count, int) and 0 < count <= 32 else 4
    written = job.texts().thunk(job.option("output", default=0))
    number = (
        f"(() => {{ try {{ return ({written})() ?? NaN; }} catch (fault) {{ if (fault?.$unpaired) throw fault; }} }})()"
    )
    there = f"Number.isInteger(way) && way >= 0 && way < {count}"
    refused = "throw Object.assign(new Error(`The output ${way} is not allowed`), {fails: true});"
    _switch_by_code(job, f"(way => {{ if ({there}) return 'out' + way; {refused} }})(Number({number}))", range(count))


@maps("splitInBatches", becomes="loop, or cursor", needs_items=True)
def batches_as_loop(job: MappingJob) -> None:
    """`splitInBatches` whose loop is entered and left only there."""
    size, _, source = _batches(job)
    config: dict[str, Any] = {"source": source}
    several = size != 1
    if several:
        config["batchSize"] = size
    name, items, done = job.node.name, job.needed_feed().items, variable(job.node_id)
    may_end = not job.around.always_comes_back(name)
    if may_end:
        config = _ending_with_nothing(items, size, source)
    job.add("loop", config)
    if may_end:
        through = f"({done.template} | length) == 0 or ({done.template} | last | length) > 0"
        job.add("condition", {"branches": [{"id": "through", "expression": expression(through)}]}, suffix="through",
                after="done", writes=False)  # fmt: skip
    job.leave(
        Ref(f"({done.template} | flatten)", f"({done.js} ?? []).flat()"),
        many=True,
        output=1 - loop_output(job.node),
        handles=("through",) if may_end else ("done",),
        pairing="same" if size == 1 and job.around.gives_one_for_each(job.node.name) else None,
    )
    output = loop_output(job.node)
    if name in job.around.aliases or may_end:
        current = variable(
            job.add("fields", {"source": _current(items, size) if may_end else "{{ctx.item}}"}, suffix="item",
                    behind=job.node_id, after="loop")
        )  # fmt: skip
        position = variable(job.add("set", {"values": {"index": "{{ctx.index}}"}}, suffix="place")).field("index")
        job.leave(
            current,
            many=several,
            output=output,
            pairing=Moved(times(position, size)) if isinstance(size, int) else None,
        )
        return
    pairing = Moved(times(INDEX, size), name) if isinstance(size, int) else None
    job.leave(ITEM, many=several, output=output, handles=("loop",), loop=name, pairing=pairing)


# As many as a loop over a list has at most.
_PASSES_MAX = 100_000


def _ending_with_nothing(items: Ref, size: int | str, source: str) -> dict[str, Any]:
    """A loop that ends as soon as nothing comes back, as n8n does."""
    each = f"ctx.index * {_size(size)}"
    more = f"{each} < ({source[2:-2]} | length)"
    came = "(ctx.index == 0 or (ctx.results | last | length) > 0)"
    return {"mode": "while", "while": expression(f"({more}) and {came}"), "maxIterations": _PASSES_MAX}


def _size(size: int | str) -> str:
    return str(size) if isinstance(size, int) else f"({size[2:-2].strip()})"


def _current(items: Ref, size: int | str) -> str:
    if size == 1:
        return expression(f"{items.template}[ctx.index]")
    each = _size(size)
    return expression(f"{items.template} | slice(ctx.index * {each}, (ctx.index + 1) * {each})")


def batches_as_cursor(job: MappingJob) -> None:
    """The same whose loop is entered or left elsewhere, too."""
    size, feed, source = _batches(job)
    several = size != 1
    job.add("cursor", {"source": source, "batchSize": size})
    batch = variable(job.node_id)
    one = ItemFeed(batch, many=True).first
    job.leave(batch if several else one, many=several, output=loop_output(job.node), handles=("loop",), pairing=None)
    job.leave(feed.items, many=True, output=1 - loop_output(job.node), handles=("done",))
    if job.node.version >= 3 and job.around.has_followers(job.node.name):
        job.differs(
            "after the last batch it hands on the items that it was given, where n8n hands on those that came back"
        )


def _batches(job: MappingJob) -> tuple[int | str, ItemFeed, str]:
    """How many items a batch has, what flows in, and the list of it."""
    feed = job.needed_feed()
    source = expression(feed.items.template)
    size = job.option("batchSize", default=10 if job.node.version < 2 else 1)
    reset = job.option("options", "reset")
    if reset not in (None, False):
        job.differs("the list begins anew only when the loop is entered anew")
    if isinstance(size, str) and size.isdigit():
        size = int(size)
    if isinstance(size, str) and size.startswith("="):
        # n8n ends a loop whose batches have no items; what is not a number has none.
        number = f"({job.texts(per_item=False).phrase(size).as_number()} | otherwise(0) | int)"
        return expression(f"[{number}, 1] | max"), feed, expression(f"{feed.items.template} if {number} > 0 else []")
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 10_000:
        raise NotMapped("its batch size is not a number")
    return size, feed, source


@maps("wait", becomes="delay; for a request waitForWebhook, condition, javascript, set", needs_items=True)
def wait(job: MappingJob) -> None:
    """`wait`: for a time, until a time, or for a request to an address of its own."""
    resume = job.fixed("resume", default="timeInterval")
    if resume == "webhook":
        _wait_for_request(job)
        return
    if resume == "specificTime":
        when = job.texts(per_item=False).phrase(job.option("dateTime"))
        job.add("delay", {"until": expression(when.whole())}, writes=False)
        job.passes()
        return
    if resume != "timeInterval":
        raise NotMapped(f"it waits for a {resume}")
    job.add("delay", {"duration": _duration(job)}, writes=False)
    job.passes()


def _wait_for_request(job: MappingJob) -> None:
    """n8n's item of the request flows on. The address takes one request of any method that may change something."""
    method = str(job.fixed("httpMethod", default="GET")).upper()
    job.add("waitForWebhook", {"timeout": _REQUEST_WAIT_MAX})
    job.remarks.append(
        "its address is another: it takes one request, by any method but GET and HEAD, also before the node waits"
    )
    if method in ("GET", "HEAD"):
        job.differs("a request by GET gets a page that asks to confirm")
    if job.option("options") or job.option("incomingAuthentication", default="none") != "none":
        job.differs("its options and its authentication are not taken")
    if job.option("responseMode", default="onReceived") != "onReceived":
        job.differs("the request is answered before what follows runs")
    if job.option("limitWaitTime") is True:
        job.differs(f"it waits for {_REQUEST_WAIT_MAX} at most, whatever its limit")
    if job.around.reads_files:
        job.differs("files of the request do not flow on")
    job.leave(request_item(job, variable(job.node_id), may_have_body=True), many=False, pairing=None)


def _duration(job: MappingJob) -> Any:
    unit = _UNITS.get(str(job.fixed("unit", default="hours")))
    amount = job.option("amount", default=5 if job.node.version >= 1.1 else 1)
    if unit is None:
        raise NotMapped("the unit of its time is computed")
    if isinstance(amount, str) and not amount.startswith("="):
        try:
            amount = float(amount)
        except ValueError:
            raise NotMapped("its time is not a number") from None
    if isinstance(amount, (int, float)):
        return max(1, min(round(amount * unit), _WAIT_MS_MAX))
    phrase = job.texts(per_item=False).phrase(amount)
    return expression(f"[1, ({phrase.as_number()} * {unit}) | round | int] | max")


@maps("executeWorkflow", becomes="workflow", needs_items=True)
def call(job: MappingJob) -> None:
    """`executeWorkflow`: starts another workflow, with all items or once for each."""
    workflow = _called_workflow(job)
    each = job.fixed("mode", default="once") == "each"
    feed = continue_on_fail.begin(job) if each else job.needed_feed()
    mapping = job.option("workflowInputs", "value")
    if isinstance(mapping, dict) and mapping:
        values = job.texts().value({key: value for key, value in mapping.items() if value is not None})
        job.add("set", {"values": values}, suffix="input", each=feed)
        feed = ItemFeed(variable(f"{job.node_id}_input"), feed.many)
    waits = job.option("options", "waitForSubWorkflow", default=True)
    if not isinstance(waits, bool):
        raise NotMapped("whether it waits is computed")
    config: dict[str, Any] = {"workflow": workflow} | ({} if waits else {"wait": False})
    each = each and feed.many
    goes_on = job.error_way != "stop"
    if goes_on and not each:
        feed = ItemFeed(feed.items.listed(), many=True)
        config["input"] = {"n8nItems": "{{ctx.item}}"}
    else:
        config["input"] = "{{ctx.item}}" if each else {"n8nItems": expression(feed.items.template)}
    job.add("workflow", config, suffix="runs" if goes_on else "", each=feed if each or goes_on else None,
            **job.attempts(), **job.on_error())  # fmt: skip
    child = variable(job.nodes[-1]["id"])
    if goes_on and waits:
        job.takes_list = True
        continue_on_fail.end(job, LISTED_RESULTS, head=f"const results = {child.js} ?? [];\n", whole=not each)
        return
    if not waits:
        job.passes()
    elif each:
        job.leave(
            Ref(f"({child.template} | map('n8nItems', []) | flatten)",
                f"({child.js} ?? []).flatMap(each => each?.n8nItems ?? [])"),
            many=True,
            pairing=Traced(f"at => ({child.js} ?? []).flatMap((each, of) => (each?.n8nItems ?? []).map(() => of))[at]"),
        )  # fmt: skip
    else:
        job.leave(
            Ref(f"({child.template}.n8nItems | default([{child.template}]))",
                f"({child.js}?.n8nItems ?? [{child.js}])"),
            many=True, pairing=None,
        )  # fmt: skip


def _called_workflow(job: MappingJob) -> str:
    if job.fixed("source", default="database") not in ("database",):
        raise NotMapped("the workflow that it starts is written into it, or in a file")
    written = job.option("workflowId", default="")
    name = written.get("cachedResultName") if isinstance(written, dict) else None
    value = written.get("value", "") if isinstance(written, dict) else written
    if isinstance(value, str) and value.replace(" ", "") == "={{$workflow.id}}":
        return job.around.workflow_name("")
    if isinstance(value, str) and value.startswith("="):
        value = value[1:]
        if "{{" in value:
            raise NotMapped("the workflow that it starts is computed")
    found = job.around.workflow_name(str(value))
    if found:
        return found
    job.remarks.append(f"starts the workflow {name or value}: import that, too, or choose another")
    return job.around.name_of(str(name or value or "choose-a-workflow"))


@maps("respondToWebhook", becomes="respond", needs_items=True)
def respond(job: MappingJob) -> None:
    """`respondToWebhook`: what the webhook that began the run answers."""
    texts = job.texts(per_item=False)
    code = job.option("options", "responseCode", default=200)
    config: dict[str, Any] = {"status": texts.value(code)} if code != 200 else {}
    entries = job.option("options", "responseHeaders", "entries", default=[])
    headers = {
        str(each.get("name")): texts.text(each.get("value", ""))
        for each in entries if isinstance(each, dict) and each.get("name") and not str(each["name"]).startswith("=")
    }  # fmt: skip
    feed = job.needed_feed()
    match job.fixed("respondWith", default="firstIncomingItem"):
        case "text":
            config["body"] = texts.text(job.option("responseBody", default=""))
            headers = {"Content-Type": "text/html; charset=utf-8"} | headers if not _named(headers) else headers
        case "json":
            config["body"] = texts.value(job.option("responseBody", default=""))
            headers = {"Content-Type": "application/json; charset=utf-8"} | headers if not _named(headers) else headers
        case "firstIncomingItem":
            config["body"] = expression(feed.first.template)
        case "allIncomingItems":
            config["body"] = expression(feed.items.template)
        case "noData":
            pass
        case "binary":
            config["base64"] = _file_to_answer(job, headers)
        case "redirect":
            config["status"] = texts.value(job.option("options", "responseCode", default=307))
            headers["Location"] = texts.text(job.option("redirectURL", default=""))
        case other:
            raise NotMapped(f"it answers with {other}")
    if job.option("options", "responseKey"):
        raise NotMapped("it answers with a part that is named in an option")
    if headers:
        config["headers"] = headers
    job.add("respond", config, writes=False)
    job.passes()


def _file_to_answer(job: MappingJob, headers: dict[str, str]) -> str:
    """The first file of the first item, or the one with a name."""
    files = job.needed_feed().first_files
    if files is None:
        raise NotMapped("it answers with binary")
    file = f"({files.template} | values | first)"
    if job.fixed("responseDataSource", default="automatically") == "set":
        file = files.field(str(job.fixed("inputFieldName", default="data"))).template
    if not _named(headers):
        headers["Content-Type"] = expression(f"{file}.mimeType")
    return expression(f"{file}.data")


def _named(headers: dict[str, str]) -> bool:
    return any(name.lower() == "content-type" for name in headers)


@maps("stopAndError", becomes="stopWithError", needs_items=True)
def stop(job: MappingJob) -> None:
    """`stopAndError`: fails with a message."""
    texts = job.texts(per_item=False)
    if job.fixed("errorType", default="errorMessage") == "errorObject":
        job.differs("the error is the text of the object")
        message = job.option("errorObject", default="{}")
    else:
        message = job.option("errorMessage", default="")
    text = texts.text(message)
    job.add("stopWithError", {"message": text or "Stopped"}, writes=False)
