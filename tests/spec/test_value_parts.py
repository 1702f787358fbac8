"""What of a value is stored apart: that depends on the part alone, and nothing is lost by it."""

from __future__ import annotations

import orjson
import pytest

from anabranch.engine.rules.value_parts import PART_BYTES_MIN, divide, read_division
from anabranch.engine.rules.values import DividedPayload, Payload, WholePayload
from anabranch.errors import ValueMissing

TEXT = "x" * 100_000
ROWS = [{"id": number, "text": "y" * 50} for number in range(2_000)]


def paths(value):
    """Where the large parts of a value are."""
    division = Payload.of(value).division
    return None if division is None else [part.path for part in division.parts]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * (PART_BYTES_MIN - 2), None),
        ("x" * (PART_BYTES_MIN - 1), [()]),
        ({"a": {"text": TEXT}, "b": [1, TEXT]}, [("a", "text"), ("b", 1)]),
        ({"rows": ROWS, "rowCount": 2_000}, [("rows",)]),
        ([TEXT, *range(50_000)], [()]),
        ({"a": [["z" * 60_000], ["z" * 60_000]]}, [("a",)]),
    ],
)
def test_the_smallest_parts_go_that_leave_little_behind(value, expected):
    assert paths(value) == expected


def test_a_part_has_the_same_name_wherever_it_stands():
    names = {
        part.sha256
        for value in (TEXT, {"input": TEXT}, [{"deep": [TEXT, 1]}])
        for part in Payload.of(value).division.parts
    }
    assert len(names) == 1


def test_json_that_others_wrote_is_kept_to_the_letter():
    raw = b'{"text": "' + b"x" * 100_000 + b'", "n": 1.50}'
    assert divide(orjson.loads(raw), raw).raw() == raw


def test_a_part_that_was_not_fetched_is_missed_only_when_it_is_read():
    whole = Payload.of({"text": TEXT, "n": 1})
    division = read_division(whole.division.shell, whole.division.references)
    payload = DividedPayload(division)
    assert (payload.size, payload.weight) == (len(whole.raw), whole.weight)
    assert payload.is_stored_like(whole)
    with pytest.raises(ValueMissing):
        payload.value  # noqa: B018


def test_a_large_row_from_before_stays_whole():
    payload = WholePayload.parse(orjson.dumps(TEXT))
    assert (payload.division, payload.weight) == (None, len(TEXT) + 2)
