"""Pages of a request of n8n as a loop of ours, whose body computes the parameters, asks, and looks at the answer.

Pure. Called by the mapping of requests. The expressions that read `$response` and `$pageCount` are JavaScript as they
are, in code nodes. The loop collects the answers; a page that n8n would fail for is asked for again by another
iteration, as often as the node tries, for whether it is a failure is known only once it was looked at.
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
_FIELDS = {"qs": "query", "headers": "headers", "body": "json"}

# As many as a loop over a list has items; 1 MB of answers is reached long before.
_ITERATIONS_MAX = 100_000

# What a request sends beside its method and address, and trusts.
_CARRIED = frozenset({"headers", "auth", "query", "json", "body", "base64", "checkCertificate"})

_SEEN = """const code = answer.status, isOk = code >= 200 && code < 300, last = good.at(-1)?.same;
const same = {length: answer.headers['content-length'] ?? '', mark: answer.headers.etag ?? JSON.stringify($response.body)};
const count = last && last.length === same.length && last.mark === same.mark ? last.count + 1 : 0;
if (count > 2) throw new Error('The returned response was identical 5x, so requests got stopped');
const more = !(values.most > 0 && $pageCount >= values.most) && Boolean(values.more);
if (isOk || !more) return {answer, more, same: {...same, count}, failed: 0};
const failed = (ctx["results"].at(-1)?.failed ?? 0) + 1;
if (failed < tries) return {more, failed};
throw new Error(`${code} - ${JSON.stringify($response.body)}`);"""

# An origin is compared as it is written: an address that could be read in two ways has none.
_SAME_ORIGIN = r"""const originOf = url => /^https?:\/\/[^\/?#\\@\s]+(?=[\/?#]|$)/i.exec(String(url))?.[0].toLowerCase().replace(/^(http:.*):80$|^(https:.*):443$/, '$1$2');
const first = originOf(String(values.first).includes('://') ? values.first : `http://${values.first}`);
if (values.url && (!first || originOf(values.url) !== first))
  throw new Error('the next page is at another origin than the first; what the request carries is not sent there');
"""


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
    _leave_item(job)
    sources: dict[str, str] = {}
    check = ""
    try:
        if given.get("paginationMode") == "responseContainsNextURL":
            first, sources["url"] = config["url"], _source(job, given.get("nextURL", ""))
            config["url"] = expression(
                f"ctx.{job.node_id}_page.url if ctx.{job.node_id}_page.url else {_address(first)}"
            )
            if _CARRIED & config.keys():
                sources["first"], check = _source(job, job.option("url", default="")), _SAME_ORIGIN
                job.differs("a next page at another origin than the first is not asked for, and fails")
        for number, each in enumerate(_parameters(given)):
            fields, key = config.setdefault(_FIELDS[str(each.get("type", "qs"))], {}), f"p{number}"
            if not isinstance(fields, dict):
                return "only the first page is asked for"
            sources[key] = _source(job, each.get("value", ""))
            fields[str(each["name"])] = expression(f"ctx.{job.node_id}_page.{key} | default(none)")
        _looks(job, given)
    except (NotMapped, KeyError):
        return "only the first page is asked for"
    config["okStatuses"] = list(range(400, 600))
    if (delay := _delay(job, given)) is not None:
        config["delay"] = delay
    asks = expression("ctx.index == 0 or (ctx.results | last).more")
    yields = expression(f"ctx.{job.node_id}_seen")
    job.add("loop", {"while": asks, "yield": yields, "maxIterations": _ITERATIONS_MAX}, suffix="pages")
    code = _code(job, sources, f"{check}return values;")
    job.add("javascript", {"code": code}, suffix="page", after="loop", retry={"maxAttempts": 1})
    job.remarks.append("all pages together have at most 1 MB, and one that fails is asked for again by itself")
    return None


def end_pages(job: MappingJob, given: Mapping[str, Any]) -> str:
    """Add the nodes that look at an answer; returns the id of the loop, whose results have it in the field `answer`."""
    tries = f"const tries = {job.attempts()['retry']['maxAttempts']};\n"
    code = _code(job, _looks(job, given), tries + _SEEN, variable(job.nodes[-1]["id"]))
    job.add("javascript", {"code": code}, suffix="seen", retry={"maxAttempts": 1})
    return f"{job.node_id}_pages"


def _leave_item(job: MappingJob) -> None:
    """Give the item of a loop around this one a variable: in the loop for the pages, no item is current."""
    feed = job.needed_feed()
    if feed.loop is not None:
        job.around.aliases.add(feed.loop)
        raise NotMapped(f"the current item of the loop {feed.loop} is needed where another item is current")


def _delay(job: MappingJob, given: Mapping[str, Any]) -> str | None:
    """How long to wait before a page: the pause between pages, or that before one that failed is asked for again."""
    retry, pause = job.attempts()["retry"], given.get("requestInterval", 0)
    pause = pause if isinstance(pause, int) and 0 < pause <= DELAY_MS_MAX else 0
    wait = retry["backoff"]["base"] if retry["maxAttempts"] > 1 else pause
    if not pause and not wait:
        return None
    return expression(f"0 if ctx.index == 0 else {wait} if (ctx.results | last).failed > 0 else {pause}")


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


def _address(url: str) -> str:
    """An address, which is a text or one template, within an expression."""
    if not url.startswith("{{"):
        if "{{" in url:
            raise NotMapped("its address is made of parts")
        return quoted(url)
    return f"({url[2:-2]})"


def _code(job: MappingJob, sources: Mapping[str, str], tail: str, answer: Ref | None = None) -> str:
    """Code that computes `values` from `$response` and `$pageCount`, and what follows."""
    last, count = ("good.at(-1)?.answer", "good.length") if answer is None else (answer.js, "good.length + 1")
    names = job.around.code_names(job, " ".join(sources.values()), per_item=False)
    head = (
        f'const good = ctx["results"].filter(each => each.answer), answer = {last},'
        " isJson = String(answer?.headers['content-type']).includes('application/json');\n"
        "const $response = answer ? {body: answer.body ?? (isJson ? {} : ''), headers: answer.headers,"
        f" statusCode: answer.status}} : {{}}, $pageCount = {count};\n"
    )
    return values_code(sources, job.needed_feed(), names, head, tail)
