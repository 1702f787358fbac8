"""One worker process: `python -m tests.chaos.worker DATABASE_URL LEASE_MS`. SIGTERM stops it in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.store.opening import open_hint_line, open_leader_rows, open_store
from anabranch.errors import StoreUnavailable
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.service import ChildRuns, WorkflowService
from tests.chaos import nodes

GRACE_S = 5.0
CRASHES_MAX = int(os.environ.get("ANABRANCH_TEST_CRASHES_MAX", "1000"))
"""In campaigns that kill workers no run is to be blamed for it, however often it is hit."""


CLOCK_OFFSET_S = float(os.environ.get("ANABRANCH_TEST_CLOCK_OFFSET_S", "0"))
"""How far the clock of this process is from that of the others."""


def set_clock(offset_s: float) -> None:
    """Let this process have another time of day."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + offset_s
    time.time_ns = lambda: now_ns() + round(offset_s * 1e9)


async def work(url: str, lease_ms: int) -> None:
    assert nodes.LedgerNode is not None, "importing it has declared the node type"
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    while True:
        store = open_store(url, lease_ms=lease_ms)
        children = ChildRuns()
        types = load_types(Services(children=children))
        engine = Engine(
            store=store,
            handlers=types,
            options=EngineOptions(lease_ms=lease_ms, crashes_max=CRASHES_MAX),
            line=open_hint_line(store),
            leaders=open_leader_rows(store),
        )
        store.report_to(engine.notices)
        service = WorkflowService(engine=engine, node_types=types, retention_days_max=365, pending_max=100_000)
        children.connect(engine, service)
        try:
            await store.start()
            await engine.start()
            break
        except StoreUnavailable:
            await store.stop()
    print("ready", flush=True)
    await stopped.wait()
    await engine.stop(grace_s=GRACE_S)
    await store.stop()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    set_clock(CLOCK_OFFSET_S)
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
