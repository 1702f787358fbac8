"""What real processes tell Prometheus and a collector of OpenTelemetry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.processes.conftest import Installation, Launch
from tests.processes.launching import until
from tests.processes.test_staying import Serve

SHOP = Path(__file__).with_name("shop.py")


class Collector:
    """Receives spans in threads of its own."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.processes: set[int] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.receive(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def receive(self, message: ExportTraceServiceRequest) -> None:
        for each in message.resource_spans:
            self.spans += [span for scope in each.scope_spans for span in scope.spans]
            attributes = each.resource.attributes
            self.processes.update(pair.value.int_value for pair in attributes if pair.key == "process.pid")


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_worker_is_watched_where_it_is_asked_to(
    launch: Launch, served: Serve, sqlite_installation: Installation
) -> None:
    server = served(sqlite_installation, "--no-worker")
    worker = launch(sqlite_installation, "worker", "--import", SHOP, "--metrics-port", "0").ready()
    server.ended_run(server.start("echo"))

    assert worker.url
    assert worker.ask("GET", "/healthz").status == 200
    assert worker.ask("GET", "/readyz").status == 200
    ended = 'workflow_runs_completed_total{status="completed",workflow="echo"} 1.0'
    until(lambda: ended in worker.ask("GET", "/metrics").body.decode())
    assert 'workflow_runs_started_total{workflow="echo"} 1.0' in server.ask("GET", "/metrics").body.decode()
    for path in ("/", "/v1/workflows", "/openapi.json", "/docs"):
        assert worker.ask("GET", path).status == 404
    assert worker.stop() == 0


def test_a_worker_and_a_server_export_one_trace(
    launch: Launch, served: Serve, sqlite_installation: Installation, collector: Collector
) -> None:
    server = served(sqlite_installation, "--no-worker", OTLP_ENDPOINT=collector.url)
    worker = launch(sqlite_installation, "worker", "--import", SHOP, OTLP_ENDPOINT=collector.url).ready()
    run = server.start("order", {"order": 7, "items": 1})
    until(lambda: server.ask("GET", f"/v1/runs/{run}").body["status"] == "WAITING")
    server.ask("POST", f"/v1/runs/{run}/signals/paid", {"order": 7, "by": "card"})
    server.ended_run(run)
    assert worker.stop() == 0
    assert server.stop() == 0

    assert collector.processes == {worker.pid, server.pid}
    assert {span.trace_id.hex() for span in collector.spans} == {run.replace("-", "")}
    names = sorted(span.name for span in collector.spans)
    assert names == ["workflow.run", "workflow.signal", *["workflow.step"] * 4]
    (root,) = [span for span in collector.spans if span.name == "workflow.run"]
    assert {span.parent_span_id for span in collector.spans if span is not root} == {root.span_id}
