"""The generated pages of events and metrics. Called by `pages`.

The types of events and their order come from the rules; what each means is written here, and a test compares. Metrics
are read from the modules that declare them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from anabranch.engine.rules.events import EventType, Status, SuspendReason

_PACKAGE = Path(__file__).parents[2] / "anabranch"
_DECLARE_METRICS = ("rest/metrics.py", "rest/run_metrics.py")
_KINDS = {
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "GaugeMetricFamily": "gauge",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
}

Metric: TypeAlias = tuple[str, str, tuple[str, ...], str]

EVENTS = {
    "INPUT_SET": ("a run was created", "`input`"),
    "SYSTEM_SET": (
        "the engine wrote a note: the definition of a test run, or why a function is tried later",
        "the note",
    ),
    "NODE_DISPATCHED": ("an attempt of a node or step was handed to a worker", "of a step: what it was called with"),
    "NODE_WAITING": ("a node waits for a time, a signal or another run", "what it waits for"),
    "NODE_ATTEMPT_FAILED": ("an attempt failed; another follows", "the error, and when the next attempt begins"),
    "NODE_COMPLETED": ("a node or step has completed", "its output"),
    "NODE_FAILED": ("a node or step has failed for good", "the error"),
    "NODE_SKIPPED": ("a node was not needed: no edge to it was taken", ""),
    "LOOP_OPENED": ("a loop has begun", "its items"),
    "SIGNAL_RECEIVED": ("a signal arrived", "event, payload and key"),
    "INSTANCE_RECOVERED": ("a worker took the run over from one that was lost", "how often, and what is suspected"),
    "INSTANCE_SUSPENDED": ("the run stands still", "the reason"),
    "INSTANCE_RESUMED": ("the run goes on", "by whom"),
    "INSTANCE_REOPENED": ("an ended run was retried", "the rows that are left out, and who asked"),
    "FORKED_FROM": ("the run was forked from another one", "that run, and what is reused"),
    "INSTANCE_COMPLETED": ("the run has completed", "its output"),
    "INSTANCE_FAILED": ("the run has failed", "the error"),
    "INSTANCE_CANCELLED": ("the run was cancelled", "the reason"),
}


def events_page(made: str) -> str:
    """Types of events, statuses of runs, reasons of a suspension."""
    return "\n".join(
        [
            "# Events\n",
            made,
            "The log of a run is a list of events, which are never changed: `anabranch runs log RUN_ID`, `GET /v1/runs/{instanceID}/log`. Every state that is"
            " shown is derived from it ([how it works](../architecture.md)). A row has `seq` (1, 2, 3, …), `eventType`, `nodeID` and `scope` (which iteration or"
            " pass), `attempt`, `payload` and `createdAt`.\n",
            "| event | what has happened | payload |\n|---|---|---|",
            *(f"| `{each}` | {EVENTS[each][0]} | {EVENTS[each][1]} |" for each in EventType),
            "\nAn activation of a node ends with one of NODE_COMPLETED, NODE_FAILED and NODE_SKIPPED, a run with one of INSTANCE_COMPLETED, INSTANCE_FAILED and"
            " INSTANCE_CANCELLED.\n",
            "## Statuses of runs\n",
            ", ".join(f"`{each}`" + (" (final)" if each.is_terminal else "") for each in Status) + ".\n",
            "## Reasons of a suspension\n",
            ", ".join(f"`{each}`" for each in SuspendReason) + ": [suspended runs](../repair.md#suspended-runs).\n",
        ]
    )


def metrics_page(made: str) -> str:
    """Every metric of `/metrics`."""
    return "\n".join(
        [
            "# Metrics\n",
            made,
            "What `GET /metrics` answers, for Prometheus. [Telemetry](../telemetry.md#metrics) says how to read it, which names it shows, and what is limited.\n",
            "| metric | kind | labels | meaning |\n|---|---|---|---|",
            *(
                f"| `{name}` | {kind} | {', '.join(f'`{each}`' for each in labels)} | {meaning} |"
                for name, kind, labels, meaning in sorted(metrics())
            ),
            "",
        ]
    )


def metrics() -> Iterator[Metric]:
    """Name, kind, labels and meaning of each, as they are declared."""
    for module in _DECLARE_METRICS:
        shared: dict[str, tuple[str, ...]] = {}
        for node in ast.walk(ast.parse((_PACKAGE / module).read_text(encoding="utf-8"))):
            match node:
                case ast.Assign(targets=[ast.Name(id="labels")], value=ast.List()):
                    shared["labels"] = _texts(node.value)
                case ast.Call(func=ast.Name(id=name), args=[_, _, *_]) if name in _KINDS:
                    yield _metric(node, _KINDS[name], shared)


def _metric(call: ast.Call, kind: str, shared: Mapping[str, tuple[str, ...]]) -> Metric:
    name, meaning = (ast.literal_eval(each) for each in call.args[:2])
    given = [*call.args[2:3], *(each.value for each in call.keywords if each.arg == "labels")]
    labels = () if not given else shared["labels"] if isinstance(given[0], ast.Name) else _texts(given[0])
    return name + ("_total" if kind == "counter" else ""), kind, labels, meaning


def _texts(node: ast.expr) -> tuple[str, ...]:
    return tuple(ast.literal_eval(node))
