"""Telemetry: metrics of runs for Prometheus and spans for OpenTelemetry.

Made by the composition root, called by the engine (`engine.telemetry`), read by `/metrics`. `run_meters`
follows each run and counts what has ended, `spans` describes it in a trace. `otlp` sends spans, needs the extra
`anabranch[otel]`, and is only imported if spans are exported.
"""

from __future__ import annotations

from anabranch.telemetry.run_meters import Meters, ShownNames, TelemetryRecorder
from anabranch.telemetry.spans import Span, SpanSink
from anabranch.telemetry.trace_context import CurrentAttempts, TracedHandlers

__all__ = ["CurrentAttempts", "Meters", "ShownNames", "Span", "SpanSink", "TelemetryRecorder", "TracedHandlers"]
