"""What the log keeps of the arguments of steps: enough to find a call that asks for something else, and no secrets."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from anabranch.engine.rules.coded.arguments import SHOWN_CHARACTERS_MAX, differ, note_of, note_of_call, shown


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    number: int


def price(item: str, currency: str = "EUR") -> None: ...


def log_in(user: str, password: str) -> None: ...


class Shop:
    def log_in(self, user: str, api_key: str) -> None: ...


def noted(*args: Any, **kwargs: Any) -> str:
    return note_of_call(price, args, kwargs)


def test_a_note_is_a_hash_and_the_beginning_of_the_json() -> None:
    hashed, _, text = noted("salt", currency="USD").partition(" ")
    assert len(hashed) == 16
    assert json.loads(text) == {"args": ["salt"], "kwargs": {"currency": "USD"}}
    assert shown(noted("salt")) == '["salt"]'
    assert shown(noted()) == "[]"


def test_only_the_first_characters_are_kept_and_all_of_them_are_hashed() -> None:
    long = "ä" * 1_000
    assert len(shown(noted(long))) == SHOWN_CHARACTERS_MAX
    assert shown(noted(long + "1")) == shown(noted(long + "2"))
    assert differ(noted(long + "1"), noted(long + "2"))


OTHERS: list[tuple[Any, Any]] = [
    (1, 2), (1, 1.5), (1, "1"), (True, 1), (None, 0), ([1], [1, 2]), ({"a": 1}, {"a": 2}), ("salt", "rice"),
    (2**70, 2**71), (Order(1), Colour.RED),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), OTHERS, ids=repr)
def test_other_arguments_have_another_note(one: Any, other: Any) -> None:
    assert differ(noted(one), noted(other))


SAME: dict[str, tuple[Any, Any]] = {
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "tuple and list": ((1, 2), [1, 2]),
    "objects of a class": (Order(1), Order(2)),
    "dates": (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    "ids": (UUID(int=1), UUID(int=2)),
    "sets, whatever their order": ({"a", "b"}, {"b", "c"}),
    "functions": (len, max),
    "in a list": ([Order(1), 7], [Order(2), 7]),
    "keys that are not a text": ({1: "a"}, {2: "b"}),
    "lone surrogates": ("\ud800", "\ud801"),
    "no numbers": (math.nan, math.inf),
}


@pytest.mark.parametrize("kind", SAME)
def test_what_is_no_json_counts_by_its_type(kind: str) -> None:
    one, other = SAME[kind]
    assert not differ(noted(one), noted(other))


def test_what_contains_itself_has_a_note_too() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert shown(noted(endless)).startswith("[[[[")


SECRETS: list[Any] = [
    {"password": "hunter2"}, {"deep": [{"api-key": "hunter2"}]}, {"AccessToken": ["hunter2"]}, "https://ada:hunter2@shop.example",
    {"Authorization": "Bearer hunter2"}, {"client_secret": {"a": "hunter2"}},
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS, ids=repr)
def test_secrets_are_masked_and_do_not_tell_calls_apart(secret: Any) -> None:
    changed = json.loads(json.dumps(secret).replace("hunter2", "changed"))
    assert "hunter2" not in noted(secret)
    assert not differ(noted(secret), noted(changed))


@pytest.mark.parametrize(
    "name",
    [
        "passwd", "Passphrase", "my-PWD", "SECRETS", "tokens", "apikey", "API-KEY", "api_key", "privateKey",
        "private_key", "ACCESSKEY", "access-key", "xAuthorization", "credentials", "setCookie",
    ],
)  # fmt: skip
def test_each_name_of_a_secret_masks_its_value(name: str) -> None:
    assert shown(note_of({name: "hunter2"})) == f'{{"{name}":"***"}}'


@pytest.mark.parametrize("name", ["monkey", "keys", "compass", "upwd"])
def test_a_name_that_only_has_a_part_of_them_masks_nothing(name: str) -> None:
    assert shown(note_of({name: "banana"})) == f'{{"{name}":"banana"}}'


def test_an_argument_is_masked_by_the_name_of_its_parameter() -> None:
    assert shown(note_of_call(log_in, ["ada", "hunter2"], {})) == '["ada","***"]'
    assert shown(note_of_call(Shop().log_in, ["ada", "hunter2"], {})) == '["ada","***"]'
    assert (
        shown(note_of_call(log_in, ["ada"], {"password": "hunter2"})) == '{"args":["ada"],"kwargs":{"password":"***"}}'
    )
    assert shown(note_of_call(partial(print), ["ada"], {})) == '["ada"]'


def test_rows_of_older_versions_have_no_note_to_compare() -> None:
    assert not differ(None, note_of([1]))
    assert not differ(note_of([1]), None)
