"""`xml`: converts XML to objects, and objects to XML.

Read by expat, which loads nothing from outside. A document type declaration with anything in it is refused: entities
and default attributes make little text large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal
from xml.parsers import expat

from pydantic import Field

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget, check_size
from anabranch.engine.rules.values import VALUE_DEPTH_MAX, kind_of
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.data.each_value import ValueConfig, converted, text_of
from anabranch.handlers.types.formats.text_job import in_thread

if TYPE_CHECKING:
    from xml.sax import saxutils
else:
    saxutils = deferred("xml.sax.saxutils")  # it imports the HTTP client of the standard library

_NODE = "xml"

# An element becomes an object in a list in an object: two levels of what a value may have.
XML_DEPTH_MAX = VALUE_DEPTH_MAX // 2 - 2

# An element, its attributes and its pieces of text cost some microseconds each (measured).
_NODE_UNITS = 8 * ITEM_UNITS

_NAME = re.compile(r"[A-Za-z_\u00c0-\uffff][A-Za-z0-9_.:\-\u00b7-\uffff]*")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class XmlConfig(ValueConfig):
    """The XML or the objects, and what stands for attributes and text."""

    operation: Literal["parse", "write"] = Field(
        description="`parse` XML into an object, or `write` an object as XML.", json_schema_extra=x_ui(order=-1)
    )
    attribute_prefix: str = Field(
        "@",
        alias="attributePrefix",
        title="Prefix of attributes",
        max_length=16,
        description="What the names of attributes begin with in the object; with an empty one they are like elements,"
        " and nothing is written as an attribute.",
    )
    text_key: str = Field(
        "#text",
        alias="textKey",
        title="Name of text",
        min_length=1,
        max_length=64,
        description="The name of the text of an element that has attributes or other elements, too.",
    )
    always_lists: bool = Field(
        False,
        alias="alwaysLists",
        title="Always lists",
        description="Put elements into a list even if there is only one.",
        json_schema_extra=x_ui(show_if={"/operation": "parse"}),
    )


def evaluate(config: XmlConfig, work: TemplateBudget) -> Any:
    """An object with the root element as its only field, or text, for each value."""
    if config.operation == "parse":
        return converted(config, _NODE, work, lambda value: _Reading(config, work).read(text_of(value, _NODE, work)))
    return converted(config, _NODE, work, lambda value: _written(value, config, work))


class _Reading:
    """Builds objects from the events of the parser."""

    def __init__(self, config: XmlConfig, work: TemplateBudget) -> None:
        self._config = config
        self._work = work
        self._root: dict[str, Any] = {}
        self._open: list[tuple[str, dict[str, Any], list[str]]] = []
        """Elements that have not ended: the name, the fields, the pieces of text."""

    def read(self, text: str) -> dict[str, Any]:
        """The document as objects, lists and texts. Raises Refused if it is not XML, or exceeds a limit."""
        parser = expat.ParserCreate(encoding="utf-8")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(text.encode(), True)
        except expat.ExpatError as refusal:
            where = f"line {refusal.lineno}, column {refusal.offset + 1}"
            raise Refused(f"`{_NODE}` cannot read the text: {expat.ErrorString(refusal.code)} ({where})") from None
        self._work.weigh(self._root)
        return self._root

    def _doctype(self, name: str, system_id: str | None, public_id: str | None, has_subset: int) -> None:
        if has_subset:
            raise Refused(f"`{_NODE}` accepts no DOCTYPE that declares entities or anything else")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._work.spend(_NODE_UNITS * (len(attributes) + 1))
        if len(self._open) == XML_DEPTH_MAX:
            raise Refused(f"`{_NODE}`: the elements are nested more than {XML_DEPTH_MAX} levels deep")
        fields: dict[str, Any] = {}
        self._open.append((name, fields, []))
        for key, value in attributes.items():
            _add(fields, self._config.attribute_prefix + key, value)

    def _text(self, text: str) -> None:
        self._work.spend(_NODE_UNITS)
        self._open[-1][2].append(text)

    def _end(self, name: str) -> None:
        _, fields, pieces = self._open.pop()
        text = "".join(pieces).strip()
        if fields and text:
            _add(fields, self._config.text_key, text)
        outer = self._open[-1][1] if self._open else self._root
        _add(outer, name, fields or text, always_list=self._config.always_lists and bool(self._open))


def _add(fields: dict[str, Any], name: str, value: Any, *, always_list: bool = False) -> None:
    """Put a value under a name; what has the same name becomes a list."""
    known = fields.get(name)
    if isinstance(known, list):
        known.append(value)
    elif name in fields:
        fields[name] = [known, value]
    else:
        fields[name] = [value] if always_list else value


def _written(value: Any, config: XmlConfig, work: TemplateBudget) -> str:
    if not isinstance(value, dict) or len(value) != 1 or isinstance(next(iter(value.values())), list):
        raise Refused(f"`{_NODE}` writes an object with one field, the root element, not {_shown(value)}")
    pieces, size = ['<?xml version="1.0" encoding="UTF-8"?>\n'], 0
    for piece in _element(*next(iter(value.items())), config, work):
        work.spend(ITEM_UNITS + len(piece))
        size += len(piece)
        check_size(size)
        pieces.append(piece)
    return "".join(pieces)


def _element(name: str, value: Any, config: XmlConfig, work: TemplateBudget) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            if isinstance(each, list):
                raise Refused(f"`{_NODE}`: a list in a list, in {name!r}, cannot be written")
            yield from _element(name, each, config, work)
        return
    if _NAME.fullmatch(name) is None:
        raise Refused(f"`{_NODE}`: {name[:64]!r} is not a name of an element")
    fields = value if isinstance(value, dict) else {config.text_key: value}
    prefix = config.attribute_prefix
    attributes = {key: each for key, each in fields.items() if prefix and key.startswith(prefix)}
    yield "<" + name
    for key, each in attributes.items():
        if _NAME.fullmatch(key.removeprefix(prefix)) is None or isinstance(each, (dict, list)):
            raise Refused(f"`{_NODE}`: {key[:64]!r} is not an attribute: a name, and text, a number or a boolean")
        yield f" {key.removeprefix(prefix)}={saxutils.quoteattr(_text_of(each, work))}"
    yield ">"
    for key, each in fields.items():
        if key == config.text_key:
            yield saxutils.escape(_text_of(each, work))
        elif key not in attributes:
            yield from _element(key, each, config, work)
    yield f"</{name}>"


def _text_of(value: Any, work: TemplateBudget) -> str:
    text = "" if value is None else work.text_of(value)
    if _FORBIDDEN.search(text) is not None:
        raise Refused(f"`{_NODE}`: the text has a control character, which XML cannot hold")
    return text


def _shown(value: Any) -> str:
    return f"one with {len(value)} fields or a list" if isinstance(value, dict) else kind_of(value)


SPEC = HandlerSpec(
    type=_NODE,
    title="XML",
    config=XmlConfig,
    execute=in_thread(evaluate),
    category="data",
    icon="file-code",
    description="Converts XML to objects, and objects to XML.",
    side_effects="none",
    docs="#xml",
)
