"""`text`: tests, replaces, splits and extracts by regular expressions, in time linear in the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.templates.budget import Refused, TemplateBudget, check_size
from anabranch.engine.rules.templates.linear_regex import REGEX_CHARACTERS_MAX, Search
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.data.each_value import ValueConfig, converted, text_of
from anabranch.handlers.types.formats.text_job import in_thread

_NODE = "text"


class TextConfig(ValueConfig):
    """What to do with which texts."""

    operation: Literal["match", "replace", "split", "extract"] = Field(
        description="Tell whether a pattern matches (`match`), `replace` its matches, `split` the text at them, or"
        " `extract` them.",
        json_schema_extra=x_ui(order=-1),
    )
    pattern: str = Field(
        min_length=1,
        max_length=REGEX_CHARACTERS_MAX,
        description="A regular expression as RE2 has them: no look-around, no back-references.",
        json_schema_extra=x_ui(placeholder="[0-9]+"),
    )
    ignore_case: bool = Field(False, alias="ignoreCase", title="Ignore case", description="`a` matches `A`, too.")
    replacement: str = Field(
        "",
        max_length=1_024,
        description="What stands in the place of a match; `\\1` is its first group, `\\0` the whole of it.",
        json_schema_extra=x_ui(show_if={"/operation": "replace"}),
    )
    count: int | None = Field(
        None,
        ge=1,
        description="How many matches to replace, or to split at, at most; without it, all.",
        json_schema_extra=x_ui(show_if={"/operation": ["replace", "split"]}),
    )
    group: int | str = Field(
        0,
        description="Which group of the pattern to extract, by number or name; 0 is the whole match.",
        json_schema_extra=x_ui(show_if={"/operation": "extract"}),
    )
    all: bool = Field(
        True,
        description="Extract all matches, as a list; otherwise the first, or null.",
        json_schema_extra=x_ui(show_if={"/operation": "extract"}),
    )


def evaluate(config: TextConfig, work: TemplateBudget) -> Any:
    """A boolean, a text or a list of texts for each text."""
    try:
        search = Search(config.pattern, work, ignore_case=config.ignore_case)
        return converted(config, _NODE, work, lambda value: _result(search, text_of(value, _NODE, work), config, work))
    except ValueError as refusal:
        raise Refused(f"`{_NODE}`: {refusal}") from None


def _result(search: Search, text: str, config: TextConfig, work: TemplateBudget) -> Any:
    match config.operation:
        case "match":
            return search.matches(text)
        case "extract" if config.all:
            return _list(search.each(text, config.group), work)
        case "extract":
            return next(search.each(text, config.group), None)
        case "split":
            return _list(search.pieces(text, config.count), work)
        case "replace":
            return _joined(search.replaced(text, config.replacement, config.count), work)


def _list(parts: Iterable[str | None], work: TemplateBudget) -> list[Any]:
    made: list[Any] = []
    size = 2
    for part in parts:
        size += work.weigh(part) + 1
        check_size(size)
        made.append(part)
    work.built(made, size)
    return made


def _joined(parts: Iterable[str], work: TemplateBudget) -> str:
    pieces, size = [], 0
    for part in parts:
        size += len(part)
        check_size(size)
        pieces.append(part)
    return "".join(pieces)


SPEC = HandlerSpec(
    type=_NODE,
    title="Text",
    config=TextConfig,
    execute=in_thread(evaluate),
    category="data",
    icon="regex",
    description="Tests, replaces, splits and extracts by regular expressions.",
    side_effects="none",
    docs="#text",
)
