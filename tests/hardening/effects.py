"""A node type whose executions can be counted from outside. Imported by the commands under test (`--import`)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from anabranch import HandlerResult, node_type

LEDGER = Path("effects.jsonl")

# 20 ms: the gate is opened by another process, which can tell us only through a file.
GATE_POLL_S = 0.02


class EffectConfig(BaseModel):
    gate: str | None = None
    """A file that the execution waits for, once it has left its line in the ledger."""
    failures: int = 0
    """So many first attempts fail."""
    size: int = 0
    """Characters of output."""


@node_type("effect", config=EffectConfig, timeout=None)
class Effect:
    """Appends a line to the ledger, then fails, waits or returns as its config says."""

    async def execute(self, config: EffectConfig, context: Any, helpers: Any) -> HandlerResult:
        line = {"node": helpers.node_id, "attempt": helpers.attempt, "key": helpers.idempotency_key, "pid": os.getpid()}
        with LEDGER.open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")
        print("effect of", helpers.node_id, flush=True)
        if helpers.attempt <= config.failures:
            raise RuntimeError("not today")
        while config.gate is not None and not Path(config.gate).exists():
            await asyncio.sleep(GATE_POLL_S)
        return HandlerResult("x" * config.size)
