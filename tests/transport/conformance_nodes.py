"""The node types that `anabranch.testing.executor_conformance` asks for, for our own executor."""

from __future__ import annotations

import asyncio
from typing import Any

from anabranch import HandlerResult, node_type
from anabranch.errors import NodeFailure


@node_type("conformanceEcho", timeout=None)
class ConformanceEcho:
    """Tells a line and progress, and returns what it got."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        helpers.log.info("echo")
        helpers.progress(1, 2, "half")
        output = {"config": config, "input": context["input"], "attempt": helpers.attempt}
        return HandlerResult({**output, "idempotencyKey": helpers.idempotency_key})


@node_type("conformanceFails", timeout=None)
class ConformanceFails:
    """Fails as its config says."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        raise NodeFailure(config["code"], config["message"], retryable=config["retryable"])


@node_type("conformanceWaits", timeout=None)
class ConformanceWaits:
    """Waits for as long as its config says."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        helpers.log.info("waits")
        await asyncio.sleep(config["ms"] / 1000)
        return HandlerResult({"waited": config["ms"]})
