"""Widgets: whatever a run gives back is shaped, and only a config that makes no sense is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import InvalidRequest
from anabranch.service.widgets.number_formats import formatted
from anabranch.service.widgets.shapes import ROWS_MAX, TEXT_CHARACTERS_MAX, shape

ORDERS = {"orders": [{"id": 1, "total": 9.5, "by": {"name": "Ada"}}, {"id": 2, "total": 20}], "count": 2}


def run(output: Any, status: str = "COMPLETED", error: Any = None) -> dict[str, Any]:
    return {"instanceID": "an-id", "status": status, "output": output, "error": error}


def data(output: Any, widget_type: str, config: Any = None) -> Any:
    """What is drawn of a completed run."""
    answer = shape(run(output), widget_type, config)
    assert (answer["ready"], answer["error"]) == (True, None), answer
    return answer["data"]


def mismatch(output: Any, widget_type: str, config: Any = None) -> str:
    answer = shape(run(output), widget_type, config)
    assert (answer["ready"], answer["data"], answer["error"]["code"]) == (False, None, "WIDGET_MISMATCH")
    return str(answer["error"]["message"])


def refused(widget_type: Any, config: Any) -> list[str]:
    """The JSON pointers of what is wrong."""
    with pytest.raises(InvalidRequest) as refusal:
        shape(run(ORDERS), widget_type, config)
    return [each["pointer"] for each in refusal.value.details]


# -- tables -----------------------------------------------------------------------------------------
def test_a_table_has_the_columns_of_its_rows() -> None:
    table = data(ORDERS, "table", {"path": "orders"})
    assert [column["key"] for column in table["columns"]] == ["id", "total", "by"]
    assert table["rows"][1] == {"id": 2, "total": 20, "by": None}
    assert (table["rowCount"], table["truncated"]) == (2, False)


def test_columns_may_be_chosen_named_and_taken_from_within() -> None:
    columns = ["id", {"key": "by.name", "label": "Customer"}]
    table = data(ORDERS, "table", {"path": "orders", "columns": columns})
    assert table["columns"] == [{"key": "id", "label": "id"}, {"key": "by.name", "label": "Customer"}]
    assert table["rows"] == [{"id": 1, "by.name": "Ada"}, {"id": 2, "by.name": None}]


def test_a_table_shows_its_first_thousand_rows_and_says_so() -> None:
    table = data([{"n": n} for n in range(ROWS_MAX + 1)], "table")
    assert (len(table["rows"]), table["rowCount"], table["truncated"]) == (ROWS_MAX, ROWS_MAX + 1, True)
    assert not data([1] * ROWS_MAX, "table")["truncated"]


def test_plain_values_are_rows_of_one_column_and_an_object_is_one_row() -> None:
    assert data(["a", None], "table")["rows"] == [{"value": "a"}, {"value": None}]
    assert data({"a": 1}, "table")["rows"] == [{"a": 1}]
    assert data([], "table") == {"columns": [], "rows": [], "rowCount": 0, "truncated": False}
    assert "not text" in mismatch("x", "table")


# -- charts -----------------------------------------------------------------------------------------
def test_a_chart_has_points_and_series() -> None:
    config = {"path": "orders", "x": "id", "series": [{"key": "total", "label": "Total"}], "kind": "bar"}
    assert data(ORDERS, "chart", config) == {
        "kind": "bar",
        "x": [1, 2],
        "series": [{"key": "total", "label": "Total", "values": [9.5, 20]}],
        "truncated": False,
    }


def test_without_series_every_column_of_numbers_is_one() -> None:
    chart = data([{"t": 1, "a": 5, "b": "x", "c": True}, {"t": 2, "a": "n/a"}], "chart", {"x": "t"})
    assert chart["series"] == [{"key": "a", "label": "a", "values": [5, None]}]
    assert data([3, 4], "chart") == {
        "kind": "line",
        "x": [0, 1],
        "series": [{"key": "value", "label": "value", "values": [3, 4]}],
        "truncated": False,
    }


# -- metrics ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "format_", "text"),
    [
        (1234.5, "number", "1,234.5"),
        (0, "number", "0"),
        (-1000, "number", "-1,000"),
        (0.256, "percent", "25.6%"),
        (1, "percent", "100%"),
        (1234.5, "currency:EUR", "1,234.50 EUR"),
        (250, "duration", "250ms"),
        (3_900_000, "duration", "1h 5m"),
        (-90_061_000, "duration", "-1d 1h"),
        (60_000, "duration", "1m"),
        (1536, "bytes", "1.5 KB"),
        (10, "bytes", "10 bytes"),
        (5 * 1024**6, "bytes", "5.76461e+18"),
        (2**63, "number", "9.22337e+18"),
        (1e300, "currency:EUR", "1e+300 EUR"),
    ],
)
def test_a_number_is_written_as_people_read_it(value: float, format_: str, text: str) -> None:
    assert formatted(value, format_) == text
    assert data(value, "metric", {"format": format_, "label": "L"}) == {
        "value": value,
        "formatted": text,
        "label": "L",
        "format": format_,
    }


@given(st.integers(-(2**63), 2**64 - 1) | st.floats(), st.sampled_from(["number", "percent", "duration", "bytes"]))
def test_every_number_has_a_short_text(value: float, format_: str) -> None:
    assert 1 <= len(formatted(value, format_)) <= 32


def test_a_metric_that_is_no_number() -> None:
    assert data("high", "metric")["formatted"] == "high"
    assert data(None, "metric")["formatted"] == ""
    assert "not text" in mismatch("high", "metric", {"format": "percent"})
    assert "not a list" in mismatch([1], "metric")
    assert "not a boolean" in mismatch(True, "metric", {"format": "number"})


# -- text and JSON ----------------------------------------------------------------------------------
def test_text_is_shown_as_it_is_and_never_resolved() -> None:
    assert data("{{ctx.a}} <b>", "text")["text"] == "{{ctx.a}} <b>"
    assert data({"ü": [1]}, "text")["text"] == '{"ü":[1]}'
    long = data("x" * (TEXT_CHARACTERS_MAX + 1), "text")
    assert (len(long["text"]), long["truncated"]) == (TEXT_CHARACTERS_MAX, True)


def test_json_is_handed_on() -> None:
    assert data(ORDERS, "json") is ORDERS
    assert data(ORDERS, "json", {"path": "orders.0.by"}) == {"name": "Ada"}
    assert data(None, "json") is None


# -- paths, and runs on their way ---------------------------------------------------------------------
@pytest.mark.parametrize("path", ["nothing", "orders.2", "orders.-1", "orders.id", "count.x", "orders.1.by.name"])
def test_what_is_not_in_an_ended_run_is_told(path: str) -> None:
    assert "there is no" in mismatch(ORDERS, "json", {"path": path})


@pytest.mark.parametrize("output", [None, {}, {"other": 1}, {"orders": None}])
def test_what_may_still_come_is_no_error(output: Any) -> None:
    answer = shape(run(output, "RUNNING"), "table", {"path": "orders"})
    assert (answer["ready"], answer["data"], answer["error"], answer["status"]) == (False, None, None, "RUNNING")


def test_what_there_is_so_far_is_shown_in_the_same_form() -> None:
    so_far = shape(run(ORDERS, "RUNNING"), "table", {"path": "orders"})
    ended = shape(run(ORDERS), "table", {"path": "orders"})
    assert so_far == {**ended, "status": "RUNNING"}
    assert list(ended) == ["instanceID", "status", "widgetType", "data", "ready", "error"]


def test_a_failed_run_shows_its_error() -> None:
    error = {"code": "HANDLER_ERROR", "message": "no"}
    answer = shape(run(None, "FAILED", error), "text", None)
    assert (answer["error"], answer["ready"]) == (error, False)


# -- configs ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("widget_type", "config", "pointers"),
    [
        ("gauge", {}, ["/type"]),
        (None, {}, ["/type"]),
        ([], {}, ["/type"]),
        ("table", [], ["/config"]),
        ("table", "x", ["/config"]),
        ("table", {"x": "id"}, ["/config/x"]),
        ("table", {"a/b~": 1}, ["/config/a~1b~0"]),
        ("json", {"path": 1}, ["/config/path"]),
        ("json", {"path": "a..b"}, ["/config/path"]),
        ("json", {"path": ".".join("a" * 65)}, ["/config/path"]),
        ("json", {"path": "a" * 256}, ["/config/path"]),
        ("table", {"columns": []}, ["/config/columns"]),
        ("table", {"columns": ["a"] * 101}, ["/config/columns"]),
        ("table", {"columns": ["a", 1, {}]}, ["/config/columns/1", "/config/columns/2/key"]),
        ("table", {"columns": [{"key": "a", "width": 1}]}, ["/config/columns/0/width"]),
        ("table", {"columns": [{"key": "a", "label": 1}]}, ["/config/columns/0/label"]),
        ("chart", {"kind": "radar", "x": 1}, ["/config/x", "/config/kind"]),
        ("metric", {"format": "currency:euro"}, ["/config/format"]),
        ("text", {"format": "markdown"}, ["/config/format"]),
    ],
)
def test_everything_that_is_wrong_is_told_with_its_place(widget_type: Any, config: Any, pointers: list[str]) -> None:
    assert sorted(refused(widget_type, config)) == sorted(pointers)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
keys = st.text(max_size=5) | st.sampled_from(["a", "a.b", "0", "a.0"])
columns = st.lists(keys | st.fixed_dictionaries({"key": keys}, optional={"label": keys}), max_size=3)
configs = st.fixed_dictionaries(
    {}, optional={"path": keys, "columns": columns, "series": columns, "x": keys, "kind": st.just("bar"),
                  "format": st.sampled_from(["number", "percent", "currency:EUR", "plain"]), "label": keys}
)  # fmt: skip


@given(
    values,
    st.sampled_from(["table", "chart", "metric", "text", "json"]) | values,
    st.none() | configs | values,
    st.sampled_from(["PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"]),
)
def test_no_output_and_no_config_ever_breaks_it(output: Any, widget_type: Any, config: Any, status: str) -> None:
    try:
        answer = shape(run(output, status), widget_type, config)
    except InvalidRequest as refusal:
        assert refusal.details and all(each["pointer"].startswith("/") for each in refusal.details)
    else:
        assert answer["ready"] or answer["data"] is None
