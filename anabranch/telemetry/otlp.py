"""Export spans over OTLP/HTTP to a collector, with the OpenTelemetry SDK.

Imported by the composition root, only where spans are wanted: the SDK is an extra (`anabranch[otel]`). The SDK reads
headers, certificates and the like from its own variables (`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES`, …).

Spans are made afterwards, with our own times and ids, so there is no tracer. They wait in the SDK's queue for its
thread; nothing here waits for a collector.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from anabranch.telemetry.spans import Span
from anabranch.version import __version__

# 20,000 spans wait for their export, a few seconds of a busy process and some 20 MB; of more, the oldest go.
QUEUED_MAX = 20_000

# 512 spans a request, and the first of them after 1 s: a trace is looked at by people.
BATCH_MAX = 512
DELAY_MS = 1_000

# 5 s for a request with all its repetitions: then its spans are given up, others wait behind them.
REQUEST_S_MAX = 5.0

_NS_PER_MS = 1_000_000
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_PATH = "/v1/traces"


class OtlpSpans:
    """Exports spans to a collector (`telemetry.SpanSink`)."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint` is the collector's base URL, as `http://localhost:4318`. Connects to nothing yet."""
        ours: dict[str, AttributeValue] = {
            "service.name": "anabranch",
            "service.version": __version__,
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
        self._resource = Resource.create(ours).merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope("anabranch", __version__)
        self._exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + _PATH, timeout=REQUEST_S_MAX)
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=QUEUED_MAX,
            schedule_delay_millis=DELAY_MS,
            max_export_batch_size=BATCH_MAX,
            export_timeout_millis=REQUEST_S_MAX * 1000,
        )

    def ended(self, span: Span) -> None:
        """Queue it."""
        parent_id = span.parent_id
        self._processor.on_end(
            ReadableSpan(
                span.name,
                context=_context_of(span.trace_id, span.span_id, is_remote=False),
                parent=None if parent_id is None else _context_of(span.trace_id, parent_id, is_remote=True),
                resource=self._resource,
                attributes=span.attributes if span.error is None else {**span.attributes, "error.type": span.error},
                status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR, span.error),
                start_time=span.began_ms * _NS_PER_MS,
                end_time=span.ended_ms * _NS_PER_MS,
                instrumentation_scope=self._scope,
            )
        )

    @contextmanager
    def current(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Within, this is the current span: what instrumented libraries begin there is below it."""
        span = NonRecordingSpan(_context_of(trace_id, span_id, is_remote=False))
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            context.detach(token)

    async def stop(self, *, patience_s: float) -> None:
        """Export what is queued, for `patience_s` at most; what is left then is lost."""
        loop, flushed = asyncio.get_running_loop(), asyncio.Event()

        def flush() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call] # waits up to 30 s for its thread
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(flushed.set)

        threading.Thread(target=flush, daemon=True, name="spans-flush").start()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await flushed.wait()
                return
        self._exporter.shutdown()  # type: ignore[no-untyped-call] # ends its pauses, so that the thread can end


def _context_of(trace_id: int, span_id: int, *, is_remote: bool) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote, _SAMPLED)
