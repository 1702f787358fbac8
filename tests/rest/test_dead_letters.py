"""Dead letters: kept in the database, counted when they come again, listed by tenant, and counted in the metrics."""

from __future__ import annotations

from uuid import uuid4

import pytest

from anabranch.dead_letters import dead_letter_table
from anabranch.dead_letters.dead_letters import DeadLetter
from tests.rest.conftest import OTHER_TENANT, TENANT, Served
from tests.rest.drawing import waiting


def letter(name: str, run_id: str = "run", tenant: str = TENANT, reason: str = "executors refused it") -> DeadLetter:
    return DeadLetter(name, tenant, run_id, "far", "", 2, "anabranch.jobs.gpu", reason)


async def test_dead_letters_are_listed_by_tenant_and_counted_when_they_come_again(served: Served):
    await served.save(waiting())
    run_id, other_run_id = [await served.start("waiting") for _ in range(2)]
    rows = served.services.dead_letters
    for each in (letter("a", run_id), letter("b", other_run_id), letter("a", run_id, reason="another")):
        await rows.add_letter(each)
    items = (await served.ask("GET", "/v1/dead-letters")).json["items"]
    [shown] = [item for item in items if item["letterID"] == "a"]
    assert (shown["tenant"], shown["runID"], shown["nodeID"], shown["attempt"]) == (TENANT, run_id, "far", 2)
    assert (shown["count"], shown["reason"], shown["queue"]) == (2, "another", "anabranch.jobs.gpu")
    assert shown["firstAt"] <= shown["lastAt"]
    assert {item["letterID"] for item in items} == {"a", "b"}
    assert (await served.ask("GET", "/v1/dead-letters", role="other")).json["items"] == []
    assert "anabranch_dead_letters 2.0" in (await served.ask("GET", "/metrics")).text


async def test_a_letter_whose_tenant_has_no_such_run_belongs_to_no_tenant(served: Served):
    await served.save(waiting())
    run_id = await served.start("waiting")
    rows = served.services.dead_letters
    true = letter("a", run_id)
    strange = (letter("a", run_id, OTHER_TENANT), letter("b", str(uuid4())), letter("c", "no id"), letter("d", "", ""))
    for each in (true, *strange):
        await rows.add_letter(each)
    assert [each.letter_id for each in await rows.list_letters(tenant_id=TENANT)] == ["a"]
    assert await rows.list_letters(tenant_id=OTHER_TENANT) == []
    everything = {each.letter_id: (each.tenant_id, each.count) for each in await rows.list_letters(tenant_id=None)}
    assert everything == {"a": (TENANT, 1), **{f"unknown:{name}": ("", 1) for name in "abcd"}}
    assert [each.letter_id for each in await rows.letters_of_run(run_id)] == ["a"]
    assert await rows.count_letters() == 5


async def test_the_oldest_dead_letters_make_room(served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dead_letter_table, "LETTERS_MAX", 2)
    for name in "abc":
        await served.services.dead_letters.add_letter(letter(name))
    assert await served.services.dead_letters.count_letters() == 2
