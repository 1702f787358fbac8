"""Source text of documents: unknown top-level fields, and all of a published draft, are kept as the JSON that came in.

Pure. Used where documents are parsed (`json_input`, the store, the client of a server) and where values are needed
(`document`, `service.definitions`). So the spelling of numbers and the whitespace survive for the tool that wrote them.
In a document such a value is an `orjson.Fragment`, which `orjson.dumps` writes unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import orjson

from anabranch.engine.rules.graph.known_fields import SERVER_FIELDS
from anabranch.errors import ValueTooLarge

READ_FIELDS = frozenset({"name", "title", "nodes", "edges", "workflowOptions"}) | SERVER_FIELDS
"""What the engine and the service read of a document; of all other fields they know the name alone."""

_WHITESPACE = re.compile(r"[ \t\n\r]*")


def parse_document(text: str | bytes) -> Any:
    """Parse a document from JSON text that is known to be valid."""
    return keep_source_texts(orjson.loads(text), text)


def keep_source_texts(document: Any, text: str | bytes) -> Any:
    """The document that was parsed from this text, with the source text of each unknown field.

    null stays None: it removes the field.
    """
    if not isinstance(document, dict):
        return document
    kept = {field for field, value in document.items() if field not in READ_FIELDS and value is not None}
    if not kept:
        return document
    texts = texts_of_fields(text if isinstance(text, str) else text.decode())
    return {
        field: orjson.Fragment(texts[field].encode()) if field in kept else value for field, value in document.items()
    }


def has_source_texts(document: Any) -> bool:
    """Whether the document has source texts."""
    return isinstance(document, Mapping) and any(isinstance(value, orjson.Fragment) for value in document.values())


def plain(document: Any) -> Any:
    """The document with values in place of source texts; the same object if it has none."""
    return {field: _value(value) for field, value in document.items()} if has_source_texts(document) else document


def text_of(document: Mapping[str, Any], source: str) -> str:
    """The JSON text of a document with the source texts of its fields; `source` is the text that it was parsed from.

    It is the source itself if these have the same fields, also where only a name was added at the end.
    """
    texts = texts_of_fields(source)
    if "name" in texts and orjson.loads(texts["name"]) != document["name"]:
        document = {"name": document["name"], **document}  # null was replaced
        del texts["name"]
    if [*texts] == [*document]:
        return source
    if texts and [*texts, "name"] == [*document]:
        end = source.rindex("}")
        last = len(source[:end].rstrip())
        return f'{source[:last]}, "name": {orjson.dumps(document["name"]).decode()}{source[last:]}'
    fields = {
        field: orjson.Fragment(texts[field].encode()) if field in texts else value for field, value in document.items()
    }
    return orjson.dumps(fields).decode()


def refuse_large_texts(document: Any, bytes_max: int) -> None:
    """Raise ValueTooLarge for a document that exceeds the limit because of whitespace."""
    if has_source_texts(document) and (size := len(orjson.dumps(document))) > bytes_max:
        raise ValueTooLarge(f"the value has {size} bytes of JSON, the limit is {bytes_max}")


def _value(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value)) if isinstance(value, orjson.Fragment) else value


def texts_of_fields(text: str) -> dict[str, str]:
    """Field → source text of its value. The text must be a valid JSON object."""
    texts: dict[str, str] = {}
    decoder = JSONDecoder()
    position = _after_whitespace(text, text.index("{") + 1)
    while text[position] == '"':
        field, position = scanstring(text, position + 1)
        begin = _after_whitespace(text, text.index(":", position) + 1)
        _, end = decoder.raw_decode(text, begin)
        texts[field] = text[begin:end]
        position = _after_whitespace(text, end)
        if text[position] == ",":
            position = _after_whitespace(text, position + 1)
    return texts


def _after_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    assert match is not None, "it matches nothing, too"
    return match.end()
