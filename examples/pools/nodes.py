"""The node type of the example; the worker checks its config with it, the executor executes it."""

import asyncio
import os

from anabranch import HandlerResult, node_type


@node_type("trainModel", pool="gpu", timeout="5m")
class TrainModel:
    """Trains for some seconds, on a machine that has what it takes."""

    async def execute(self, config, context, helpers):
        """Say that it has begun, work, and say how it went."""
        print(f"training {helpers.idempotency_key}", flush=True)
        for epoch in range(config["epochs"]):
            helpers.progress(epoch, config["epochs"], "training")
            await asyncio.sleep(0.5)
        has_database = "ANABRANCH_DATABASE_URL" in os.environ
        return HandlerResult({"model": context["input"]["model"], "loss": 0.1, "hasDatabase": has_database})
