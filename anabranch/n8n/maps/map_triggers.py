"""Triggers of n8n: how runs begin."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from anabranch.n8n.javascript import prelude, xml_prelude
from anabranch.n8n.job import MappingJob, NotMapped, word_of
from anabranch.n8n.kept_data import kept_name
from anabranch.n8n.maps.programs import BODY_TEXT, REQUEST
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.refs import Ref, quoted, variable
from anabranch.n8n.texts import escaped, expression, without_sign

_PATH = re.compile(r"[^A-Za-z0-9._~/-]+")
# Their requests have no body that means anything (RFC 9110, 9.3.1).
_WITHOUT_BODY = frozenset({"GET", "HEAD"})
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"})

# A number, or an expression that is nothing but one; JavaScript takes one that begins with 0 for octal.
_WRITTEN_NUMBER = re.compile(r"(\d+)|=\{\{\s*(\d+)\s*\}\}", re.ASCII)

# What n8n's own cron takes for the names of its modes.
_DAY = 24


@maps("manualTrigger", "start", becomes="start", begins=True)
def manual(job: MappingJob) -> None:
    """`manualTrigger`, `start`: begun by hand, with one empty item."""
    job.add("start", {}, writes=False)
    job.leave(Ref("ctx.input", 'ctx["input"]', 'ctx["input"]'), many=False)


@maps("webhook", becomes="webhook, condition, javascript, set; respond for an answer of its own", begins=True)
def webhook(job: MappingJob) -> None:
    """`webhook`: its payload has n8n's names of the request's parts."""
    path = _PATH.sub("-", str(job.fixed("path", default=""))).strip("/") or word_of(job.node.name) or "webhook"
    several = job.option("multipleMethods") is True
    methods = job.option("httpMethod", default=["GET", "POST"] if several else "GET")
    listed = [str(each).upper() for each in (methods if isinstance(methods, list) else [methods])]
    if not set(listed) <= _METHODS:
        raise NotMapped("the HTTP method is computed")
    config: dict[str, Any] = {"path": path, "methods": listed, **_authentication(job)}
    mode, answer = job.fixed("responseMode", default="onReceived"), {}
    if mode in ("responseNode", "lastNode") or (answer := _answer_at_once(job)):
        config["respond"] = "respondNode"
    else:
        job.remarks.append("answers 202 with the run's id, where n8n answers 200 with a message")
    if ":" in str(job.option("path", default="")):
        job.differs("parts of the path have no names here")
    job.add("webhook", config)
    if answer:
        job.add("respond", answer, suffix="answer", writes=False)
    request, files = variable(job.node_id), None
    if job.around.reads_files:
        files = _request_with_files(job, request)
        value = files.field("item")
        files = files.field("files")
    else:
        value = request_item(job, request, may_have_body=not set(listed) <= _WITHOUT_BODY)
    if not several or len(listed) < 2:
        job.leave(value, many=False, files=files)
        return
    branches = [{"id": f"out{output}", "expression": expression(f"{request.template}.method == {quoted(method)}")}
                for output, method in enumerate(listed)]  # fmt: skip
    job.add("condition", {"branches": branches}, suffix="method", writes=False)
    job.chooses = True
    for output in range(len(listed)):
        job.leave(value, many=False, output=output, handles=(f"out{output}",), files=files)


def request_item(job: MappingJob, request: Ref, *, may_have_body: bool) -> Ref:
    """A node that makes n8n's item of a request; bodies that templates cannot read are read by code in front of it."""
    given = request.template
    kind = f"({given}.headers['content-type'] | default('') | split(';') | first | lower)"
    none = "{}" if job.node.version > 1 else "none"
    body = (
        f"{given}.json if {given}.json != none and not ({kind} | endswith('+json')) else ({given}.form"
        f" if {given}.form != none else ({given}.body if {kind} == 'text/plain' and {given}.body else {none}))"
    )
    read = ""
    if may_have_body and job.around.has_followers(job.node.name):
        is_read = (
            f"(({kind} | endswith('/xml')) or ({kind} | endswith('+xml'))"
            f" or ({kind} == 'text/plain' and {given}.bodyEncoding == 'base64')) and {given}.body"
        )
        branches = [{"id": "read", "expression": expression(is_read)}]
        format_ = job.add("condition", {"branches": branches}, suffix="format", writes=False)
        code = (
            f"{prelude('buffer')}{xml_prelude()}const request = {request.js};\n{BODY_TEXT}return {{body: textBody()}};"
        )
        read = job.add("javascript", {"code": code}, suffix="body", after="read", retry={"maxAttempts": 1})
        body = f"ctx.{read}.body if {is_read} else ({body})"
    values = {
        "headers": expression(request.field("headers").template),
        "params": {},
        "query": expression(request.field("query").template),
        "body": expression(body),
        "webhookUrl": expression(f"{given}.url | default(none)"),
        "executionMode": "production",
    }
    made = job.add("set", {"values": values}, suffix="request")
    if read:
        job.edges.append((format_, "else", made))
    return variable(made)


