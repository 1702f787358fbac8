"""The node types for times, texts and hashes: what each makes of one value or of a list, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping
from typing import Any

import orjson
import pytest

from anabranch.engine.handler_contract import HandlerResult
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.errors import NonRetryable
from anabranch.handlers import NodeTypeRegistry
from anabranch.handlers.builtin import BuiltinSpecs
from anabranch.handlers.services import Services
from anabranch.histories.graph_replay import replay_graph
from anabranch.testing import MemoryDatabase, MemoryStore
from tests.driving import Driver
from tests.handlers.running import TYPES, problems, run
from tests.spec.drawings import drawn

KEY = "a key that nobody sees"

PAGE = """<html><head><title>T</title></head><body><h1 class="t big">Hi <b>you</b></h1>
<ul id=list><li>1</li><li class=t>2<a href="/x?a=1&amp;b=2">l</a></li><li lang="de-AT">3</li></ul>
<p>p</p><p></p></body></html>"""


class OneSecret:
    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        return dict.fromkeys(names, KEY)


WITH_SECRET = NodeTypeRegistry(BuiltinSpecs(Services(secrets=OneSecret())))


async def made(type_name: str, context: Mapping[str, Any] | None = None, **config: Any) -> Any:
    result = await run(type_name, config, context, types=WITH_SECRET)
    assert isinstance(result, HandlerResult)
    return result.output


async def refused(type_name: str, **config: Any) -> str:
    with pytest.raises(NonRetryable) as refusal:
        await made(type_name, **config)
    assert refusal.value.code == "NODE_DATA_INVALID"
    return str(refusal.value)


# -- dateTime -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("config", "result"),
    [
        ({"operation": "parse", "source": "2026-01-31"}, "2026-01-31T00:00:00.000Z"),
        ({"operation": "parse", "source": 0, "timezone": "Asia/Tokyo"}, "1970-01-01T09:00:00.000+09:00"),
        ({"operation": "parse", "source": "31.1.2026", "format": "%d.%m.%Y"}, "2026-01-31T00:00:00.000Z"),
        ({"operation": "format", "source": "{{now}}", "format": "%d.%m.%Y"}, "01.01.2026"),
        (
            {"operation": "format", "source": "{{now}}", "format": "%A %H:%M", "timezone": "America/New_York"},
            "Wednesday 19:00",
        ),
        ({"operation": "add", "source": "2026-01-31", "amount": 1, "unit": "months"}, "2026-02-28T00:00:00.000Z"),
        ({"operation": "add", "source": "2026-01-31", "amount": -2, "unit": "days"}, "2026-01-29T00:00:00.000Z"),
        (
            {
                "operation": "add",
                "source": "2026-03-28T12:00:00+01:00",
                "amount": 1,
                "unit": "days",
                "timezone": "Europe/Berlin",
            },
            "2026-03-29T12:00:00.000+02:00",
        ),
        ({"operation": "difference", "source": "2026-02-01", "other": "2026-01-31"}, 86_400_000),
        ({"operation": "difference", "source": "2026-02-01", "other": "2026-01-31", "unit": "hours"}, 24.0),
        ({"operation": "difference", "source": "2026-01-31", "other": "2026-04-30", "unit": "months"}, -3),
        (
            {"operation": "parts", "source": "2026-12-31T23:04:05.678+01:00"},
            {
                "year": 2026,
                "month": 12,
                "day": 31,
                "hour": 23,
                "minute": 4,
                "second": 5,
                "millisecond": 678,
                "weekday": 4,
                "week": 53,
                "quarter": 4,
                "dayOfYear": 365,
            },
        ),
        ({"operation": "round", "source": "2026-01-31T08:30:00Z", "unit": "hours"}, "2026-01-31T08:00:00.000Z"),
        (
            {"operation": "round", "source": "2026-01-31T08:30:00Z", "unit": "hours", "direction": "nearest"},
            "2026-01-31T09:00:00.000Z",
        ),
        (
            {"operation": "round", "source": "2026-01-31T08:30:00Z", "unit": "months", "direction": "up"},
            "2026-02-01T00:00:00.000Z",
        ),
        (
            {"operation": "round", "source": "2026-02-01", "unit": "months", "direction": "up"},
            "2026-02-01T00:00:00.000Z",
        ),
    ],
)
async def test_date_time(config: dict[str, Any], result: Any) -> None:
    assert await made("dateTime", **config) == result


async def test_a_list_of_dates_costs_no_more_than_a_decision_may() -> None:
    dates = ["2026-01-31"] * 20_000
    assert len(await made("dateTime", operation="format", source=dates, format="%Y")) == 20_000
    assert "processes more than" in await refused("dateTime", operation="format", source=dates + dates, format="%Y")


def test_date_time_is_pure_and_the_others_are_jobs() -> None:
    for name, is_pure in {"dateTime": True, "text": False, "html": False, "crypto": False}.items():
        node_type = TYPES.get(name)
        assert node_type is not None
        config = {"operation": "parse", "source": "2026-01-31"} if is_pure else {}
        assert (node_type.evaluator(config) is not None) is is_pure
        assert node_type.description.side_effects == "none"


async def test_a_list_gives_a_list_and_null_stays_null() -> None:
    dates = ["2026-01-31", None, 0]
    assert await made("dateTime", operation="format", source=dates, format="%Y") == ["2026", None, "1970"]
    assert await made("text", operation="match", source=[], pattern="a") == []
    assert await made("text", operation="match", source=None, pattern="a") is None


async def test_a_field_is_read_and_the_result_put_beside_it() -> None:
    items = [{"at": {"day": "2026-01-31"}}, {"other": 1}]
    config = {"operation": "format", "source": "{{ctx.items}}", "field": "at.day", "format": "%d"}
    assert await made("dateTime", {"items": items}, **config) == ["31", None]
    both = await made("dateTime", {"items": items}, **config, into="d")
    assert both == [{**items[0], "d": "31"}, {**items[1], "d": None}]
    assert await made("crypto", source={"a": "x"}, operation="hash", field="a", into="h", algorithm="md5") == {
        "a": "x",
        "h": "9dd4e461268c8034f5c8564e155c67a6",
    }
    assert "item 0 is not an object" in await refused("text", operation="match", source=["a"], pattern="a", into="b")


async def test_what_is_refused_names_the_item() -> None:
    refusal = await refused("dateTime", operation="parse", source=["2026-01-31", "soon"])
    assert refusal.startswith("item 1: `dateTime` takes a point in time")
    assert "`text` takes text, not an object" in await refused("text", operation="match", source={}, pattern="a")
    assert "no time zone" in await refused("dateTime", operation="parse", source=0, timezone="Mars/Base")
    assert "leaves the years" in await refused("dateTime", operation="add", source=0, amount=9**9, unit="years")


@pytest.mark.parametrize(
    ("type_name", "config"),
    [
        ("dateTime", {"operation": "add", "source": "{{now}}"}),
        ("dateTime", {"operation": "format", "source": "{{now}}"}),
        ("crypto", {"operation": "hmac", "source": "x"}),
        ("html", {"source": "x", "values": {"a": {"selector": "a", "take": "attribute"}}}),
        ("html", {"source": "x", "values": {"a": {"selector": "a["}}}),
        ("html", {"source": "x", "values": {"a": {"selector": "a:hover"}}}),
        ("html", {"source": "x", "values": {"a": {"selector": "a:has(b)"}}}),
        ("html", {"source": "x", "values": {"a": {"selector": "a:nth-child(x)"}}}),
        ("csv", {"operation": "parse", "source": "x", "delimiter": "||"}),
        ("crypto", {"operation": "hmac", "source": "x", "key": "written out"}),
    ],
)
def test_a_config_that_lacks_something_is_refused_at_save(type_name: str, config: dict[str, Any]) -> None:
    assert [code for code, _ in problems(type_name, config)] == ["CONFIG_INVALID"]


# -- text ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("config", "result"),
    [
        ({"operation": "match", "source": "Order 7", "pattern": "^order [0-9]+$", "ignoreCase": True}, True),
        ({"operation": "match", "source": "Order 7", "pattern": "^order"}, False),
        ({"operation": "replace", "source": "a-b-é", "pattern": r"(\w)-", "replacement": r"<\1\\>"}, r"<a\><b\>é"),
        ({"operation": "replace", "source": "aaa", "pattern": "a", "replacement": "b", "count": 2}, "bba"),
        ({"operation": "replace", "source": "ab", "pattern": "(a)|(b)", "replacement": r"[\2]"}, "[][b]"),
        ({"operation": "replace", "source": "ab", "pattern": "x*", "replacement": "-"}, "-a-b-"),
        ({"operation": "split", "source": "é, b;c", "pattern": r"[,;]\s*"}, ["é", "b", "c"]),
        ({"operation": "split", "source": "a,b,c", "pattern": ",", "count": 1}, ["a", "b,c"]),
        ({"operation": "extract", "source": "1 é 22", "pattern": "[0-9]+"}, ["1", "22"]),
        ({"operation": "extract", "source": "k=v, a=b", "pattern": r"(?P<k>\w)=(\w)", "group": "k"}, ["k", "a"]),
        ({"operation": "extract", "source": "k=v, a=b", "pattern": r"(\w)=(\w)", "group": 2, "all": False}, "v"),
        ({"operation": "extract", "source": "x", "pattern": "[0-9]", "all": False}, None),
        ({"operation": "extract", "source": "ab", "pattern": "(a)|b", "group": 1}, ["a", None]),
    ],
)
async def test_text(config: dict[str, Any], result: Any) -> None:
    assert await made("text", **config) == result


async def test_text_refuses_what_its_patterns_do_not_have() -> None:
    assert "no group 2" in await refused("text", operation="extract", source="a", pattern="(a)", group=2)
    assert "no group 'x'" in await refused("text", operation="extract", source="a", pattern="(a)", group="x")
    assert "no group 3" in await refused("text", operation="replace", source="a", pattern="(a)", replacement=r"\3")
    assert "cannot be used" in await refused("text", operation="match", source="a", pattern="(?=a)")


# -- html ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("selector", "texts"),
    [
        ("h1.t", ["Hi you"]),
        (".t", ["Hi you", "2l"]),
        ("ul > li", ["1", "2l", "3"]),
        ("#list li:first-child, p:not(:empty)", ["1", "p"]),
        ("body b", ["you"]),
        ("li:nth-child(2n+1)", ["1", "3"]),
        ("li:nth-last-child(1)", ["3"]),
        ("li + li", ["2l", "3"]),
        ("h1 ~ p", ["p", ""]),
        ("p:first-of-type", ["p"]),
        ("p:last-of-type:empty", [""]),
        ("a[href^='/x'][href$='2'][href*=a]", ["l"]),
        ("[lang|=de]", ["3"]),
        ("[class~=big]", ["Hi you"]),
        (":is(h1, a)", ["Hi you", "l"]),
        ("li:only-child", []),
        ("TITLE", ["T"]),
        ("html > head > title, :root > :nth-of-type(1) > title", ["T"]),
    ],
)
async def test_html_finds_elements_by_css_selectors(selector: str, texts: list[str]) -> None:
    assert await made("html", source=PAGE, values={"v": {"selector": selector, "all": True}}) == {"v": texts}


async def test_html_takes_texts_attributes_and_html() -> None:
    values = {
        "first": {"selector": "li"},
        "link": {"selector": "a", "take": "attribute", "attribute": "HREF"},
        "inside": {"selector": "li.t", "take": "html"},
        "none": {"selector": "h1", "take": "attribute", "attribute": "id"},
        "nowhere": {"selector": "h6"},
    }
    expected = {
        "first": "1",
        "link": "/x?a=1&b=2",
        "inside": '2<a href="/x?a=1&amp;b=2">l</a>',
        "none": None,
        "nowhere": None,
    }
    assert await made("html", source=[PAGE, ""], values=values) == [expected, dict.fromkeys(values)]


@pytest.mark.parametrize(
    ("page", "value", "taken"),
    [
        ("<p>a<script>b</script><b>c</b>", {"take": "visibleText"}, "ac"),
        ("<!doctype html><p>a<p>b<table><td>c</table><!--d-->", {"take": "html"},
         "<p>a</p><p>b</p><table><tbody><tr><td>c</td></tr></tbody></table><!--d-->"),
        ("<b>1<p>2</b>3", {"take": "html"}, "<b>1</b><p><b>2</b>3</p>"),
        ("<a title='\"&nbsp;<'>&lt;&nbsp;\"</a>", {"take": "html"}, '<a title="&quot;&nbsp;<">&lt;&nbsp;"</a>'),
        ("<h1>A b</h1>c<ul><li>d<li>e<ol type=i><li>f<li>g</ol></ul>", {"take": "plainText"},
         "A B\n\nc\n * d\n * e\n   i.  f\n   ii. g"),
        ("<p>a <a href=/b>c</a> <a href=mailto:d></a> <a href=#e>f</a></p><p>g<br>h", {"take": "plainText"},
         "a c [/b] d f\n\ng\nh"),
        ("<blockquote>a<pre> b\n  c</pre></blockquote>", {"take": "plainText"}, "> a\n> \n>  b\n>   c"),
        ("<p>" + "word " * 20, {"take": "plainText"}, " ".join(["word"] * 16) + "\n" + " ".join(["word"] * 4)),
        ("<p><noscript>a <img src=b alt=c></noscript><hr>", {"take": "plainText"}, "a c [b]\n\n" + "-" * 80),
        ("<input value=1>", {"selector": "input", "take": "value"}, "1"),
        ("<select><option>a<option value=b selected>", {"selector": "select", "take": "value"}, "b"),
        ("<select><option>a<option>b", {"selector": "select", "take": "value"}, "a"),
        ("<select multiple><option selected>a<option selected>b", {"selector": "select", "take": "value"}, ["a", "b"]),
        ("<textarea>a&lt;</textarea>", {"selector": "textarea", "take": "value"}, "a<"),
        ("<svg viewBox=1>", {"selector": "svg", "take": "attribute", "attribute": "viewBox"}, "1"),
    ],
)  # fmt: skip
async def test_html_is_read_and_written_as_the_standard_says(page: str, value: dict[str, Any], taken: Any) -> None:
    assert await made("html", source=page, values={"v": {"selector": "body", **value}}) == {"v": taken}


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("<div>" * 300, "nested more than 200 levels deep"),
        ("<p " + " ".join(f"a{number}" for number in range(300)) + ">", "more than 256 attributes"),
        ("<p>" + "".join(f"<b id={number}>" for number in range(150)) + "</p>" + "<p>x" * 2_000, "are not closed"),
        ("<p>" + "".join(f"<b id='</b>{number}'>" for number in range(150)) + "</p>" + "<p>x" * 2_000, "not closed"),
        ("<p>" + "".join(f"<b id={number}><object></b></object>" for number in range(150)) + "</p>" + "<p>x" * 2_000,
         "are not closed"),
        ("<br>" * 300_000, "processes more than"),
    ],
)  # fmt: skip
async def test_html_that_would_cost_too_much_is_refused(page: str, why: str) -> None:
    values = {"v": {"selector": "p", "take": "html"}}
    assert why in await refused("html", source=page, values=values)


async def test_marks_that_are_closed_may_be_as_many_as_they_like() -> None:
    page = "".join(f"<p><i class=i{number}><svg><path d=M0 /></svg></i><b><em>x</em></b>" for number in range(300))
    assert len((await made("html", source=page, values={"v": {"selector": "b", "all": True}}))["v"]) == 300


# -- markdown -----------------------------------------------------------------------------
async def test_markdown_becomes_html_without_what_runs() -> None:
    text = "# Hi\n\n- *a*\n- <b>x</b>\n\n[l](javascript:alert) ~~s~~\n\n|a|\n|-|\n|1|\n"
    html = await made("markdown", operation="toHtml", source=text)
    assert "<h1>Hi</h1>" in html and "<em>a</em>" in html and "<del>s</del>" in html and "<td>1</td>" in html
    assert "<b>" not in html and "javascript:" not in html
    assert "<b>x</b>" in await made("markdown", operation="toHtml", source=text, keepHtml=True)


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h2>A <i>b</i></h2><p>c</p>", "## A *b*\n\nc"),
        ("<p>Some <b> bold </b>, <del>no</del><br>next</p>", "Some  **bold** , ~~no~~\\\nnext"),
        ("<ul><li>one<ul><li>sub</li></ul></li><li>two</li></ul>", "- one\n  - sub\n- two"),
        ("<ol start=3><li>x<li>y</ol>", "3. x\n4. y"),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
        ('<pre><code class="language-py">x = "*"\n\ny</code></pre>', '```py\nx = "*"\n\ny\n```'),
        ("<p>a <code>b_c</code> d_e</p>", "a `b_c` d\\_e"),
        ('<a href="/x y">l</a> <img src=i.png alt="[a]">', "[l](/x%20y) ![\\[a\\]](i.png)"),
        ("<table><tr><th>a<th>b|c<tr><td>1<td>2</table>", "| a | b\\|c |\n| --- | --- |\n| 1 | 2 |"),
        ("<script>x()</script><style>y</style>z<hr>", "z\n\n---"),
        ("# no heading", "\\# no heading"),
        ("1 &lt; 2", "1 \\< 2"),
        ("", ""),
    ],
)
async def test_html_becomes_markdown(html: str, markdown: str) -> None:
    assert await made("markdown", operation="fromHtml", source=html) == markdown


@pytest.mark.parametrize(
    "text", ["# T\n", "a **b** *c* `d`\n", "- a\n- b\n", "> q\n", "```py\nx\n```\n", "1. a\n2. b\n"]
)
async def test_markdown_survives_the_way_to_html_and_back(text: str) -> None:
    html = await made("markdown", operation="toHtml", source=text)
    assert await made("markdown", operation="fromHtml", source=html) == text.strip()


# -- csv ----------------------------------------------------------------------------------
async def test_csv_is_read_into_objects_or_lists() -> None:
    text = '\ufeffa,b\r\n1,"x, ""y""\n"\n\n2\n'
    assert await made("csv", operation="parse", source=text) == [{"a": "1", "b": 'x, "y"\n'}, {"a": "2"}]
    lists = await made("csv", operation="parse", source="1;2\n3;4", delimiter=";", header=False)
    assert lists == [["1", "2"], ["3", "4"]]
    assert await made("csv", operation="parse", source="1\t2", delimiter="\t", header=False, columns=["x", "y"]) == [
        {"x": "1", "y": "2"}
    ]
    assert await made("csv", operation="parse", source="a,b\n1,2", columns=["x", "y"]) == [{"x": "1", "y": "2"}]
    assert await made("csv", operation="parse", source="") == []
    assert "line 2 has 2 cells for 1 columns" in await refused("csv", operation="parse", source="a\n1,2")
    assert "two columns 'a'" in await refused("csv", operation="parse", source="a,a\n1,2")


async def test_csv_is_written_of_objects_or_lists_and_read_again() -> None:
    rows = [{"a": 1, "b": None}, {"b": 'x,"y"\n', "c": [True]}]
    assert await made("csv", operation="write", source=rows) == 'a,b,c\n1,,\n,"x,""y""\n",[true]\n'
    assert await made("csv", operation="write", source=rows, columns=["b"], header=False) == '""\n"x,""y""\n"\n'
    assert await made("csv", operation="write", source=[["é", 2]], delimiter=";") == "é;2\n"
    texts = [{"a": "1", "b": '"'}, {"a": "\r\n", "b": ","}]
    written = await made("csv", operation="write", source=texts)
    assert await made("csv", operation="parse", source=written) == texts
    assert "row 0 is neither" in await refused("csv", operation="write", source=[1])


# -- xml ----------------------------------------------------------------------------------
ORDER = '<o:order xmlns:o="u" id="7"><line n="1">a &amp; b</line><line>c<![CDATA[<d>]]></line><empty/></o:order>'


async def test_xml_is_read_into_objects() -> None:
    assert await made("xml", operation="parse", source=ORDER) == {
        "o:order": {"@xmlns:o": "u", "@id": "7", "line": [{"@n": "1", "#text": "a & b"}, "c<d>"], "empty": ""}
    }
    merged = {"operation": "parse", "attributePrefix": "", "textKey": "_", "source": '<a b="1"><b>2</b></a>'}
    assert await made("xml", **merged) == {"a": {"b": ["1", "2"]}}
    assert await made("xml", operation="parse", source="<a><b>2</b></a>", alwaysLists=True) == {"a": {"b": ["2"]}}
    assert await made("xml", operation="parse", source='<!DOCTYPE a SYSTEM "a.dtd"><a>1</a>') == {"a": "1"}
    assert "mismatched tag (line 1, column 9)" in await refused("xml", operation="parse", source="<a><b></a>")


async def test_xml_is_written_of_objects_and_read_again() -> None:
    value = {"a": {"@x": '"<', "b": ["1", {"@y": "2", "#text": "t & u"}], "c": ""}}
    written = await made("xml", operation="write", source=value)
    assert written.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<a x=')
    assert await made("xml", operation="parse", source=written) == value
    for wrong, why in {
        "two roots": ({"a": 1, "b": 2}, "one with 2 fields"),
        "a list": ([[1]], "item 0"),
        "a name": ({"a b": 1}, "is not a name of an element"),
        "an attribute": ({"a": {"@b": {}}}, "is not an attribute"),
        "a control character": ({"a": "\x00"}, "control character"),
        "a list in a list": ({"a": {"b": [[1]]}}, "a list in a list"),
    }.values():
        assert why in await refused("xml", operation="write", source=wrong)


# -- crypto -------------------------------------------------------------------------------
@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "sha384", "sha224", "sha1", "md5", "sha3-256", "sha3-512"])
async def test_crypto_hashes_and_signs_as_others_do(algorithm: str) -> None:
    name = algorithm.replace("-", "_")
    digest = hashlib.new(name, "é".encode()).digest()
    assert await made("crypto", operation="hash", source="é", algorithm=algorithm) == digest.hex()
    signature = hmac.digest(KEY.encode(), "é".encode(), name)
    config = {"operation": "hmac", "source": "é", "algorithm": algorithm, "key": "{{secret.K}}"}
    assert await made("crypto", **config, encoding="base64") == base64.b64encode(signature).decode()
    for_addresses = base64.urlsafe_b64encode(signature).decode().rstrip("=")
    assert await made("crypto", **config, encoding="base64url") == for_addresses


async def test_crypto_hashes_bytes() -> None:
    assert await made("crypto", operation="hash", source="AP8=", sourceEncoding="base64") == (
        hashlib.sha256(b"\x00\xff").hexdigest()
    )
    with pytest.raises(NonRetryable, match="the source is not valid base64"):
        await made("crypto", operation="hash", source="é", sourceEncoding="base64")


async def test_crypto_makes_identifiers_and_random_values() -> None:
    found = {await made("crypto", operation="uuid") for _ in range(3)}
    assert len(found) == 3
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", each) for each in found
    )
    assert len(await made("crypto", operation="random", bytes=5)) == 10
    assert await made("crypto", operation="random") != await made("crypto", operation="random")


async def test_the_key_of_a_signature_comes_out_nowhere() -> None:
    with pytest.raises(NonRetryable) as refusal:
        await made("crypto", operation="hmac", source={"a": 1}, key="{{secret.K}}")
    assert KEY not in str(refusal.value)
    assert problems("crypto", {"operation": "hmac", "source": "x", "key": "{{secret.K}}"}) == []
    assert problems("text", {"operation": "match", "source": "{{secret.K}}", "pattern": "a"}) != []


async def test_what_is_random_is_in_the_log_and_every_reader_of_it_has_the_same() -> None:
    random = {"operation": "random", "bytes": 8}
    document = drawn(
        "start>id, id>salt, salt>both, both>end",
        id={"type": "crypto", "config": {"operation": "uuid"}, "outputVariable": "id", "retry": {"maxAttempts": 3}},
        salt={"type": "crypto", "config": random, "forEach": [1, 2], "outputVariable": "salts"},
        both={"type": "set", "config": {"values": {"v": "{{ctx.id}} {{ctx.salts}}"}}, "outputVariable": "both"},
        end={"type": "end", "config": {"outputParameters": {"v": "{{ctx.both.v}}"}}},
    )
    database = MemoryDatabase(now=lambda: driver.now)
    driver = Driver(MemoryStore(database), TYPES, duplicate=True, evaluations_max=200)
    run = driver.add(document)
    await driver.drive()

    rows = {event.node_id: event.payload.value for event in run.log if event.type is EventType.NODE_COMPLETED}
    assert len(rows["salt"]) == len(set(rows["salt"])) == 2
    salts = orjson.dumps(rows["salt"]).decode()
    assert run.log[-1].payload.value == {"v": f"{rows['id']} {salts}"}
    head, plan = run.state.head, run.state.plan
    assert check_log(plan, head, run.log) == []
    assert replay_graph(plan, plan, head, run.log) == []
