"""Finished runs and steps as spans: names, attributes, ids and parents.

Pure. Ids are derived, not random: what several processes export of one run fits together. A run and all its child runs
are one trace.
"""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import field
from functools import lru_cache
from typing import Protocol
from uuid import UUID

from anabranch.dataclass import dataclass
from anabranch.engine.rules.event_payloads import ChildAwaited
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.history import ActivationStatus, ActivationView
from anabranch.engine.rules.shared.run_state import InstanceHead

# 1,024 runs: a process that finishes one step of a run soon finishes another.
_REMEMBERED_MAX = 1_024


@dataclass(slots=True, eq=False)
class Span:
    """A span as it is to be exported. It has no data of the run: no input, no output, no message of an error."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    began_ms: int
    ended_ms: int
    attributes: dict[str, str | int | bool] = field(default_factory=dict)
    error: str | None = None
    """The code of the error that it ended with."""


class SpanSink(Protocol):
    """The exporter of spans. Must neither block nor raise."""

    def ended(self, span: Span) -> None:
        """Export it, soon."""

    def current(self, trace_id: int, span_id: int) -> AbstractContextManager[None]:
        """Within, this is the current span of OpenTelemetry: what code begins there is below it."""

    async def stop(self, *, patience_s: float) -> None:
        """Export the remaining spans, as far as possible within this time."""


_STEP_STATUS = {
    ActivationStatus.SUCCESS: "completed",
    ActivationStatus.RETRYING: "retried",
    ActivationStatus.ERROR: "failed",
    ActivationStatus.SKIPPED: "cancelled",
    ActivationStatus.CANCELLED: "cancelled",
}
"""How an attempt ended, as spans call it, by the status that its activation has then."""


def run_span(head: InstanceHead, status: Status, *, ended_at: int, code: str | None) -> Span:
    """`workflow.run`: from when the run might begin to its end."""
    attributes: dict[str, str | int | bool] = {
        "workflow.name": head.workflow_name,
        "workflow.version": head.workflow_version,
        "run_id": head.instance_id,
        "status": status.value.lower(),
        "kind": head.kind,
        "tenant_id": head.tenant_id,
    }
    if head.test:
        attributes["test"] = True
    return Span(
        "workflow.run",
        trace_id_of(head),
        run_span_id(head.instance_id),
        _parent_of(head),
        began_at(head, ended_at),
        ended_at,
        attributes,
        code,
    )


def began_at(head: InstanceHead, ended_at: int) -> int:
    """When the run might begin; one that ended before that was never there for any time."""
    return min(max(head.created_at, head.available_at), ended_at)


def attempt_span(head: InstanceHead, activation: ActivationView, node_type: str | None) -> Span:
    """`workflow.step`: one attempt of a step, below its run, as its activation is at its end."""
    error = activation.error if activation.status in (ActivationStatus.ERROR, ActivationStatus.RETRYING) else None
    attributes: dict[str, str | int | bool] = {
        "workflow.name": head.workflow_name,
        "run_id": head.instance_id,
        "step.name": activation.node_id,
        "step.kind": activation.activity.value,
        "step.attempt": activation.attempt,
        "step.status": _STEP_STATUS[activation.status],
    }
    if activation.scope:
        attributes["step.scope"] = activation.scope
    if node_type is not None:
        attributes["step.type"] = node_type
    if isinstance(activation.waits_for, ChildAwaited):
        span_id = _awaiting_span_id(activation.waits_for.child_id)
        attributes["step.child_id"] = activation.waits_for.child_id
    else:
        span_id = attempt_span_id(head.instance_id, *activation.key, activation.attempt)
    return Span(
        "workflow.step",
        trace_id_of(head),
        span_id,
        run_span_id(head.instance_id),
        activation.at if activation.attempt_began_at is None else min(activation.attempt_began_at, activation.at),
        activation.at,
        attributes,
        None if error is None else error["code"],
    )


def signal_span(head: InstanceHead, event: str, *, seq: int, at: int) -> Span:
    """`workflow.signal`: the moment in which a signal arrived, below its run."""
    attributes: dict[str, str | int | bool] = {
        "workflow.name": head.workflow_name,
        "run_id": head.instance_id,
        "event": event,
    }
    span_id = _derived("signal", head.instance_id, str(seq))
    return Span("workflow.signal", trace_id_of(head), span_id, run_span_id(head.instance_id), at, at, attributes)


def trace_id_of(head: InstanceHead) -> int:
    """The 128 bits of the topmost run's id: a family of runs is one trace."""
    return UUID(head.root_id or head.instance_id).int


@lru_cache(_REMEMBERED_MAX)
def run_span_id(run_id: str) -> int:
    """The id of a run's span."""
    return _derived("run", run_id)


def attempt_span_id(run_id: str, name: str, scope: str, attempt: int) -> int:
    """The id of an attempt's span."""
    return _derived("step", run_id, name, scope, str(attempt))


def _awaiting_span_id(child_id: str) -> int:
    """The id of the span of the attempt that awaits this run. A child does not know its number."""
    return _derived("awaits", child_id)


def _parent_of(head: InstanceHead) -> int | None:
    """The step that awaits the run; if none does, the run that started it."""
    if head.parent_id is None:
        return None
    return _awaiting_span_id(head.instance_id) if head.parent_waits else run_span_id(head.parent_id)


def _derived(*parts: str) -> int:
    text = "\x00".join(parts).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