def _request_with_files(job: MappingJob, request: Ref) -> Ref:
    """A code node that makes n8n's item and its files of a request."""
    options = {
        "version": job.node.version,
        "rawBody": job.option("options", "rawBody") is True,
        "binaryData": job.node.version < 2 and job.option("options", "binaryData") is True,
        "name": str(job.fixed("options", "binaryPropertyName", default="") or ""),
    }
    named = variable(job.add("set", {"values": {"name": "{{ctx.run.id}}"}}, suffix="file")).field("name")
    head = f"const request = {request.js}, options = {json.dumps(options)}, unnamed = {named.js};\n"
    code = f"{prelude('buffer')}{prelude('files')}{xml_prelude()}\n{head}{BODY_TEXT}{REQUEST}"
    return variable(job.add("javascript", {"code": code}, suffix="request", retry={"maxAttempts": 1}))


def _answer_at_once(job: MappingJob) -> dict[str, Any]:
    """Answer before anything else runs, if the node has a text or a status for that."""
    data = job.option("options", "responseData")
    code = job.option("options", "responseCode", "values", "responseCode", default=job.option("responseCode"))
    if code == "customCode":
        code = job.option("options", "responseCode", "values", "customCode")
    if data is None and code in (None, 200):
        return {}
    text = without_sign(data) if data is not None else '{"message":"Workflow was started"}'
    if not isinstance(text, str) or text.startswith("=") or (code is not None and not isinstance(code, int)):
        raise NotMapped("what it answers is computed")
    kind = "application/json; charset=utf-8" if data is None else "text/html; charset=utf-8"
    return {"status": code or 200, "headers": {"Content-Type": kind}, "body": escaped(text)}


def _authentication(job: MappingJob) -> dict[str, Any]:
    kind = job.fixed("authentication", default="none")
    match kind:
        case "none":
            return {}
        case "basicAuth":
            (secret,) = job.secret("httpBasicAuth", "user_and_password")
            return {"auth": {"kind": "basic", "secret": secret}}
        case "headerAuth":
            (secret,) = job.secret("httpHeaderAuth", "value")
            job.remarks.append("the name of the header is part of the credential: enter it in `auth`")
            return {"auth": {"kind": "header", "name": "Authorization", "secret": secret}}
    raise NotMapped(f"the authentication {kind}")


@maps("scheduleTrigger", becomes="schedule, set", begins=True)
def schedule(job: MappingJob) -> None:
    """`scheduleTrigger`: each of its rules is a schedule."""
    rules = job.option("rule", "interval", default=[{}])
    if (days := _days_between(rules)) > 1:
        _every_some_days(job, rules[0], days)
        return
    _schedules(
        job, [_rule(job, each) for each in (rules if isinstance(rules, list) else [{}]) if isinstance(each, dict)]
    )


def _days_between(rules: Any) -> int:
    """The days from one time of its only rule to the next; 0: it has another rule."""
    if not isinstance(rules, list) or len(rules) != 1 or not isinstance(rules[0], dict):
        return 0
    return _number(rules[0], "daysInterval", 1) if rules[0].get("field", "days") == "days" else 0


def _every_some_days(job: MappingJob, rule: Mapping[str, Any], days: int) -> None:
    """A schedule for each day, and a look at when it was last due: n8n counts days of the year, modulo 365."""
    minute, hour = _number(rule, "triggerAtMinute", 0), _number(rule, "triggerAtHour", 0)
    zone, name = job.around.timezone, kept_name("node", job.node_id)
    job.add("schedule", {"cron": f"{minute} {hour} * * *", "timezone": zone})
    day = expression(f"ctx.{job.node_id}.scheduledAt | date_format('%j', {quoted(zone)}) | int")
    today = job.add("set", {"values": {"day": day}}, suffix="day")
    job.keeps = (name,)
    read = job.add("readVariables", {"of": "workflow", "names": [name]}, suffix="kept")
    code = (f"const last = ctx[{json.dumps(read)}]?.[{json.dumps(name)}]?.recurrenceRules?.[0] ?? null;\n"
            f"const day = ctx[{json.dumps(today)}].day;\n"
            f"return {{isDue: last === null || day === (last + {days}) % 365,"
            f" kept: {{{json.dumps(name)}: {{recurrenceRules: [day]}}}}}};")  # fmt: skip
    looked = job.add("javascript", {"code": code}, suffix="look", retry={"maxAttempts": 1})
    job.add("condition", {"branches": [{"id": "due", "expression": expression(f"ctx.{looked}.isDue")}]}, suffix="due",
            writes=False)  # fmt: skip
    job.add("writeVariables", {"values": expression(f"ctx.{looked}.kept")}, suffix="keep", after="due", writes=False)
    job.remarks.append("a run begins each day, and ends at once on days on which n8n begins none")
    _add_time(job)


