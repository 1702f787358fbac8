"""Nodes of n8n that read and write texts and dates: HTML, Markdown, XML, hashes, points in time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from anabranch.n8n.dates import format_of
from anabranch.n8n.expressions import translate
from anabranch.n8n.javascript import prelude, xml_prelude
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import continue_on_fail
from anabranch.n8n.maps.map_data import item_of, put_at
from anabranch.n8n.maps.programs import HTML_ITEMS, HTML_MADE, HTML_RESULTS, XML_READ, XML_WRITTEN
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.phrases import Untranslatable
from anabranch.n8n.refs import INDEX, ItemFeed, Ref, number, quoted, variable
from anabranch.n8n.texts import Source, Texts, expression, split


@maps("html", "htmlExtract", becomes="html, set")
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
    feed = continue_on_fail.begin(job)
    name = str(job.fixed("dataPropertyName", default="data"))
    if job.fixed("sourceData", default="json") == "json":
        source = _field_of_item(job, feed, name)
    else:
        source = _text_of_file(job, feed, name)
    values, wanted = _extracted(job)
    given = job.option("options", default={})
    old = job.node.kind == "htmlExtract"
    options = {
        "name": name,
        "trim": given.get("trimValues") is not False if old else given.get("trimValues") is True,
        "clean": not old and given.get("cleanUpText") is True,
        "emptyIsMissing": not old and job.node.version <= LAST_WITH_PLAIN_TEXT,
        "first": not old and job.node.version > LAST_WITH_PLAIN_TEXT,
        "values": wanted,
    }
    job.add("html", {"source": source, "values": values}, suffix="found", each=feed, **job.on_error())
    found = variable(job.nodes[-1]["id"])
    listed = f"{found.js} ?? []" if feed.many else f"[{found.js}]"
    head = f"const found = {listed}, options = {json.dumps(options)};\n{HTML_ITEMS}\n"
    if job.error_way != "stop":
        continue_on_fail.end(job, HTML_RESULTS, head=head)
        return
    job.add("javascript", {"code": head + HTML_MADE}, retry={"maxAttempts": 1})
    made = variable(job.node_id)
    job.leave(made.field("items"), many=True, pairing=made.field("of"))


# Version 1.1 is the last whose texts are just what stands in the elements.
LAST_WITH_PLAIN_TEXT = 1.1


def _extracted(job: MappingJob) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The values that our node takes, as `v0`, `v1` and so on, and what n8n's makes of it."""
    values: dict[str, Any] = {}
    wanted: list[dict[str, Any]] = []
    for each in job.option("extractionValues", "values", default=[]):
        key, selector, kind = (
            str(each.get("key", "")),
            str(each.get("cssSelector", "")),
            each.get("returnValue", "text"),
        )
        attribute = str(each.get("attribute", ""))
        if any(text.startswith("=") for text in (key, selector, str(kind), attribute)):
            raise NotMapped("what it extracts is computed")
        if not selector:
            raise NotMapped("it extracts by no selector")
        if kind == "attribute" and not attribute:
            raise NotMapped("it takes an attribute without a name")
        if each.get("skipSelectors"):
            job.differs("text of parts that are to be skipped is not left out")
        laid_out = job.node.kind == "html" and job.node.version > LAST_WITH_PLAIN_TEXT
        take = str(kind) if kind != "text" else "plainText" if laid_out else "visibleText"
        value = {"selector": selector, "take": take, "trim": False, "all": True}
        if take == "attribute":
            value["attribute"] = attribute
            if attribute == "value":
                values[f"f{len(wanted)}"] = {**value, "take": "value"}
                del values[f"f{len(wanted)}"]["attribute"]
        values[f"v{len(wanted)}"] = value
        wanted.append({"key": key, "kind": kind, "attribute": attribute, "all": each.get("returnArray") is True})
    if not wanted:
        raise NotMapped("it extracts nothing")
    return values, wanted


def _text_of_file(job: MappingJob, feed: ItemFeed, name: str) -> str:
    """The text of a file of each item, by a code node in front."""
    files = feed.as_list().files
    if files is None:
        raise NotMapped("it reads a file")
    code = f"{prelude('buffer')}return ({files.js} ?? []).map(each => {{\n  const file = each?.[{json.dumps(name)}];\n"
    code += "  if (!file) throw new Error('There is no such file');\n"
    code += "  return Buffer.from(file.data, 'base64').toString();\n});"
    job.add("javascript", {"code": code}, suffix="text", retry={"maxAttempts": 1})
    texts = variable(job.nodes[-1]["id"])
    return expression(texts.at(INDEX if feed.many else number(0)).template)


