"""Record the logs of these programs with the version of anabranch at hand: `python -m tests.golden.coded.record FILE`.

Of each run, the rows up to where it waits for its signal, and what it came to after that.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from anabranch import Worker
from anabranch.durable.definition import Workflow
from tests.golden.coded.programs import PROGRAMS


async def recorded() -> dict[str, dict[str, Any]]:
    """Each program's run, with its rows as REST shows them."""
    known = [Workflow(name.replace("_", "-"), 1, function, {}) for name, function in PROGRAMS.items()]
    with tempfile.TemporaryDirectory() as directory:
        async with Worker(f"sqlite:///{directory}/golden.db", workflows=known) as worker:
            assert worker.services is not None, "it is open"
            verbs = worker.services.workflows
            runs = {}
            for name in PROGRAMS:
                started = await verbs.execute_workflow(name.replace("_", "-"), None, tenant_id="default")
                while True:
                    run = await verbs.get_run(started.instance_id, tenant_id="default")
                    log = await verbs.get_log(started.instance_id, tenant_id="default")
                    if run["status"] == "WAITING" and {"event": "go"} in [row["payload"] for row in log]:
                        break
                    await asyncio.sleep(0.05)
                await verbs.send_signal(started.instance_id, "go", {"n": 1}, tenant_id="default")
                while run["completedAt"] is None:
                    run = await verbs.get_run(started.instance_id, tenant_id="default")
                    await asyncio.sleep(0.05)
                runs[name] = {"instanceID": started.instance_id, "log": log, "output": run["output"]}
            return runs


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asyncio.run(recorded()), indent=1) + "\n")
