"""Texts that were made to do harm, given to the node types that read texts: each is refused, or read within the budget.

The budget is what bounds time: each type pays for what it does, and what it pays is counted here, not timed. What runs
in libraries was measured, and is priced by the letter or by the element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from anabranch.engine.handler_contract import HandlerResult
from anabranch.engine.rules.templates.budget import RESULT_BYTES_MAX, Refused, TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.types.formats import convert_csv, convert_markdown, convert_xml, extract_html, search_text
from anabranch.handlers.types.formats.css_selectors import matching
from anabranch.handlers.types.formats.html_document import HtmlDocument
from anabranch.handlers.types.formats.text_job import TEXT_WORK_MAX
from tests.handlers.running import run

# An eighth of the largest texts, and of the budget for them: the tests take as much less time.
LONG = RESULT_BYTES_MAX // 8
WORK_MAX = TEXT_WORK_MAX // 8

EVALUATE: dict[str, tuple[type[BaseModel], Any]] = {
    "text": (search_text.TextConfig, search_text.evaluate),
    "html": (extract_html.HtmlConfig, extract_html.evaluate),
    "markdown": (convert_markdown.MarkdownConfig, convert_markdown.evaluate),
    "csv": (convert_csv.CsvConfig, convert_csv.evaluate),
    "xml": (convert_xml.XmlConfig, convert_xml.evaluate),
}

LAUGHS = "<!DOCTYPE a [" + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10)) + "]><a>&e9;</a>"

XML_ATTACKS = {
    "billion laughs": LAUGHS,
    "quadratic entity": f'<!DOCTYPE a [<!ENTITY e "{"x" * 62_500}">]><a>{"&e;" * 12_500}</a>',
    "external entity": '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
    "parameter entity": '<!DOCTYPE a [<!ENTITY % e SYSTEM "http://127.0.0.1:1/x"> %e;]><a/>',
    "default attribute": f'<!DOCTYPE a [<!ATTLIST b c CDATA "{"x" * 50_000}">]><a>{"<b/>" * 12_500}</a>',
    "deep": "<a>" * 37_500,
    "deep and closed": "<a>" * 12_500 + "</a>" * 12_500,
    "many attributes": "<a " + " ".join(f'a{n}=""' for n in range(11_250)) + "/>",
    "undeclared entity": "<a>&lol;</a>",
    "unclosed": "<" * LONG,
    "many elements": "<a>" + "<b/>" * 25_000 + "</a>",
    "control characters": "<a>\x00</a>",
}

SELECTORS = {
    "all": {"selector": "*", "all": True},
    "nested": {"selector": "* * * * * * * *", "all": True, "take": "html"},
    "siblings": {"selector": "* ~ * ~ * ~ *", "all": True},
    "places": {"selector": ":nth-last-of-type(2n+1):nth-child(n):not(:first-child)", "all": True},
}

HTML_ATTACKS = {
    "deep": "<div>" * 25_000,
    "deep inline": "<b>" * 37_500,
    "reconstructed formatting": "".join(f"<b id={n}>" for n in range(3_750)) + "<p>" * 12_500,
    "deep as allowed": ("<div>" * 150 + "x" * 4_000 + "</div>" * 150) * 150,
    "many elements": "<a>x</a>" * 16_250,
    "many attributes": "<a " + " ".join(f"b{n}" for n in range(16_250)) + ">",
    "tables": "<table><tr><td>" * 7_500,
    "lists": "<ul>" + "<li>x" * 25_000,
    "never closed": "<" * LONG,
    "comments": "<!--" * 31_250,
    "entities": "&amp" * 31_250,
    "quotes": "<a '" * 31_250,
}

MARKDOWN_ATTACKS = {
    "quotes": "> " * 62_500,
    "brackets": "[" * LONG,
    "links": "[a](" * 31_250,
    "emphasis": "*_" * 31_250 + "a" + "_*" * 31_250,
    "emphasis with letters": "*a **b " * 17_500,
    "backticks": "".join("`" * n + " " for n in range(1_400)),
    "lists": "".join("  " * n + "- a\n" for n in range(1_000)),
    "references": "[a]: " + "x" * 6_250 + "\n\n" + "[a] " * 30_000,
    "table": "|a" * 25_000 + "\n" + "|-" * 25_000 + "\n" + "|b\n" * 7_500,
    "html": "<a " * 42_500,
    "footnotes": "[^1]" * 31_250 + "\n\n[^1]: x",
}

CSV_ATTACKS = {
    "one quote": '"' + "a" * LONG,
    "a quote in each cell": '"a,' * 42_500,
    "commas": "," * LONG,
    "rows": "1\n" * 65_000,
    "long names": "x" * 12_500 + "\n" + "1\n" * 50_000,
    "wide": ",".join(map(str, range(18_750))),
    "nulls": "\x00,\x00\n" * 25_000,
}

TEXT_ATTACKS = {
    "nested repetition": ("(a+)+$", "a" * 62_500 + "!"),
    "looks ahead": ("a(?:.*b)?", "a" * LONG),
    "choices": ("(?:x.*b|x)", "x" * LONG),
    "many states": ("[ab]*a[ab]{200}", "ab" * 62_500),
    "every place": ("", "a" * LONG),
    "every letter": (".", "a" * LONG),
    "large repetition": (r"\pL{900}", "a" * 1_000),
}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    *(("xml", name, {"operation": "parse", "source": text}) for name, text in XML_ATTACKS.items()),
    *(("html", name, {"source": text, "values": SELECTORS}) for name, text in HTML_ATTACKS.items()),
    *(("markdown", name, {"operation": "fromHtml", "source": text}) for name, text in HTML_ATTACKS.items()),
    *(("markdown", name, {"operation": "toHtml", "source": text}) for name, text in MARKDOWN_ATTACKS.items()),
    *(("csv", name, {"operation": "parse", "source": text}) for name, text in CSV_ATTACKS.items()),
    *(
        ("text", f"{name}, {operation}", {"operation": operation, "pattern": pattern or "x*", "source": text})
        for name, (pattern, text) in TEXT_ATTACKS.items()
        for operation in ("match", "extract", "split", "replace")
    ),
]


@pytest.mark.parametrize(("type_name", "name", "config"), CASES, ids=[f"{kind}: {name}" for kind, name, _ in CASES])
def test_a_hostile_text_is_refused_or_read_within_the_budget(
    type_name: str, name: str, config: Mapping[str, Any]
) -> None:
    model, evaluate = EVALUATE[type_name]
    work = TemplateBudget(limit=WORK_MAX)
    try:
        made = evaluate(model.model_validate(config), work)
    except Refused as refusal:
        assert str(refusal)
        assert len(str(refusal)) < 1_000, "an error does not repeat the text"
    else:
        assert work.spent <= WORK_MAX
        assert work.spent >= len(config["source"]), "everything that is read is paid for"
        work.limit = TEXT_WORK_MAX
        assert work.weigh(made) <= 2 * RESULT_BYTES_MAX


@pytest.mark.parametrize("name", [name for name in XML_ATTACKS if name not in ("many elements", "many attributes")])
async def test_no_entity_is_read_and_nothing_is_loaded(name: str) -> None:
    with pytest.raises(NonRetryable) as refusal:
        await run("xml", {"operation": "parse", "source": XML_ATTACKS[name]})
    assert refusal.value.code == "NODE_DATA_INVALID"
    assert "root:" not in str(refusal.value)


def test_selectors_cost_what_the_document_and_the_selector_are_long() -> None:
    def spent(elements: int, parts: int) -> int:
        work = TemplateBudget(limit=TEXT_WORK_MAX)
        document = HtmlDocument("<div>" * 100 + "<a></a>" * elements, "html", work)
        before = work.spent
        matching(document, " ".join(["*"] * parts))
        return work.spent - before

    assert spent(8_000, 4) <= 8 * spent(1_000, 4)
    assert spent(1_000, 16) <= 5 * spent(1_000, 4)


def test_deep_html_is_refused_even_where_the_parser_says_many_other_things() -> None:
    with pytest.raises(Refused, match="nested more than 200 levels"):
        HtmlDocument("</x>" * 1_000 + "<div>" * 400, "html", TemplateBudget())
    assert len(HtmlDocument("<div>" * 190, "html", TemplateBudget()).elements) == 193


@pytest.mark.parametrize("name", ["many attributes", "deep", "deep inline"])
async def test_html_that_would_cost_by_the_square_is_refused(name: str) -> None:
    for type_name, config in (("html", {"values": SELECTORS}), ("markdown", {"operation": "fromHtml"})):
        with pytest.raises(NonRetryable, match=r"more than 256 attributes|nested more than 200 levels"):
            await run(type_name, {**config, "source": HTML_ATTACKS[name]})


async def test_templates_in_texts_stay_texts() -> None:
    braces = "{{ctx.input}} {{secret.KEY}} {{now}}"
    for type_name, config, expected in (
        ("html", {"source": f"<p>{braces}</p>", "values": {"v": {"selector": "p"}}}, {"v": braces}),
        ("csv", {"operation": "parse", "source": f"a\n{braces}"}, [{"a": braces}]),
        ("xml", {"operation": "parse", "source": f"<a>{braces}</a>"}, {"a": braces}),
        ("text", {"operation": "replace", "source": f"x{braces}", "pattern": "^x", "replacement": ""}, braces),
        ("markdown", {"operation": "toHtml", "source": braces}, f"<p>{braces}</p>\n"),
    ):
        given = {**config, "source": "{{ctx.text}}"}
        result = await run(type_name, given, {"text": config["source"], "input": "wrong"})
        assert isinstance(result, HandlerResult)
        assert result.output == expected