def _field_of_item(job: MappingJob, feed: ItemFeed, name: str) -> str:
    item = Ref("ctx.item", "") if feed.many else feed.value
    keys = name.split(".")
    for key in keys:
        item = item.field(key)
    return expression(item.template)


@maps("markdown", becomes="markdown, set")
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


def _put_beside(job: MappingJob, feed: ItemFeed, key: str, *, include: bool = True, files: Ref | None = None) -> None:
    """The result of the node before, in a field of the item."""
    before = variable(job.nodes[-1]["id"])
    result = before.at(INDEX) if feed.many else before
    config: dict[str, Any] = {"values": {}}
    put_at(config["values"], key.split("."), expression(result.template))
    if include:
        if "." in key:
            raise NotMapped("it sets a field within one that it keeps")
        config["base"] = item_of(job, feed)
    job.add("set", config, each=feed)
    job.leave(files=files)


_XML_OPTIONS = frozenset({"attrkey", "charkey", "mergeAttrs", "explicitArray", "explicitRoot", "ignoreAttrs",
                          "normalize", "normalizeTags", "trim", "headless", "rootName", "cdata"})  # fmt: skip


@maps("xml", becomes="javascript")
def xml(job: MappingJob) -> None:
    """`xml`: to JSON or from it, by a code node that does it as n8n does."""
    name = str(job.fixed("dataPropertyName", default="data"))
    given: Mapping[str, Any] = job.option("options", default={})
    if set(given) - _XML_OPTIONS or any(str(value).startswith("=") for value in given.values()):
        raise NotMapped("an option of its is computed, or not known")
    head = f"const name = {json.dumps(name)}, options = {json.dumps(dict(given))};\n"
    reads = job.fixed("mode", default="xmlToJson") == "xmlToJson"
    made = XML_READ if reads else XML_WRITTEN
    job.program(f"{xml_prelude()}{head}{made}{'' if job.is_mapped else '[0]'};")
    job.leave()


_HASHES = {"MD5": "md5", "SHA1": "sha1", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512",
           "SHA3-256": "sha3-256", "SHA3-512": "sha3-512"}  # fmt: skip


@maps("crypto", becomes="crypto, set")
def crypto(job: MappingJob) -> None:
    """`crypto`: hashes, signatures with a shared key, random values."""
    texts, feed = job.texts(), job.needed_feed()
    action, key = job.fixed("action", default="hash"), str(job.fixed("dataPropertyName", default="data"))
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
                      **_hashed(job, texts)}  # fmt: skip
            if action == "hmac":
                (name,) = job.secret("crypto", "key")
                config["key"] = f"{{{{secret.{name}}}}}"
                job.remarks.append("its key becomes a secret: enter it")
        case _:
            raise NotMapped("it signs with a private key")
    job.add("crypto", config, suffix="value", each=feed)
    _put_beside(job, feed, key, files=None if "sourceEncoding" in config else feed.files)


def _hashed(job: MappingJob, texts: Texts) -> dict[str, Any]:
    """A text, or a file, which then goes no further."""
    if job.option("binaryData") is not True:
        phrase = texts.phrase(job.option("value", default=""))
        if phrase.kind == "text":
            return {"source": texts.text(job.option("value", default=""))}
        return {"source": expression(_needed(phrase.text if phrase.is_path else f"({phrase.value})"))}
    name = job.fixed("binaryPropertyName", default="data")
    if not isinstance(name, str) or not name:
        raise NotMapped("which file it reads is computed")
    data = texts.scope.files().field(name).field("data")
    return {"source": expression(_needed(data.template)), "sourceEncoding": "base64"}


def _needed(value: str) -> str:
    """A text that has to be there: n8n fails where it is missing."""
    return f"{value} | replace('', '', 0)"


