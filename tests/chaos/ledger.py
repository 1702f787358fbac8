"""The ledger: an HTTP server outside the product that writes down every side effect it is told of.

It never dies during a campaign. Entries stay in memory; `GET /entries` returns them all.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Ledger:
    """Entries in the order of their arrival, and the server that takes them."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self.entries))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Ledger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler_of(entries: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            entry = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            entry["key"] = self.headers["Idempotency-Key"]
            entries.append(entry)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet: thousands of calls."""

    return Handler
