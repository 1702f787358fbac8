"""Dead letters: kept in the database, counted when they come again, listed by tenant, and counted in the metrics."""

from __future__ import annotations

import pytest

from anabranch.dead_letters import dead_letter_table
from anabranch.dead_letters.dead_letters import DeadLetter
from tests.rest.conftest import OTHER_TENANT, TENANT, Served


def letter(name: str, tenant: str = TENANT, reason: str = "executors refused it") -> DeadLetter:
    return DeadLetter(name, tenant, "run", "far", "", 2, "anabranch.jobs.gpu", reason, "{}")


async def test_dead_letters_are_listed_by_tenant_and_counted_when_they_come_again(served: Served):
    rows = served.services.dead_letters
    for each in (letter("a"), letter("b", OTHER_TENANT), letter("c", ""), letter("a", reason="another")):
        await rows.add_letter(each)
    [shown] = (await served.ask("GET", "/v1/dead-letters")).json["items"]
    assert (shown["letterID"], shown["runID"], shown["nodeID"], shown["attempt"]) == ("a", "run", "far", 2)
    assert (shown["count"], shown["reason"], shown["queue"]) == (2, "another", "anabranch.jobs.gpu")
    assert shown["firstAt"] <= shown["lastAt"]
    assert "shown" not in shown, "a message may have what its run keeps"
    assert {each.letter_id for each in await rows.list_letters(tenant_id=None)} == {"a", "b", "c"}
    assert "anabranch_dead_letters 3.0" in (await served.ask("GET", "/metrics")).text


async def test_the_oldest_dead_letters_make_room(served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dead_letter_table, "LETTERS_MAX", 2)
    for name in "abc":
        await served.services.dead_letters.add_letter(letter(name))
    assert await served.services.dead_letters.count_letters() == 2