@maps("dateTime", becomes="dateTime, set")
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
            template = (
                "now"
                if job.option("includeTime", default=True) is not False
                else f"now | date_start('day', {quoted(zone)})"
            )
            values = {name: expression(template)}
            job.add("set", {"values": values} | ({"base": item_of(job, feed)} if include else {}), each=feed)
            job.leave()
            return
        case "formatDate":
            config |= _formatted(job, texts, zone)
        case "addToDate" | "subtractFromDate":
            duration = job.option("duration", default=0)
            amount = texts.phrase(duration)
            if isinstance(duration, float) and not duration.is_integer():
                job.differs("only whole numbers of units are added")
            whole = f"({amount.as_number()} | int)"
            config |= {
                "operation": "add",
                "source": _date_of(texts, job.option("magnitude", default="")),
                "amount": expression(whole if operation == "addToDate" else f"0 - {whole}"),
                "unit": str(job.fixed("timeUnit", default="days")),
            }
        case "getTimeBetweenDates":
            units = job.option("units", default=["day"])
            if not isinstance(units, list) or len(units) != 1:
                raise NotMapped("a difference in several units")
            if str(units[0]).rstrip("s") in ("month", "quarter", "year"):
                job.differs("a difference is a whole number of units")
            config |= {"operation": "difference", "source": _date_of(texts, job.option("endDate", default="")),
                       "other": _date_of(texts, job.option("startDate", default="")),
                       "unit": f"{str(units[0]).rstrip('s')}s"}  # fmt: skip
            job.add("dateTime", config, suffix="value", each=feed)
            unit = config["unit"]
            before = variable(job.nodes[-1]["id"])
            result = before.at(INDEX) if feed.many else before
            between: dict[str, Any] = {name: {unit: expression(result.template)}}
            job.add("set", {"values": between} | ({"base": item_of(job, feed)} if include else {}), each=feed)
            job.leave()
            return
        case _:
            raise NotMapped(f"the operation {operation}")
    job.add("dateTime", config, suffix="value", each=feed)
    _put_beside(job, feed, name, include=include)


# Numbers of fewer digits are seconds, also with fractions; others are milliseconds.
_MOMENT = """(v => {
  if (v === null) return NULL;
  const n = Number(v), whole = Number.isInteger(n) ? n : n * 1000;
  if (v === undefined || Number.isNaN(n)) return v;
  if (!Number.isInteger(whole)) throw Object.assign(new Error('Invalid date format'), {fails: true});
  return String(whole).length < 12 ? whole * 1000 : whole;
})"""


def _formatted(job: MappingJob, texts: Texts, zone: str) -> dict[str, Any]:
    """The config that writes a date in a format."""
    if job.option("options", "fromFormat"):
        raise NotMapped("it reads a date of another form")
    date = job.option("date", default="")
    in_zone = zone in ("UTC", "Etc/UTC") or job.option("options", "timezone") is True or _is_date(texts, date)
    if not in_zone:
        job.differs("dates are written in the time zone of the workflow, in n8n in UTC or that of a text")
    return {"operation": "format", "source": _date_of(texts, date, null="v"), "format": _format(job)}


def _is_date(texts: Texts, written: Any) -> bool:
    """Whether a value is an object of JavaScript that is a date, whatever the item is."""
    pieces = split(written[1:]) if isinstance(written, str) and written.startswith("=") else []
    with suppress(Untranslatable):
        if len(pieces) == 1 and isinstance(pieces[0], Source):
            return translate(pieces[0].js, texts.scope).kind in ("date", "jsdate")
    return False


def _date_of(texts: Texts, written: Any, *, null: str = "0") -> Any:
    """A date of the second version: what is a number, or a text of one, counts seconds or milliseconds since 1970."""
    pieces = split(written[1:]) if isinstance(written, str) and written.startswith("=") else []
    if len(pieces) != 1 or not isinstance(pieces[0], Source):
        return texts.value(written)
    if _is_date(texts, written):
        return texts.value(written)
    try:
        made = texts.compute(f"{_MOMENT.replace('NULL', null)}({pieces[0].js}\n)")
    except Untranslatable:
        return texts.value(written)
    texts.counts.as_code += 1
    return expression(made.whole())


_DATE_FIELDS = {"getCurrentDate": "currentDate", "formatDate": "formattedDate", "getTimeBetweenDates": "timeDifference"}


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
    config: dict[str, Any] = {"timezone": str(zone), "source": _old_date(job, texts)}
    if job.fixed("action", default="format") == "calculate":
        amount = texts.phrase(job.option("duration", default=0))
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
    job.add("dateTime", config, suffix="value", each=feed)
    _put_beside(job, feed, name)


def _old_date(job: MappingJob, texts: Texts) -> Any:
    """The date that version 1 reads."""
    written, form = job.option("value", default=""), job.fixed("options", "fromFormat", default="")
    if job.option("options", "fromTimezone"):
        raise NotMapped("it reads a date of another form")
    phrase = texts.phrase(written)
    if form:
        read = format_of(str(form), moment=True)
        if read is None:
            raise NotMapped("it reads a date of another form")
        return expression(f"{phrase.atom} | date_parse({quoted(read)}, {quoted(job.around.timezone)})")
    if phrase.kind not in ("date", "jsdate"):
        job.differs("dates are read as ISO 8601 with an offset, or as milliseconds")
    return texts.value(written) if phrase.kind not in ("date", "jsdate") else expression(phrase.whole())
