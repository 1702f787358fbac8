"""How the grace of a process is divided: no part may take what the parts after it need."""

from __future__ import annotations

import math

import pytest

from anabranch.grace import EXIT_S, STOP_S_MIN, Grace


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 30.0, 3600.0])
def test_all_parts_fit_into_the_grace(seconds: float) -> None:
    grace = Grace(seconds)
    executions, engine, everything = grace.executions_left_s(), grace.engine_left_s(), grace.left_s()
    assert everything + EXIT_S == max(seconds, STOP_S_MIN)
    assert 0 <= executions <= max(0, seconds - 1)
    assert engine - executions >= 0.5 - 1e-9, "the last commits and the handover"
    assert everything - engine >= 0.3 - 1e-9, "requests under way, connections"
    assert grace.requests_s <= (everything - engine) / 2 + 1e-9
    assert grace.closing_s(math.inf) <= everything / 2


def test_nothing_is_left_once_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    grace = Grace(4.0)
    now += 50.0
    assert grace.executions_left_s() == 3.0, "it has not begun"
    grace.begin()
    now += 3.2
    grace.begin()
    assert grace.executions_left_s() == 0.0
    assert grace.engine_left_s() == pytest.approx(0.3)
    assert grace.closing_s(0.5) == pytest.approx(0.3)
    now += 10.0
    assert (grace.engine_left_s(), grace.left_s(), grace.closing_s(0.5)) == (0.0, 0.0, 0.0)