@maps("cron", becomes="schedule, set", begins=True)
def cron(job: MappingJob) -> None:
    """`cron`: the older form of the same."""
    items = job.option("triggerTimes", "item", default=[{}])
    _schedules(
        job, [_cron_item(each) for each in (items if isinstance(items, list) else [{}]) if isinstance(each, dict)]
    )


@maps("interval", becomes="schedule, set", begins=True)
def interval(job: MappingJob) -> None:
    """`interval`: again and again."""
    unit = {"seconds": "s", "minutes": "m", "hours": "h"}.get(str(job.option("unit", default="seconds")))
    amount = job.option("interval", default=1)
    if unit is None or not isinstance(amount, int) or amount < 1:
        raise NotMapped("its interval is computed")
    _schedules(job, [{"every": f"{amount}{unit}"}])


def _schedules(job: MappingJob, timings: list[dict[str, Any]]) -> None:
    if not timings:
        timings = [{"cron": "0 0 * * *"}]
    for timing in timings:
        if "cron" in timing:
            timing["timezone"] = job.around.timezone
    if len(timings) > 1:
        same = [timing["cron"].split(" ") for timing in timings if "cron" in timing]
        merged = _merged(same) if len(same) == len(timings) else None
        if merged is None:
            raise NotMapped("it has several rules, which do not fit into one cron expression")
        timings = [{"cron": merged, "timezone": job.around.timezone}]
    job.add("schedule", timings[0])
    _add_time(job)


def _add_time(job: MappingJob) -> None:
    """The item that n8n makes of the time."""
    at, zone = f"ctx.{job.node_id}.scheduledAt", job.around.timezone
    values = {name: expression(f"{at} | date_format('{form}', '{zone}')") for name, form in _FIELDS.items()}
    values["timestamp"] = expression(at)
    job.add("set", {"values": values}, suffix="time")
    job.leave(many=False)


_FIELDS = {"Day of week": "%A", "Year": "%Y", "Month": "%B", "Day of month": "%d", "Hour": "%H", "Minute": "%M",
           "Second": "%S"}  # fmt: skip


def _merged(crons: list[list[str]]) -> str | None:
    """Several cron expressions that differ in one field only, as one."""
    different = [index for index in range(5) if len({cron[index] for cron in crons if len(cron) == 5}) > 1]
    if any(len(cron) != 5 for cron in crons) or len(different) > 1:
        return None
    made = list(crons[0])
    for index in different:
        if any(cron[index].startswith("*") for cron in crons):
            return None
        made[index] = ",".join(dict.fromkeys(cron[index] for cron in crons))
    return " ".join(made)


def _rule(job: MappingJob, rule: Mapping[str, Any]) -> dict[str, Any]:
    field = rule.get("field", "days")
    minute, hour = _number(rule, "triggerAtMinute", 0), _number(rule, "triggerAtHour", 0)
    match field:
        case "cronExpression":
            return {"cron": _expression(rule.get("expression"))}
        case "seconds":
            return {"cron": f"*/{_within(_number(rule, 'secondsInterval', 30), 59)} * * * * *"}
        case "minutes":
            every = _number(rule, "minutesInterval", 5)
            return {"cron": f"*/{every} * * * *"} if 60 % every == 0 and every < 60 else {"every": f"{every}m"}
        case "hours":
            every = _number(rule, "hoursInterval", 1)
            return {"cron": f"{minute} */{every} * * *"} if every < _DAY else {"every": f"{every}h"}
        case "days":
            every = _number(rule, "daysInterval", 1)
            if every == 1:
                return {"cron": f"{minute} {hour} * * *"}
            job.differs(f"every {every} days are counted from the publication, at its time of day")
            return {"every": f"{every}d"}
        case "weeks":
            if (every := _number(rule, "weeksInterval", 1)) != 1:
                job.differs(f"every {every} weeks are counted from the publication, at its time of day")
                return {"every": f"{every * 7}d"}
            days = rule.get("triggerAtDay", [0])
            listed = days if isinstance(days, list) and days else [0]
            return {"cron": f"{minute} {hour} * * {','.join(str(_digit(day)) for day in listed)}"}
        case "months":
            day, every = _number(rule, "triggerAtDayOfMonth", 1), _number(rule, "monthsInterval", 1)
            return {"cron": f"{minute} {hour} {day} {'*' if every == 1 else f'*/{every}'} *"}
    raise NotMapped(f"the rule {field}")


