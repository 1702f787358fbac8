"""`html`: extracts texts, attributes and parts of HTML by CSS selectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from anabranch.engine.rules.templates.budget import Refused, TemplateBudget, check_size
from anabranch.handlers.spec import HandlerSpec, NodeConfig, Problem
from anabranch.handlers.types.data.each_value import ValueConfig, converted, text_of
from anabranch.handlers.types.data.items import FIELDS_MAX
from anabranch.handlers.types.formats.css_selectors import SELECTOR_CHARACTERS_MAX, matching, parsed
from anabranch.handlers.types.formats.html_document import CODE, HtmlDocument
from anabranch.handlers.types.formats.html_fields import value_of
from anabranch.handlers.types.formats.html_layout import laid_out
from anabranch.handlers.types.formats.text_job import in_thread

_NODE = "html"


class Extraction(NodeConfig):
    """One value."""

    selector: str = Field(
        min_length=1, max_length=SELECTOR_CHARACTERS_MAX, description="A CSS selector, such as `table td:first-child`."
    )
    take: Literal["text", "visibleText", "plainText", "html", "attribute", "value"] = Field(
        "text",
        description="Of the element, its `text`, the text without scripts and styles (`visibleText`), the text laid "
        "out in lines (`plainText`), the `html` in it, an `attribute`, or the `value` of a field of a form.",
    )
    attribute: str | None = Field(
        None, min_length=1, max_length=128, description="The name of the attribute, such as `href`."
    )
    trim: bool = Field(True, description="Whether space at the ends of a text is left out.")
    all: bool = Field(
        False, description="All elements that match, as a list; otherwise the first, or null where none does."
    )

    @model_validator(mode="after")
    def _complete(self) -> Extraction:
        if self.take == "attribute" and self.attribute is None:
            raise ValueError("name the `attribute` to take")
        return self


class HtmlConfig(ValueConfig):
    """The HTML, and what to extract."""

    values: dict[str, Extraction] = Field(
        max_length=FIELDS_MAX, description="Names with what to extract; the result is an object of them."
    )


def evaluate(config: HtmlConfig, work: TemplateBudget) -> Any:
    """An object for each text."""
    return converted(config, _NODE, work, lambda value: _extracted(text_of(value, _NODE, work), config, work))


def _extracted(text: str, config: HtmlConfig, work: TemplateBudget) -> dict[str, Any]:
    document = HtmlDocument(text, _NODE, work)
    made: dict[str, Any] = {}
    size = 2
    for name, each in config.values.items():
        found: list[str | list[str] | None] = []
        try:
            numbers = matching(document, each.selector)
        except ValueError as refusal:
            raise Refused(f"`{_NODE}`: {refusal}") from None
        for number in numbers if each.all else numbers[:1]:
            found.append(_taken(document, number, each))
            size += work.weigh(found[-1]) + 1
            check_size(size)
        made[name] = found if each.all else next(iter(found), None)
        size += work.weigh(name) + 4
    work.built(made, size)
    return made


def _taken(document: HtmlDocument, number: int, each: Extraction) -> str | list[str] | None:
    match each.take:
        case "attribute":
            return document.attribute_of(number, each.attribute or "")
        case "value":
            return value_of(document, number)
        case "html":
            return document.inner_html_of(number)
        case "plainText":
            text = laid_out(document, number)
        case _:
            text = document.text_of(number, left_out=CODE if each.take == "visibleText" else frozenset())
    return text.strip() if each.trim else text


def _inspect(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Selectors that are written out are read at save."""
    values = config.get("values")
    for name, each in values.items() if isinstance(values, dict) else ():
        selector = each.get("selector") if isinstance(each, dict) else None
        if not isinstance(selector, str) or "{{" in selector or len(selector) > SELECTOR_CHARACTERS_MAX:
            continue
        try:
            parsed(selector)
        except ValueError as refusal:
            pointer = str(name).replace("~", "~0").replace("/", "~1")
            yield "CONFIG_INVALID", f"/values/{pointer}/selector", str(refusal)


SPEC = HandlerSpec(
    type=_NODE,
    title="HTML",
    config=HtmlConfig,
    execute=in_thread(evaluate),
    inspect=_inspect,
    category="data",
    icon="code-xml",
    description="Extracts texts, attributes and parts of HTML by CSS selectors.",
    side_effects="none",
    docs="#html",
)
