"""A page of a bulk run acts with keys that depend on the bulk run and the run alone: repeated, it acts once."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest

from anabranch.bulk.bulk_actions import BulkActions
from anabranch.engine.ports import Store
from anabranch.errors import StoreUnavailable
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore
from tests.conformance.building import created


class KeysOfActions:
    """Stands for the service, and notes the key of every action."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []

    async def retry_run(self, run_id: str, options: Any, **_: Any) -> None:
        self.keys.append(options.idempotency_key)

    async def rerun(self, run_id: str, options: Any, **_: Any) -> None:
        self.keys.append(options.idempotency_key)

    async def send_signal(self, run_id: str, event: str, payload: Any, *, key: str | None, **_: Any) -> None:
        self.keys.append(key)


@pytest.fixture
def store() -> Store:
    return MemoryStore(MemoryDatabase(now=lambda: time.time_ns() // 1_000_000))


async def test_a_page_that_is_repeated_acts_with_the_same_keys_and_another_bulk_run_with_others(store: Store) -> None:
    for action in ("retry", "rerun", "signal"):
        service, actions = KeysOfActions(), BulkActions()
        actions.connect(service, store)  # type: ignore[arg-type]
        asked = {"action": action, "filter": {"workflow": "orders"}, "options": {"event": "go"}}
        bulk, other = [(await created(store)).head.instance_id for _ in range(2)]
        for bulk_id in (bulk, bulk, other):
            await actions.act(bulk_id, asked, ["run-1", "run-2"])
        first, again, others = service.keys[:2], service.keys[2:4], service.keys[4:]
        assert (again, None in first, len({*first, *others})) == (first, False, 4), action


async def test_a_page_that_a_stop_leaves_without_its_store_fails_without_a_word(store: Store) -> None:
    """The interpreter printed its traceback."""
    loop, said = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: said.append(context))
    service, actions, began, left = KeysOfActions(), BulkActions(), asyncio.Event(), asyncio.Event()
    actions.connect(service, store)  # type: ignore[arg-type]

    async def lose_the_store(*_: Any, **__: Any) -> None:
        began.set()
        await left.wait()
        raise StoreUnavailable("the store was stopped")

    service.send_signal = lose_the_store  # type: ignore[method-assign]
    bulk = (await created(store)).head.instance_id
    asked = {"action": "signal", "filter": {"workflow": "orders"}, "options": {"event": "go"}}
    step = asyncio.create_task(actions.act(bulk, asked, ["run-1"]))
    await began.wait()
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    left.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    del step  # the frames of its failure know the page
    gc.collect()
    assert not said