def _cron_item(item: Mapping[str, Any]) -> dict[str, Any]:
    minute, hour = _number(item, "minute", 0), _number(item, "hour", 14)
    match item.get("mode", "everyDay"):
        case "everyMinute":
            return {"cron": "* * * * *"}
        case "everyHour":
            return {"cron": f"{minute} * * * *"}
        case "everyDay":
            return {"cron": f"{minute} {hour} * * *"}
        case "everyWeek":
            return {"cron": f"{minute} {hour} * * {_digit(item.get('weekday', '1'))}"}
        case "everyMonth":
            return {"cron": f"{minute} {hour} {_number(item, 'dayOfMonth', 1)} * *"}
        case "everyX":
            value, unit = _number(item, "value", 2), item.get("unit", "hours")
            if unit == "minutes":
                return {"cron": f"*/{value} * * * *"} if value < 60 else {"every": f"{value}m"}
            return {"cron": f"0 */{value} * * *"} if value < _DAY else {"every": f"{value}h"}
        case "custom":
            return {"cron": _expression(item.get("cronExpression"))}
    raise NotMapped("its mode is computed")


def _expression(written: Any) -> str:
    if not isinstance(written, str) or len(written.lstrip("=").split()) not in (5, 6) or "{{" in written:
        raise NotMapped("its cron expression is computed, or has another form")
    return " ".join(written.lstrip("=").split())


def _number(rule: Mapping[str, Any], name: str, default: int) -> int:
    value = rule.get(name, default)
    if isinstance(value, str) and (written := _WRITTEN_NUMBER.fullmatch(value)):
        digits = written[1] or written[2]
        is_octal = written[2] is not None and digits[0] == "0" and not set(digits) - set("01234567")
        value = int(digits, 8 if is_octal else 10)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise NotMapped(f"its {name} is computed")
    return value if value or name.startswith("trigger") or name in ("minute", "hour") else default


def _within(value: int, most: int) -> int:
    if not 1 <= value <= most:
        raise NotMapped("its interval is outside of what cron can say")
    return value


def _digit(day: Any) -> int:
    if not str(day).isdigit() or not 0 <= int(day) <= 7:
        raise NotMapped("its day of the week is computed")
    return int(day)


@maps("executeWorkflowTrigger", becomes="workflowCall", begins=True)
def called(job: MappingJob) -> None:
    """`executeWorkflowTrigger`: called by another workflow, with its items."""
    job.add("workflowCall", {})
    given = variable(job.node_id)
    listed = Ref(
        f"({given.template}.n8nItems | default([{given.template}]))",
        f"({given.js}?.n8nItems ?? [{given.js}])",
        f'({given.python}["n8nItems"] if "n8nItems" in {given.python} else [{given.python}])',
    )
    job.leave(listed, many=True)


@maps("errorTrigger", becomes="failure, set", begins=True)
def failed(job: MappingJob) -> None:
    """`errorTrigger`: a run of another workflow has failed."""
    job.add("failure", {})
    given = variable(job.node_id).template
    name, message = f"({given}.error.type | default('Error'))", f"{given}.error.message"
    stack = f"{name} ~ ': ' ~ {message} ~ '\\n' ~ ({given}.error.traceback | default(''))"
    error = {"message": expression(message), "name": expression(name), "stack": expression(stack)}
    execution = {
        "id": expression(f"{given}.run.instanceID"),
        "url": expression(f"{given}.url | default({given}.link)"),
        "error": error,
        "lastNodeExecuted": expression(f"{given}.error.nodeID | default(none)"),
        "mode": "trigger",
    }
    workflow = {"id": expression(f"{given}.run.workflowID"), "name": expression(f"{given}.run.workflow")}
    job.add("set", {"values": {"execution": execution, "workflow": workflow}}, suffix="error")
    job.differs(
        "it begins for failures of all other workflows (name one in `workflow`), where n8n begins it for those whose"
        " settings name it, or for its own"
    )
    job.differs("`mode` is always trigger, and `lastNodeExecuted` is the id of the node")
    job.leave(many=False)
