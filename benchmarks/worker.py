"""One worker process: `python -m benchmarks.worker DATABASE_URL`. Says `ready`; ends with its standard input."""

from __future__ import annotations

import asyncio
import sys

from anabranch.app import tune_interpreter
from benchmarks.running import engine_on, open_store_at


async def work(url: str) -> None:
    """Run whatever is due until nobody holds the other end of standard input any more."""
    async with open_store_at(url) as store, engine_on(store):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    tune_interpreter()
    asyncio.run(work(sys.argv[1]))
