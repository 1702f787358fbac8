"""How long does a tenant wait for a neighbour that has more code to run than the machine has cores?

    python -m benchmarks.fairness [--json] [--backend sqlite|postgresql] [--spinners 80] [--runs 200]

One process. A quiet tenant runs workflows of one node, one after the other, first alone, then beside a busy tenant
that has started as many python nodes that spin for two seconds each. Two kinds of quiet runs are measured: a node that
needs no sandbox, and a python node. Promised: the 99th percentile is at most twice that of the undisturbed tenant,
plus 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.engine.rules.events import Event, Status
from anabranch.settings import Settings
from benchmarks.databases import BACKENDS, databases

BUSY, QUIET = "busy", "quiet"
SPIN_MS = 2_000
ALLOWED_TIMES = 2.0
ALLOWED_MORE_MS = 100.0
WARM_UP_RUNS = 20

NODES: dict[str, dict[str, Any]] = {
    "set": {"type": "set", "config": {"values": {"answer": "{{ctx.input.n}}"}}},
    "python": {"type": "python", "config": {"code": "return ctx['input']['n'] + 1"}},
}
SPINNER = {
    "type": "python",
    "config": {"code": "while True:\n    pass", "timeout": f"{SPIN_MS}ms"},
    "errorHandling": "ignore",
}


class Ends:
    """Tells when a run of this process has ended."""

    def __init__(self) -> None:
        self._waited: dict[str, asyncio.Future[None]] = {}
        self._ended: set[str] = set()

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """What the engine commits."""
        if status.is_terminal:
            self._ended.add(instance_id)
            waiting = self._waited.pop(instance_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    async def of(self, instance_id: str) -> None:
        """Return when this run has ended."""
        if instance_id not in self._ended:
            waiting = self._waited[instance_id] = asyncio.get_running_loop().create_future()
            await waiting

    def count(self, instance_ids: Sequence[str]) -> int:
        """How many of these have ended."""
        return len(self._ended.intersection(instance_ids))


async def measure(backend: str, *, spinners: int, runs: int) -> dict[str, Any]:
    """Latencies of the quiet tenant's runs, alone and beside the busy one."""
    with databases() as made:
        settings = Settings.load(environ={}, database_url=made.create(backend))
        async with build(settings).open_services(works=True) as services:
            ends = Ends()
            services.engine.observers.add(ends)
            for name, node in NODES.items():
                await _save(services, QUIET, name, node)
                await _latencies(services, ends, name, WARM_UP_RUNS)
            alone = {name: await _latencies(services, ends, name, runs) for name in NODES}
            await _save(services, BUSY, "spinner", SPINNER)
            busy = [await _start(services, BUSY, "spinner") for _ in range(spinners)]
            beside = {name: await _latencies(services, ends, name, runs) for name in NODES}
            ended = ends.count(busy)
            for run in busy:
                if (await services.workflows.get_run_status(run, tenant_id=BUSY)).status is Status.RUNNING:
                    await services.workflows.cancel_run(run, tenant_id=BUSY, reason="measured")
    return {
        "backend": backend,
        "spinners": spinners,
        "spinnersEndedMeanwhile": ended,
        "runs": runs,
        "nodes": {name: _compared(alone[name], beside[name]) for name in NODES},
    }


def _compared(alone: Sequence[float], beside: Sequence[float]) -> dict[str, Any]:
    allowed = ALLOWED_TIMES * _p99(alone) + ALLOWED_MORE_MS
    return {
        "undisturbedP50Ms": round(statistics.median(alone), 1),
        "undisturbedP99Ms": round(_p99(alone), 1),
        "besideP50Ms": round(statistics.median(beside), 1),
        "besideP99Ms": round(_p99(beside), 1),
        "allowedMs": round(allowed, 1),
        "kept": _p99(beside) <= allowed,
    }


def _p99(latencies: Sequence[float]) -> float:
    return statistics.quantiles(latencies, n=100, method="inclusive")[98]


async def _latencies(services: AppServices, ends: Ends, name: str, runs: int) -> list[float]:
    found = []
    for number in range(runs):
        began = time.perf_counter()
        await ends.of(await _start(services, QUIET, name, {"n": number}))
        found.append((time.perf_counter() - began) * 1000)
    return found


async def _start(services: AppServices, tenant_id: str, name: str, input_: Any = None) -> str:
    return (await services.workflows.execute_workflow(name, input_, tenant_id=tenant_id)).instance_id


async def _save(services: AppServices, tenant_id: str, name: str, node: dict[str, Any]) -> None:
    document = {
        "name": name,
        "nodes": [{"id": "start", "type": "start"}, {"id": "only", **node}],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "only"}],
    }
    await services.workflows.save_workflow(document, tenant_id=tenant_id)


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--backend", choices=BACKENDS, default="sqlite")
    parser.add_argument("--spinners", type=int, default=80)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    found = asyncio.run(measure(options.backend, spinners=options.spinners, runs=options.runs))
    if options.json:
        print(json.dumps(found))
        return
    print(f"{found['backend']}: runs of one node beside {found['spinners']} python nodes of another tenant that spin")
    for name, ms in found["nodes"].items():
        print(
            f"  {name:<7} p99 {ms['besideP99Ms']:>7} ms beside, {ms['undisturbedP99Ms']:>7} ms alone"
            f" (allowed: {ms['allowedMs']} ms{'' if ms['kept'] else ', NOT KEPT'})"
        )


if __name__ == "__main__":
    main()
