"""Nodes of n8n that work on items: fields, lists, texts, dates."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps import going_on
from anabranch.n8n.maps.list_programs import PATHS, RENAME, SET_WITHIN
from anabranch.n8n.maps.programs import (
    GET,
    PUT,
    PUT_BESIDE,
)
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.phrases import NeverBegins, NeverValid, Phrase
from anabranch.n8n.refs import ItemFeed, literal, no_files, quoted, variable
from anabranch.n8n.texts import LONG, Source, Texts, escaped, expression, js_of, split

_TYPES = {"string": "string", "number": "number", "boolean": "boolean", "array": "array", "object": "object",
          "stringValue": "string", "numberValue": "number", "booleanValue": "boolean", "arrayValue": "array",
          "objectValue": "object"}  # fmt: skip


# -- fields ---------------------------------------------------------------------------------------


@maps("set", becomes="set")
def set_(job: MappingJob) -> None:
    """`set`, all its versions: fields with values, beside those of the item or in their place."""
    feed, texts = going_on.begin(job), job.texts()
    dots = job.option("options", "dotNotation", default=True) is not False
    if job.fixed("mode", default="manual") == "raw":
        config: dict[str, Any] = {"values": _raw(job, texts)}
        _included(job, config, feed)
        if dots and _names_within(job.option("jsonOutput")):
            _set_within(job, {**config, "values": {}}, config["values"])
            return
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
        if computed and (_is_lenient(job) or job.error_way != "stop"):
            job.differs("a value that cannot be converted fails the run")
        if computed and includes:
            _set_by_name(job, texts, fields, dots=dots)
            return
        if _is_deep(fields, dots=dots, includes=includes):
            _set_within(job, config, {name: _typed(job, texts, value, kind) for name, value, kind in fields})
            return
        config["values"] = _values(job, texts, [field for field in fields if field not in computed], dots=dots)
        if computed:
            config["base"] = _computed(texts, computed, dots=dots)
    if job.error_way == "stop":
        job.add("set", config, each=feed)
        job.leave(files=feed.files if _keeps_files(job, config) else no_files(many=feed.many))
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
    is_odd = re.compile(r"\[|(?:^|\.)(?:[0-9]*)(?:\.|$)").search
    return dots and any("[" in name or ("." in name and (includes or is_odd(name))) for name in names)


def _names_within(written: Any) -> bool:
    """Whether JSON may name fields within fields."""
    text = written if isinstance(written, str) else json.dumps(written)
    return re.search(r'"[^"]*[.\[][^"]*"\s*:', text) is not None


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
    said = texts.compute(f"(() => {{ const options = {options};\n{GET}\n{PUT_BESIDE}\n{puts}return whole($json); }})()")
    texts.counts.as_code += sum(str(part).startswith("=") for field in fields for part in field[:2])
    job.add("set", {"base": expression(said.text), "values": {}}, each=job.needed_feed())
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
        typed_value = _typed(job, texts, value, kind)
        if dots:
            put_at(made, name.split("."), typed_value)
        else:
            made[name] = typed_value
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


def _is_lenient(job: MappingJob) -> bool:
    """Whether values that cannot be converted stay as they are."""
    return job.option("options", "ignoreConversionErrors") is True


def _old(job: MappingJob, texts: Texts, value: Any, kind: str) -> Any:
    """The value of a field of the versions before 3: texts that are numbers become numbers in the second, all that
    is declared to be a boolean becomes one, and the rest stays what it is."""
    is_number = kind == "number" and job.node.version >= SECOND
    if not isinstance(value, str) or not value.startswith("="):
        if kind == "boolean":
            return bool(value) or isinstance(value, list | dict)
        return _number_of(value) if is_number and isinstance(value, str) else texts.value(value)
    said = texts.phrase(value)
    if kind == "boolean" and said.kind != "boolean":
        texts.counts.as_code += 1
        return expression(texts.compute(f"!!({js_of(value)})").whole())
    if is_number and said.kind != "number":
        texts.counts.as_code += 1
        read = "typeof v === 'string' && !Number.isNaN(Number(v)) ? Number(v) : v"
        return expression(texts.compute(f"(v => {read})({js_of(value)})").whole())
    return expression(said.whole())


def _number_of(text: str) -> Any:
    """The number that JavaScript reads in a text; the text itself if it reads none. Raises NotMapped."""
    stripped = text.strip()
    if not re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", stripped):
        if re.fullmatch(r"0[xXoObB][0-9a-fA-F]+|[-+]?Infinity", stripped):
            raise NotMapped("a number is written in another form")
        return text if stripped else 0
    number = float(stripped)
    if not math.isfinite(number):
        raise NotMapped("a number is too large")
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < _EXPONENT_FROM else number


# From here on JavaScript writes a number with an exponent.
_EXPONENT_FROM = 1e21
# The version of `set` that reads numbers in texts.
SECOND = 2


def _typed(job: MappingJob, texts: Texts, value: Any, kind: str) -> Any:
    """The value of a field that has a type: written ones are converted here, computed ones when it runs."""
    if kind.startswith("old "):
        return _old(job, texts, value, kind.removeprefix("old "))
    if _is_lenient(job) and kind in ("number", "boolean", "array", "object"):
        if isinstance(value, str) and value.startswith("="):
            said = texts.phrase(value)
            plain = said.text if said.is_path else f"({said.atom} | otherwise(none))"
            return expression(f"({plain} | js_type({quoted(kind)})) | otherwise({plain})")
        try:
            return _converted(texts, value, kind)
        except (NeverValid, NotMapped):
            return texts.value(value)
    if isinstance(value, str) and value.startswith("=") and kind.endswith("string") and "{{" not in value:
        return escaped(value[1:])
    if isinstance(value, str) and value.startswith("="):
        if kind.endswith("string") and len(split(value[1:])) != 1:
            return texts.value(value)
        said = texts.phrase(value)
        if kind == "string" and job.node.version == FIRST_WITH_TYPES:
            return expression(_as_text(said.atom, "undefined"))
        if kind == "string" and said.kind != "text" and FIRST_WITH_TYPES < job.node.version < LETS_NULL_PASS:
            job.differs("text that is null gives null, where n8n fails")
        if kind == "any":
            return expression(said.whole())
        if said.kind == "text" and kind == "string":
            return texts_value(said) if said.text.startswith("'") else expression(said.whole())
        if said.is_path:
            return expression(f"{said.text} | js_type({quoted(kind)})")
        return expression(f"{said.atom} | otherwise(none) | js_type({quoted(kind)})")
    return _converted(texts, value, kind)


# Version 3 makes `null` of null that is declared to be text, those before 3.2 fail for it, later ones let it pass.
FIRST_WITH_TYPES, LETS_NULL_PASS = 3, 3.2


def _as_text(value: str, missing: str) -> str:
    """An expression as text that stands in a larger one: lists and objects are JSON, null is `null`."""
    return f"((({value} | js_type('string')) or ({value} | js_text('{missing}'))) | otherwise('{missing}'))"


def texts_value(said: Phrase) -> str:
    """A text that is known, as it is."""
    return expression(said.text)


def _converted(texts: Texts, value: Any, kind: str) -> Any:
    if value is None:
        return None
    try:
        match kind:
            case "number" if isinstance(value, str):
                read = _number_of(value)
                if isinstance(read, str):
                    raise ValueError(read)
                return read
            case "boolean" if isinstance(value, str):
                return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
            case "boolean" if isinstance(value, int | float) and value in (0, 1):
                return bool(value)
            case "number" if isinstance(value, bool):
                return int(value)
            case "array" | "object":
                read = json.loads(value) if isinstance(value, str) else value
                if isinstance(read, list if kind == "array" else dict) or (kind == "object" and read is None):
                    return texts.value(read)
                raise NeverValid(f"a field expects a {kind} but we got '{str(value)[:80]}'")
            case "string" if isinstance(value, bool):
                return str(value).lower()
            case "string" if not isinstance(value, str):
                return escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            case "boolean" if not isinstance(value, bool):
                raise NeverValid(f"a field expects a {kind} but we got '{str(value)[:80]}'")
    except (ValueError, KeyError, RecursionError):
        if isinstance(value, str) and kind in ("number", "array", "object"):
            raise NeverValid(f"a field expects a {kind} but we got '{value[:80]}'") from None
        raise NotMapped(f"a value is no {kind}") from None
    return texts.value(value)


def _raw(job: MappingJob, texts: Texts) -> Any:
    """An object that is written as JSON, perhaps with expressions in it."""
    written = job.option("jsonOutput", default="{}")
    if written == "":
        raise NeverBegins("its parameter `jsonOutput` is empty")
    pieces = split(written[1:]) if isinstance(written, str) and written.startswith("=") else []
    if len(pieces) < 2 or not any(isinstance(piece, Source) for piece in pieces):
        return json_of(written, texts)
    parts: list[str] = []
    before = ""
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(literal(piece))
            before += piece
        else:
            inside = len(re.findall(r'(?<!\\)"', before)) % 2
            parts.append(_as_text(texts.phrase(f"={{{{{piece.js}}}}}").atom, "undefined" if inside else "null"))
    if sum(map(len, parts)) + 4 * len(parts) <= LONG:
        return expression(f"({' ~ '.join(parts)}) | fromjson")
    made = [json.dumps(each) if isinstance(each, str) else f"f(() => ({each.js}\n))" for each in pieces]
    text = "v !== null && typeof v === 'object' ? JSON.stringify(v) : String(v)"
    listed = f"(f => [{', '.join(made)}].map(v => {text}).join(''))(f => {{ try {{ return f() }} catch {{ }} }})"
    return expression(f"{texts.compute(listed).text} | fromjson")


def json_of(written: Any, texts: Texts) -> Any:
    """JSON text with expressions in it, as a value of ours. Raises NotMapped where it is no JSON."""
    if not isinstance(written, str):
        return texts.value(written)
    if not written.startswith("="):
        return texts.value(_parsed(written))
    pieces = split(written[1:])
    if len(pieces) == 1 and isinstance(pieces[0], Source):
        said = texts.phrase(written)
        if said.kind == "object":
            return expression(said.whole())
        return expression(f"({said.atom} | js_type('object')) | otherwise({said.value})")
    if not any(isinstance(piece, Source) for piece in pieces):
        return texts.value(_parsed("".join(str(piece) for piece in pieces)))
    said = texts.phrase(written)
    return expression(f"({said.atom}) | fromjson" if not said.is_atom else f"{said.text} | fromjson")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError):
        raise NotMapped("what it sends or sets is no valid JSON") from None


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
