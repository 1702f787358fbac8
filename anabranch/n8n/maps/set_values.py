"""Values of fields that n8n's `set` makes: converted to their types, those of older versions, and JSON.

Pure. Called by the mapping of nodes. Written values are converted at import, computed ones when the node runs.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any

from anabranch.n8n.expressions import translate
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.phrases import InvalidExpression, NeverBegins, Phrase, Untranslatable
from anabranch.n8n.refs import literal, quoted
from anabranch.n8n.texts import LONG, Source, Texts, escaped, expression, js_of, split

# What JavaScript makes no field of.
PROTOTYPE = "__proto__"


def is_lenient(job: MappingJob) -> bool:
    """Whether values that cannot be converted stay as they are."""
    return job.option("options", "ignoreConversionErrors") is True


def _old(job: MappingJob, texts: Texts, value: Any, kind: str) -> Any:
    """The value of a field of the versions before 3: texts that are numbers become numbers in the second, all that
    is declared to be a boolean becomes one, and the rest stays what it is."""
    is_number = kind == "number" and job.node.version >= SECOND
    if not isinstance(value, str) or not value.startswith("="):
        if kind == "boolean":
            return bool(value) or isinstance(value, list | dict)
        if value is None and kind == "string":
            return ""
        read = _number_of(value) if is_number and isinstance(value, str) else value
        return texts.value(read)
    phrase = _phrase(job, texts, value, kind)
    if kind == "boolean" and phrase.kind != "boolean":
        texts.counts.as_code += 1
        return expression(texts.compute(f"!!({js_of(value)})").whole())
    if is_number and phrase.kind != "number":
        texts.counts.as_code += 1
        read = "(v => typeof v === 'string' && !Number.isNaN(Number(v)) ? Number(v) : v)"
        return expression(texts.compute(f"(v => Number.isFinite(v) || typeof v !== 'number' ? v : null)"
                                        f"({read}({js_of(value)}))").whole())  # fmt: skip
    return expression(phrase.whole())


def _phrase(job: MappingJob, texts: Texts, value: str, kind: str) -> Phrase:
    """An expression. Where code computes it, NaN and Infinity become what n8n makes of them: text, null, a failure."""
    pieces = split(value[1:])
    if len(pieces) != 1 or not isinstance(pieces[0], Source):
        return texts.phrase(value)
    with suppress(Untranslatable):
        translate(pieces[0].js, texts.scope)
        return texts.phrase(value)
    fails = f"(() => {{ throw Object.assign(new Error('a field expects a {kind} but got ' + v), {{fails: true}}); }})()"
    if kind == "string" and job.node.version >= FIRST_WITH_TYPES:
        made = "String(v)"
    elif kind == "any" or job.node.version < FIRST_WITH_TYPES or is_lenient(job):
        made = "null"
    else:
        made = f"Number.isNaN(v) ? {fails} : null" if kind == "number" else fails
    try:
        phrase = texts.compute(f"(v => typeof v === 'number' && !Number.isFinite(v) ? {made} : v)({pieces[0].js}\n)")
    except Untranslatable:
        return texts.phrase(value)
    texts.counts.as_code += 1
    return phrase


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


def typed_value(job: MappingJob, texts: Texts, value: Any, kind: str) -> Any:
    """The value of a field that has a type: written ones are converted here, computed ones when it runs."""
    if kind.startswith("old "):
        return _old(job, texts, value, kind.removeprefix("old "))
    if is_lenient(job) and kind in ("number", "boolean", "array", "object"):
        if isinstance(value, str) and value.startswith("="):
            phrase = _phrase(job, texts, value, kind)
            plain = phrase.text if phrase.is_path else f"({phrase.atom} | otherwise(none))"
            return expression(f"({plain} | js_type({quoted(kind)})) | otherwise({plain})")
        try:
            return _converted(texts, value, kind)
        except (InvalidExpression, NotMapped):
            return texts.value(value)
    if isinstance(value, str) and value.startswith("=") and kind.endswith("string") and "{{" not in value:
        return escaped(value[1:])
    if isinstance(value, str) and value.startswith("="):
        if kind.endswith("string") and len(split(value[1:])) != 1:
            return texts.value(value)
        phrase = _phrase(job, texts, value, kind)
        if kind == "string" and job.node.version == FIRST_WITH_TYPES:
            return expression(_as_text(phrase.atom, "undefined"))
        if kind == "string" and phrase.kind != "text" and FIRST_WITH_TYPES < job.node.version < LETS_NULL_PASS:
            job.differs("text that is null gives null, where n8n fails")
        if kind == "any":
            return expression(phrase.whole())
        if phrase.kind == "text" and kind == "string":
            return expression(phrase.text if phrase.text.startswith("'") else phrase.whole())
        if phrase.is_path:
            return expression(f"{phrase.text} | js_type({quoted(kind)})")
        return expression(f"{phrase.atom} | otherwise(none) | js_type({quoted(kind)})")
    return _converted(texts, value, kind)


# Version 3 makes `null` of null that is declared to be text, those before 3.2 fail for it, later ones let it pass.
FIRST_WITH_TYPES, LETS_NULL_PASS = 3, 3.2


def _as_text(value: str, missing: str) -> str:
    """An expression as text that stands in a larger one: lists and objects are JSON, null is `null`."""
    return f"((({value} | js_type('string')) or ({value} | js_text('{missing}'))) | otherwise('{missing}'))"


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
                raise InvalidExpression(f"a field expects a {kind} but we got '{str(value)[:80]}'")
            case "string" if isinstance(value, bool):
                return str(value).lower()
            case "string" if isinstance(value, float) and value.is_integer() and abs(value) < _EXPONENT_FROM:
                return str(int(value))
            case "string" if not isinstance(value, str):
                return escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            case "boolean" if not isinstance(value, bool):
                raise InvalidExpression(f"a field expects a {kind} but we got '{str(value)[:80]}'")
    except (ValueError, KeyError, RecursionError):
        if isinstance(value, str) and kind in ("number", "array", "object"):
            raise InvalidExpression(f"a field expects a {kind} but we got '{value[:80]}'") from None
        raise NotMapped(f"a value is not of the type {kind}") from None
    return texts.value(value)


def raw_fields(job: MappingJob, texts: Texts) -> Any:
    """An object that is written as JSON, perhaps with expressions in it."""
    written = job.option("jsonOutput", default="{}")
    if written == "":
        raise NeverBegins("its parameter `jsonOutput` is empty")
    if isinstance(written, str) and not written.startswith("=") and _has_line_breaks(written):
        raise NeverBegins("its parameter `jsonOutput` is not valid JSON")
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
            parts.append(_as_text(texts.phrase(f"={{{{ {piece.js} }}}}").atom, "undefined" if inside else "null"))
    if sum(map(len, parts)) + 4 * len(parts) <= LONG:
        return expression(f"({' ~ '.join(parts)}) | fromjson")
    made = [json.dumps(each) if isinstance(each, str) else f"f(() => ({each.js}\n))" for each in pieces]
    text = "v !== null && typeof v === 'object' ? JSON.stringify(v) : String(v)"
    listed = f"(f => [{', '.join(made)}].map(v => {text}).join(''))(f => {{ try {{ return f() }} catch {{ }} }})"
    return expression(f"{texts.compute(listed).text} | fromjson")


def json_of(written: Any, texts: Texts) -> Any:
    """JSON text with expressions in it, as a value of ours. Raises NotMapped where it is not JSON."""
    if not isinstance(written, str):
        return texts.value(written)
    if not written.startswith("="):
        return texts.value(_parsed(written))
    pieces = split(written[1:])
    if len(pieces) == 1 and isinstance(pieces[0], Source):
        phrase = texts.phrase(written)
        if phrase.kind == "object":
            return expression(phrase.whole())
        return expression(f"({phrase.atom} | js_type('object')) | otherwise({phrase.value})")
    if not any(isinstance(piece, Source) for piece in pieces):
        return texts.value(_parsed("".join(str(piece) for piece in pieces)))
    phrase = texts.phrase(written)
    return expression(f"({phrase.atom}) | fromjson" if not phrase.is_atom else f"{phrase.text} | fromjson")


def _parsed(text: str) -> Any:
    if f'"{PROTOTYPE}"' in text:
        raise NotMapped(f"a field has the name {PROTOTYPE}")
    try:
        return json.loads(text or "{}", strict=False, parse_float=_finite, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise NotMapped("what it sends or sets is not valid JSON") from None


def _finite(written: str) -> float | None:
    """A number of JSON; one that is too large is null once n8n hands it on."""
    number = float(written)
    return number if math.isfinite(number) else None


def _no_constant(written: str) -> None:
    raise ValueError(written)  # NaN and Infinity, which Python takes for JSON


def _has_line_breaks(text: str) -> bool:
    """Whether JSON is valid but for line breaks and the like within its texts."""
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
