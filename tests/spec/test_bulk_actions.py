"""A page of a bulk run acts with keys that depend on the bulk run and the run alone: repeated, it acts once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from anabranch.bulk.bulk_actions import BulkActions
from anabranch.engine.ports import Store
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
