"""`anabranch dead-letters`: what brokers have set aside, of one tenant or all, without a server."""

from __future__ import annotations

import asyncio

from anabranch.dead_letters.dead_letter_table import DeadLetterTable
from anabranch.dead_letters.dead_letters import DeadLetter
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from tests.cli.conftest import GREETING, Command, Write


def add(run_id: str) -> None:
    """Add a letter of this run, and one of a run that does not exist."""

    async def add_both() -> None:
        store = open_store("sqlite:///.anabranch/anabranch.db")
        assert isinstance(store, SqlStore)
        await store.start()
        try:
            for letter_id, instance_id in (("known", run_id), ("forged", "no run")):
                letter = DeadLetter(letter_id, "default", instance_id, "far", "", 2, "anabranch.jobs.gpu", "refused")
                await DeadLetterTable(store).add_letter(letter)
        finally:
            await store.stop()

    asyncio.run(add_both())


def test_dead_letters_are_listed_of_one_tenant_or_all(anabranch: Command, write: Write) -> None:
    run_id = anabranch("run", write("greeting.json", GREETING), "--json").document["instanceID"]
    add(run_id)

    [letter] = anabranch("dead-letters", "--tenant", "default", "--json").document["items"]
    assert (letter["letterID"], letter["tenant"], letter["runID"]) == ("known", "default", run_id)
    assert (letter["nodeID"], letter["attempt"], letter["count"]) == ("far", 2, 1)
    assert (letter["queue"], letter["reason"]) == ("anabranch.jobs.gpu", "refused")
    everything = anabranch("dead-letters", "--json").document["items"]
    assert {(each["letterID"], each["tenant"]) for each in everything} == {("known", "default"), ("unknown:forged", "")}
    assert anabranch("dead-letters", "--tenant", "acme", "--json").document["items"] == []
    printed = anabranch("dead-letters", "--tenant", "default")
    assert run_id in printed.out and "refused" in printed.out and printed.code == 0
