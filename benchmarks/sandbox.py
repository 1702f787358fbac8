"""What does a code node cost?

    python -m benchmarks.sandbox [--json] [--calls 1000] [--memory-calls 10000]

One call after another for the latency, four at once (of four tenants) for the throughput, both
languages, each beside the same body called bare in this process: the price of the walls is the
difference. With `--memory-calls` also how much the service has grown after so many calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _quickjs
from RestrictedPython.compile import compile_restricted_function

from anabranch.handlers.sandbox import CodeJob, Sandbox

BODIES = {
    "python": "return [ctx['n'] + 1, sum(x * x for x in ctx['items'])]",
    "javascript": "return [ctx.n + 1, ctx.items.reduce((sum, x) => sum + x * x, 0)]",
}
ITEMS = list(range(20))
AT_ONCE = 4
WARM_UP_CALLS = 20
GOAL_P50_MS = 5.0
GOAL_CALLS_PER_S = 300


async def measure(language: str, calls: int) -> dict[str, float]:
    """Latency and throughput of the sandbox, and of a bare call."""
    sandbox = Sandbox()
    try:
        for number in range(WARM_UP_CALLS):
            await _call(sandbox, language, number)
        latencies = []
        for number in range(calls):
            began = time.perf_counter()
            await _call(sandbox, language, number)
            latencies.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        await asyncio.gather(*(_calls(sandbox, language, calls // AT_ONCE, lane) for lane in range(AT_ONCE)))
        elapsed = time.perf_counter() - began
    finally:
        await sandbox.stop()
    return {
        "p50_ms": statistics.median(latencies),
        "p99_ms": statistics.quantiles(latencies, n=100)[98],
        "calls_per_s": calls // AT_ONCE * AT_ONCE / elapsed,
        "bare_p50_ms": _bare_p50_ms(BARE[language], calls),
    }


async def measure_memory(language: str, calls: int) -> dict[str, float]:
    """Megabytes that this process holds after a tenth of the calls, and after all of them."""
    sandbox = Sandbox()
    try:
        first = max(1, calls // 10)
        await asyncio.gather(*(_calls(sandbox, language, first // AT_ONCE, lane) for lane in range(AT_ONCE)))
        before = _resident_mb()
        rest = calls - first
        await asyncio.gather(*(_calls(sandbox, language, rest // AT_ONCE, lane) for lane in range(AT_ONCE)))
        return {"resident_mb_before": before, "resident_mb_after": _resident_mb()}
    finally:
        await sandbox.stop()


async def _calls(sandbox: Sandbox, language: str, count: int, lane: int) -> None:
    for number in range(count):
        await _call(sandbox, language, number, tenant_id=f"tenant-{lane}")


async def _call(sandbox: Sandbox, language: str, number: int, *, tenant_id: str = "default") -> None:
    job = CodeJob(
        language=language,
        code=BODIES[language],
        context={"n": number, "items": ITEMS},
        tenant_id=tenant_id,
        timeout_ms=10_000,
        memory_bytes=128 << 20,
    )
    value = await sandbox.run(job, lambda level, text: None)
    assert value[0] == number + 1, "it computed what it was asked to"


def _bare_python(number: int) -> Any:
    made = compile_restricted_function("ctx", BODIES["python"], "node", "<code>")
    names: dict[str, Any] = {"_getitem_": lambda of, key: of[key], "_getiter_": iter}
    exec(made.code, names)
    return names["node"]({"n": number, "items": ITEMS})


def _bare_javascript(number: int) -> Any:
    engine = _quickjs.Context()
    context = json.dumps({"n": number, "items": ITEMS})
    return json.loads(engine.eval(f"JSON.stringify((function (ctx) {{ {BODIES['javascript']} }})({context}))"))


BARE: dict[str, Callable[[int], Any]] = {"python": _bare_python, "javascript": _bare_javascript}


def _bare_p50_ms(bare: Callable[[int], Any], calls: int) -> float:
    times = []
    for number in range(calls):
        began = time.perf_counter()
        bare(number)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1_048_576


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure what a code node costs.")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on the last line")
    parser.add_argument("--calls", type=int, default=1_000, help="calls per measurement (default: 1000)")
    parser.add_argument("--memory-calls", type=int, default=0, help="also watch the memory over so many calls")
    options = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for language in BODIES:
        figures[language] = asyncio.run(measure(language, options.calls))
        if options.memory_calls:
            figures[language] |= asyncio.run(measure_memory(language, options.memory_calls))
    rounded = {language: {name: round(value, 3) for name, value in each.items()} for language, each in figures.items()}
    if options.json:
        print(json.dumps(rounded))
        return
    print(f"{os.cpu_count()} cores; goals on two quiet ones: p50 {GOAL_P50_MS} ms, {GOAL_CALLS_PER_S} calls/s")
    for language, each in rounded.items():
        print(f"{language:>10}  " + "  ".join(f"{name} {value}" for name, value in each.items()))


if __name__ == "__main__":
    main()
