"""A node type that cannot be stopped: its thread sleeps longer than any test waits. Imported by a process under test."""

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
        LEDGER.write_text(json.dumps({"node": helpers.node_id}) + "\n")
        await asyncio.to_thread(time.sleep, SLEEP_S)
        return HandlerResult(None)
