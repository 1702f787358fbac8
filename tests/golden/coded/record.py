"""Record the logs of these programs with the version of anabranch at hand: `python -m tests.golden.coded.record FILE`.

Run it in a checkout of the version to be recorded, with this folder copied into it. FILE may have runs already: what it
lacks is added. Of each run it gets the rows up to where it waits for its signal, and what it came to after that. Where
the recorded version cannot replay its own log, the output is what the function had found out when it began to wait.
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
from tests.golden.coded import eighteen
from tests.golden.coded.cases import CASES

GOES_ON_WITHIN_S = 5.0


async def recorded(names: list[str]) -> dict[str, dict[str, Any]]:
    """The runs of this name, each with its rows as REST shows them."""
    known = {name: Workflow(_workflow(name), 1, CASES[name][0], {}) for name in names}
    with tempfile.TemporaryDirectory() as directory:
        async with Worker(f"sqlite:///{directory}/golden.db", workflows=list(known.values())) as worker:
            return {name: await _run(worker, name) for name in names}


def _workflow(name: str) -> str:
    return name.replace("_", "-").replace("/", "-")


async def _run(worker: Any, name: str) -> dict[str, Any]:
    services = worker.services if hasattr(worker, "services") else worker.house  # its name in 0.1.0
    verbs = services.workflows
    input = CASES[name][1]
    run_id = (await verbs.execute_workflow(_workflow(name), input, tenant_id="default")).instance_id
    while True:
        run = await verbs.get_run(run_id, tenant_id="default")
        log = await verbs.get_log(run_id, tenant_id="default")
        if run["status"] == "WAITING" and {"event": "go"} in [row["payload"] for row in log]:
            break
        await asyncio.sleep(0.05)
    await verbs.send_signal(run_id, "go", {"n": 1}, tenant_id="default")
    try:
        async with asyncio.timeout(GOES_ON_WITHIN_S):
            while run["completedAt"] is None:
                run = await verbs.get_run(run_id, tenant_id="default")
                await asyncio.sleep(0.05)
    except TimeoutError:
        pass  # it cannot replay this log
    went_on = run["completedAt"] is not None
    output = run["output"] if went_on else [eighteen.REACHED[run_id], {"n": 1}]
    return {"instanceID": run_id, "log": log, "output": output, "wentOn": went_on}


if __name__ == "__main__":
    file = Path(sys.argv[1])
    runs = json.loads(file.read_text()) if file.exists() else {}
    runs |= asyncio.run(recorded([name for name in CASES if name not in runs]))
    file.write_text(json.dumps(runs, indent=1) + "\n")
