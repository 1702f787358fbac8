"""A node type whose executions can be counted from outside. Imported by the commands under test (`--import`)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from anabranch import HandlerResult, node_type

LEDGER = Path("effects.jsonl")

# 20 ms: whoever opens the gate can tell us only through a file, and should not wait for us.
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
        leave_line(line)
        if helpers.attempt <= config.failures:
            raise RuntimeError("not today")
        while not is_open(config.gate):  # noqa: ASYNC110  # the gate is opened by another process
            await asyncio.sleep(GATE_POLL_S)
        return HandlerResult("x" * config.size)


def leave_line(line: dict[str, Any]) -> None:
    """Tell the ledger, and whoever reads our output."""
    with LEDGER.open("a") as ledger:
        ledger.write(json.dumps(line) + "\n")
    sys.stdout.write(f"effect of {line['node']}\n")
    sys.stdout.flush()


def is_open(gate: str | None) -> bool:
    """May the execution end?"""
    return gate is None or Path(gate).exists()
