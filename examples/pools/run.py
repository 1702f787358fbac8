"""A drawn workflow whose node `train` runs in another process, which has no database and is killed in the middle.

`python examples/pools/run.py` with ANABRANCH_BROKER_URL set: it starts a worker on a database of its own and two
executors, one after the other.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from anabranch import Client, Worker

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import nodes  # noqa: E402, F401 -- the worker knows the node type, too


def start_executor():
    """An executor of the pool gpu; it is given a broker and nothing else."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    environ["ANABRANCH_BROKER_URL"] = os.environ["ANABRANCH_BROKER_URL"]
    command = [sys.executable, "-m", "anabranch", "executor", "--pools", "gpu", "--import", str(HERE / "nodes.py")]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)


def key_of_training(executor):
    """The idempotency key that the node says when it begins."""
    return next(line.split()[-1] for line in executor.stdout if line.startswith("training"))


async def main():
    """Start everything, kill the executor while it trains, and show that the run completes."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/runs.db"
        async with Worker(url, broker_url=os.environ["ANABRANCH_BROKER_URL"]) as worker, Client(url) as client:
            document = json.loads((HERE / "workflow.json").read_text())
            await worker.services.workflows.save_workflow(document, tenant_id="default")
            first = await asyncio.to_thread(start_executor)
            run = await client.start("train", {"model": "small"})
            key = await asyncio.to_thread(key_of_training, first)
            print("an executor trains")
            first.kill()
            await asyncio.to_thread(first.wait)
            print("it is killed; the run:", (await run.get())["status"])
            second = await asyncio.to_thread(start_executor)
            print("another one trains, with the same key:", await asyncio.to_thread(key_of_training, second) == key)
            print("the run:", json.dumps(await run.result(timeout=60)))
            second.terminate()
            await asyncio.to_thread(second.wait)
            print("the executor has ended:", second.returncode)


asyncio.run(main())
