"""Pages of a request of n8n as a loop of ours: parameters, request, a look at the answer, and back for more.

Pure. Called by the mapping of requests. The expressions that read `$response` and `$pageCount` are JavaScript as they
are, in code nodes; each page is a step of the run of its own.
"""

# ruff: noqa: E501 - lines of JavaScript
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.js_code import values_code
from anabranch.n8n.js_reading import check_expression
from anabranch.n8n.refs import Ref, quoted, variable
from anabranch.n8n.texts import expression, js_of

# 5 minutes: what `delay` of a request takes.
DELAY_MS_MAX = 300_000

# n8n asks for 100 pages where a limit is set without a number.
_PAGES = 100
_PLACES = {"qs": "query", "headers": "headers", "body": "json"}

_SEEN = """const pages = [...before, answer], code = answer.status, isOk = code >= 200 && code < 300;
const same = {length: answer.headers['content-length'] ?? '', mark: answer.headers.etag ?? JSON.stringify($response.body)};
const last = ctx[seenAs]?.same, count = last && last.length === same.length && last.mark === same.mark ? last.count + 1 : 0;
if (count > 2) throw new Error('The returned response was identical 5x, so requests got stopped');
const more = !(values.most > 0 && pages.length >= values.most) && Boolean(values.more);
if (more && !isOk) throw new Error(`${code} - ${JSON.stringify($response.body)}`);
return {pages, more, same: {...same, count}};"""


def pagination_of(job: MappingJob) -> Mapping[str, Any] | None:
    """How pages are asked for; None: there is one."""
    given = job.option("options", "pagination", "pagination", default={})
    if not isinstance(given, dict) or not given or given.get("paginationMode") == "off":
        return None
    return given


def begin_pages(job: MappingJob, given: Mapping[str, Any], config: dict[str, Any]) -> str | None:
    """Enter what changes from page to page into the config of the request. Why that cannot be said here, or None.

    The caller adds the request, and then `end_pages`.
    """
    if job.is_mapped or job.error_way != "stop" or config.get("response") == "base64":
        return "only the first page is asked for"
    sources: dict[str, str] = {}
    try:
        if given.get("paginationMode") == "responseContainsNextURL":
            first, sources["url"] = config["url"], _source(job, given.get("nextURL", ""))
            config["url"] = expression(f"ctx.{job.node_id}_page.url if ctx.{job.node_id}_page.url else {_said(first)}")
        for number, each in enumerate(_parameters(given)):
            place, key = config.setdefault(_PLACES[str(each.get("type", "qs"))], {}), f"p{number}"
            if not isinstance(place, dict):
                return "only the first page is asked for"
            sources[key] = _source(job, each.get("value", ""))
            place[str(each["name"])] = expression(f"ctx.{job.node_id}_page.{key} | default(none)")
        _looks(job, given)
    except (NotMapped, KeyError):
        return "only the first page is asked for"
    config["okStatuses"] = list(range(400, 600))
    pause = given.get("requestInterval", 0)
    if isinstance(pause, int) and 0 < pause <= DELAY_MS_MAX:
        config["delay"] = expression(f"{pause} if (ctx.{job.node_id}_seen | default(none)) != none else 0")
    job.add("javascript", {"code": _code(job, sources, "return values;")}, suffix="page", retry={"maxAttempts": 1})
    return None


def end_pages(job: MappingJob, given: Mapping[str, Any]) -> Ref:
    """What looks at an answer and leads back for more; all answers, as a list."""
    asked, answer = job.nodes[-2]["id"], variable(job.nodes[-1]["id"])
    seen = f"{job.node_id}_seen"
    head = f"const seenAs = {json.dumps(seen)}, answer = {answer.js}, before = ctx[seenAs]?.pages ?? [];\n"
    job.add("javascript", {"code": _code(job, _looks(job, given), head + _SEEN, answer)}, suffix="seen",
            retry={"maxAttempts": 1})  # fmt: skip
    branches = [{"id": "more", "expression": expression(f"ctx.{seen}.more")}]
    job.add("condition", {"branches": branches}, suffix="more", writes=False)
    job.edges.append((job.nodes[-1]["id"], "more", asked))
    job.add("fields", {"source": expression(f"ctx.{seen}"), "keep": ["pages"]}, suffix="pages", after="else")
    return variable(job.nodes[-1]["id"]).field("pages")


def _looks(job: MappingJob, given: Mapping[str, Any]) -> dict[str, str]:
    """Whether there is more, and the most pages, as JavaScript."""
    most = given.get("maxRequests", _PAGES) if given.get("limitPagesFetched") is True else 0
    match given.get("paginationCompleteWhen", "responseIsEmpty"):
        case "responseIsEmpty":
            more = "Array.isArray($response.body) ? $response.body.length > 0 : Boolean($response.body)"
        case "receiveSpecificStatusCodes":
            codes = [
                int(code) for code in str(given.get("statusCodesWhenComplete", "")).split(",") if code.strip().isdigit()
            ]
            more = f"!{json.dumps(codes)}.includes($response.statusCode)"
        case "other":
            never = job.option("options", "response", "response", "neverError") is True
            status = "" if never else " || $response.statusCode < 200 || $response.statusCode >= 300"
            more = f"!({_source(job, given['completeExpression'])}){status}"
        case _:
            raise NotMapped("when the pages end is computed")
    return {"more": more, "most": f"(most => Number.isFinite(most) ? most : 0)(Number({_source(job, most)}))"}


def _parameters(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if given.get("paginationMode") == "responseContainsNextURL":
        return []
    listed = (given.get("parameters") or {}).get("parameters")
    if not isinstance(listed, list) or not listed:
        raise NotMapped("it changes no parameter")
    for each in listed:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not name or name.startswith("="):
            raise NotMapped("the name of a parameter is computed")
    return listed


def _source(job: MappingJob, written: Any) -> str:
    js = js_of(written)
    plain = js.replace("$response", "$json").replace("$pageCount", "$itemIndex")
    if (absent := check_expression(plain, job.around.timezone)) is not None:
        raise NotMapped(absent)
    job.counts.as_code += isinstance(written, str) and written.startswith("=")
    return js


def _said(url: str) -> str:
    """An address, which is a text or one template, within an expression."""
    if not url.startswith("{{"):
        if "{{" in url:
            raise NotMapped("its address is made of parts")
        return quoted(url)
    return f"({url[2:-2]})"


def _code(job: MappingJob, sources: Mapping[str, str], tail: str, answer: Ref | None = None) -> str:
    """Code that computes `values` from `$response` and `$pageCount`, and what follows."""
    feed, seen = job.needed_feed(), f"ctx[{json.dumps(f'{job.node_id}_seen')}]"
    last = f"{seen}?.pages.at(-1)" if answer is None else answer.js
    count = f"({seen}?.pages.length ?? 0)" + ("" if answer is None else " + 1")
    names = job.around.code_names(job, " ".join(sources.values()), per_item=False)
    head = (
        f"const $last = {last}, $isJson = String($last?.headers['content-type']).includes('application/json');\n"
        "const $response = $last ? {body: $last.body ?? ($isJson ? {} : ''), headers: $last.headers,"
        f" statusCode: $last.status}} : {{}}, $pageCount = {count};\n"
    )
    return values_code(sources, feed, names, head, tail)
