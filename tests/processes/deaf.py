"""Node types that cannot be stopped: they sleep longer than any test waits. For processes under test."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from anabranch import HandlerResult, node_type

LEDGER = Path("effects.jsonl")
SLEEP_S = 600


@node_type("deaf", timeout=None)
class Deaf:
    """Leaves a line in the ledger and sleeps in a thread."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        await asyncio.to_thread(_sleep, helpers.node_id)
        return HandlerResult(None)


@node_type("blocksTheLoop", timeout=None)
class BlocksTheLoop:
    """Leaves a line in the ledger and blocks the event loop."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        _sleep(helpers.node_id)
        return HandlerResult(None)


def _sleep(node_id: str) -> None:
    LEDGER.write_text(json.dumps({"node": node_id}) + "\n")
    time.sleep(SLEEP_S)
