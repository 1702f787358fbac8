"""Identifiers of runs: in the order in which a process makes them."""

from __future__ import annotations

import uuid

from anabranch.service.runs.start_verbs import RunIds


def test_identifiers_are_in_the_order_in_which_they_were_made_also_within_a_millisecond() -> None:
    run_ids = RunIds()
    made = [run_ids.new(1_000 + number // 500) for number in range(2_000)]

    assert made == sorted(made)
    assert len(set(made)) == 2_000


def test_an_identifier_is_a_uuid_of_version_7_with_its_millisecond() -> None:
    made = uuid.UUID(RunIds().new(1_795_000_000_123))

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == 1_795_000_000_123


def test_two_processes_do_not_make_the_same() -> None:
    assert RunIds().new(5) != RunIds().new(5)
