"""The node type of the campaigns: a side effect that an outside ledger sees."""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from typing import Any

from pydantic import BaseModel

from anabranch import HandlerResult, node_type

LEDGER_PORT = "ANABRANCH_TEST_LEDGER_PORT"


class LedgerConfig(BaseModel):
    value: Any = None
    failing_attempts: int = 0
    slow_ms: int = 40


@node_type("ledger", config=LedgerConfig)
class LedgerNode:
    """Tells the ledger, with some time before and after it, so that a kill may fall anywhere."""

    async def execute(self, config: LedgerConfig, context: Any, helpers: Any) -> HandlerResult:
        share = zlib.crc32(helpers.idempotency_key.encode()) % 100 / 100
        await asyncio.sleep(config.slow_ms / 1000 * share)
        entry = {
            "instance": helpers.instance_id,
            "node": helpers.node_id,
            "scope": helpers.scope,
            "attempt": helpers.attempt,
        }
        await _post(entry, helpers.idempotency_key)
        await asyncio.sleep(config.slow_ms / 1000 * (1 - share))
        if helpers.attempt <= config.failing_attempts:
            raise RuntimeError("this attempt was meant to fail")
        return HandlerResult({"value": config.value, "key": helpers.idempotency_key})


class PoisonConfig(BaseModel):
    pass


@node_type("poison", config=PoisonConfig)
class PoisonNode:
    """Kills the process that executes it, as a fault in a native library would."""

    async def execute(self, config: PoisonConfig, context: Any, helpers: Any) -> HandlerResult:
        await asyncio.sleep(0.2)  # so that others are executed beside it
        os._exit(70)


async def _post(entry: dict[str, Any], key: str) -> None:
    body = json.dumps(entry).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[LEDGER_PORT]))
    head = (
        f"POST / HTTP/1.1\r\nHost: ledger\r\nIdempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    answer = await reader.readline()
    writer.close()
    if b"204" not in answer:
        raise ConnectionError(f"the ledger answered {answer!r}")
