"""Retry policies: how they are written, and how long each wait is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.rules.shared.retry import ATTEMPTS_MAX, DEFAULT_RETRY, DEFAULT_STEP_RETRY, KINDS, RetryPolicy


def _waits(policy: RetryPolicy, count: int) -> list[int]:
    return [policy.delay_ms(attempt, key="a") for attempt in range(1, count + 1)]


def test_three_tries_one_and_two_seconds_apart_is_what_nobody_has_to_ask_for() -> None:
    assert RetryPolicy.parse(None) == RetryPolicy.parse({}) == DEFAULT_RETRY
    assert DEFAULT_RETRY.max_attempts == 3
    assert _waits(DEFAULT_RETRY, 2) == [1_000, 2_000]


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("exp", [100, 200, 400, 450, 450]),
        ("linear", [100, 200, 300, 400, 450]),
        ("fixed", [100, 100, 100, 100, 100]),
    ],
)
def test_waits_grow_as_their_kind_says_up_to_the_maximum(kind: str, waits: list[int]) -> None:
    policy = RetryPolicy.parse({"maxAttempts": 9, "backoff": {"kind": kind, "base": "100ms", "max": "450ms"}})
    assert _waits(policy, 5) == waits


def test_however_many_attempts_there_were_the_wait_is_the_maximum() -> None:
    assert RetryPolicy(base_ms=1, max_ms=60_000).delay_ms(10**9, key="a") == 60_000


def test_jitter_spreads_activations_and_repeats_itself_for_each() -> None:
    policy = RetryPolicy(jitter=0.2)
    waits = {key: policy.delay_ms(1, key=str(key)) for key in range(200)}
    assert waits == {key: policy.delay_ms(1, key=str(key)) for key in range(200)}
    assert 800 <= min(waits.values()) < 850
    assert 1150 < max(waits.values()) <= 1200


@given(
    st.sampled_from(KINDS),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.floats(0, 1),
    st.integers(1, 5000),
    st.text(),
)
def test_no_wait_is_negative_or_longer_than_maximum_and_jitter(
    kind: str, base: int, maximum: int, jitter: float, attempt: int, key: str
) -> None:
    wait = RetryPolicy(9, kind, base, maximum, jitter).delay_ms(attempt, key=key)
    assert 0 <= wait <= maximum * (1 + jitter) + 1


@pytest.mark.parametrize(
    ("written", "field"),
    [
        (3, "retry"),
        ({"maxAttempts": 0}, "maxAttempts"),
        ({"maxAttempts": ATTEMPTS_MAX + 1}, "maxAttempts"),
        ({"maxAttempts": True}, "maxAttempts"),
        ({"maxAttempts": "3"}, "maxAttempts"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": 3, "maxAttempts": 3}, "attempts"),
        ({"max_attempts": 3}, "did you mean 'maxAttempts'"),
        ({"backoff": []}, "backoff"),
        ({"backoff": {"kind": "random"}}, "kind"),
        ({"backoff": {"kind": []}}, "kind"),
        ({"backoff": {"base": "soon"}}, "base"),
        ({"backoff": {"max": -1}}, "max"),
        ({"backoff": {"jitter": 1.5}}, "jitter"),
        ({"backoff": {"jitter": True}}, "jitter"),
        ({"backoff": {"jitter": float("nan")}}, "jitter"),
        ({"backoff": {"factor": 2}}, "factor"),
    ],
)
def test_a_policy_out_of_bounds_is_refused_by_the_name_of_its_field(written: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        RetryPolicy.parse(written)


@pytest.mark.parametrize("default", [None, DEFAULT_STEP_RETRY], ids=["node", "step"])
def test_nodes_and_steps_spell_the_number_of_attempts_alike(default: RetryPolicy | None) -> None:
    by_one_name, by_the_other = ({name: 5, "backoff": {"base": "2s"}} for name in ("maxAttempts", "attempts"))
    policy = RetryPolicy.parse(by_one_name, default=default)
    assert (policy.max_attempts, policy.base_ms) == (5, 2_000)
    assert RetryPolicy.parse(by_the_other, default=default) == policy
    assert RetryPolicy.parse(None, default=default) == (default or DEFAULT_RETRY)
