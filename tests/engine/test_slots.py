"""Slots: so many executions at once, and what is lent meanwhile."""

from __future__ import annotations

import pytest

from anabranch.engine.queues import task_queue as slots_module
from anabranch.engine.queues.task_queue import Slot, Slots


class Counted:
    """Slots, and how often a further job was asked for."""

    def __init__(self, concurrency: int) -> None:
        self.woken = 0
        self.slots = Slots(self._wake)
        self.slots.concurrency = concurrency
        self.back: list[str] = []

    def take(self, count: int) -> list[Slot]:
        return [self.slots.take() for _ in range(count)]

    def wanted_back(self, slot: Slot, name: str) -> None:
        if slot.take_back(lambda: self.back.append(name)):
            self.back.append(name)

    def _wake(self) -> None:
        self.woken += 1


def test_a_slot_that_is_lent_is_another_jobs() -> None:
    counted = Counted(1)
    (first,) = counted.take(1)
    assert not counted.slots.has_free

    first.lend()

    assert counted.slots.has_free
    assert counted.woken == 1


def test_a_slot_comes_back_at_once_where_one_is_free() -> None:
    counted = Counted(1)
    (first,) = counted.take(1)
    counted.wanted_back(first, "not lent")
    first.lend()
    counted.wanted_back(first, "lent")

    assert counted.back == ["not lent", "lent"]
    assert not counted.slots.has_free


def test_who_wants_his_slot_back_comes_before_new_jobs_in_order() -> None:
    counted = Counted(2)
    first, second = counted.take(2)
    first.lend()
    second.lend()
    others = counted.take(2)
    counted.woken = 0
    counted.wanted_back(second, "second")
    counted.wanted_back(first, "first")
    counted.wanted_back(first, "asked again")
    assert counted.back == []

    others[0].end()
    assert (counted.back, counted.woken) == (["second"], 0)
    others[1].end()
    assert (counted.back, counted.woken) == (["second", "first"], 0)
    second.end()
    assert counted.woken == 1


def test_a_job_may_end_while_its_slot_is_lent_or_asked_back() -> None:
    counted = Counted(1)
    (first,) = counted.take(1)
    first.lend()
    (other,) = counted.take(1)
    counted.wanted_back(first, "first")
    first.end()
    other.end()

    assert counted.back == []
    assert counted.slots.has_free
    counted.take(1)
    assert not counted.slots.has_free


def test_a_slot_that_was_lent_at_its_end_is_not_taken_again() -> None:
    counted = Counted(1)
    (first,) = counted.take(1)
    first.lend()
    first.end()
    counted.wanted_back(first, "late")
    first.lend()

    assert counted.back == []
    assert counted.slots.jobs_max == 1, "none is lent"
    counted.take(1)
    assert not counted.slots.has_free


def test_a_slot_that_was_asked_back_after_its_end_does_not_keep_another_from_its_job() -> None:
    counted = Counted(1)
    (first,) = counted.take(1)
    first.lend()
    (second,) = counted.take(1)
    first.end()
    counted.wanted_back(first, "late")
    second.end()

    assert counted.back == []
    assert counted.slots.has_free, "a new job gets it"


def test_a_slot_that_has_ended_is_not_lent() -> None:
    counted = Counted(2)
    first, _ = counted.take(2)
    first.end()
    first.lend()
    counted.take(1)

    assert not counted.slots.has_free


def test_only_so_many_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "LENT_MAX", 1)
    counted = Counted(2)
    first, second = counted.take(2)
    first.lend()
    second.lend()
    counted.take(1)

    assert not counted.slots.has_free, "the second has kept its own"
    counted.wanted_back(second, "second")
    assert counted.back == ["second"]
