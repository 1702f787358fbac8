"""Telemetry: metrics of runs for Prometheus and spans for OpenTelemetry.

Made by the composition root, fed by the engine (`engine.telemetry`), read by `/metrics`. `feed` follows the
history of each run and adds up what has ended, `spans` says what it looks like in a trace. `otlp` sends spans, needs
the extra `anabranch[otel]`, and is only imported if spans are exported.
"""

from __future__ import annotations

from anabranch.telemetry.feed import Feed, Meters, ShownNames
from anabranch.telemetry.spans import Span, SpanSink
from anabranch.telemetry.trace_context import CurrentAttempts, TracedHandlers

__all__ = ["CurrentAttempts", "Feed", "Meters", "ShownNames", "Span", "SpanSink", "TracedHandlers"]
