"""`markdown`: converts Markdown (GitHub's) to HTML, and HTML to Markdown.

cmark-gfm parses Markdown in time linear in the text; it was written for hostile input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import TemplateBudget, check_size
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.data.each_value import ValueConfig, converted, text_of
from anabranch.handlers.types.formats.html_to_markdown import markdown_of
from anabranch.handlers.types.formats.text_job import in_thread

if TYPE_CHECKING:
    import cmarkgfm
else:
    cmarkgfm = deferred("cmarkgfm")

_NODE = "markdown"

# At worst a letter of Markdown costs a microsecond (measured, with nested quotes and emphasis).
_LETTER_UNITS = 120

# cmark-gfm's flag for keeping raw HTML and all kinds of links.
_UNSAFE = 1 << 17


class MarkdownConfig(ValueConfig):
    """The texts, and which way."""

    operation: Literal["toHtml", "fromHtml"] = Field(
        description="Make HTML of Markdown (`toHtml`), or Markdown of HTML (`fromHtml`).",
        json_schema_extra=x_ui(order=-1),
    )
    keep_html: bool = Field(
        False,
        alias="keepHtml",
        title="Keep HTML",
        description="Keep the HTML in the Markdown, and links such as `javascript:`. Only for texts that you trust.",
        json_schema_extra=x_ui(show_if={"/operation": "toHtml"}, advanced=True),
    )


def evaluate(config: MarkdownConfig, work: TemplateBudget) -> Any:
    """A text for each text."""
    return converted(config, _NODE, work, lambda value: _result(text_of(value, _NODE, work), config, work))


def _result(text: str, config: MarkdownConfig, work: TemplateBudget) -> str:
    if config.operation == "fromHtml":
        return markdown_of(text, _NODE, work)
    work.spend(len(text) * _LETTER_UNITS)
    made: str = cmarkgfm.github_flavored_markdown_to_html(text, options=_UNSAFE if config.keep_html else 0)
    check_size(len(made))
    return made


SPEC = HandlerSpec(
    type=_NODE,
    title="Markdown",
    config=MarkdownConfig,
    execute=in_thread(evaluate),
    category="data",
    icon="hash",
    description="Converts Markdown to HTML, and HTML to Markdown.",
    side_effects="none",
    docs="#markdown",
)
