"""PgBouncer in front of a PostgreSQL server, lending connections by the transaction.

Called by the fixture `pooler`. It has fewer connections to the server than its clients have to it, so
that two transactions of one client are often answered by two backends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests import tools

# 3 connections for each database: every process of the engine's alone has more.
POOL_SIZE = 3

PATIENCE_S = 60.0

_CONFIGURATION = """
[databases]
* = host={host} port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
server_idle_timeout = 5
"""


class Pooler:
    """A running PgBouncer."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url_of(self, url: str) -> str:
        """The way to this database of the server through the pooler."""
        return f"postgresql://postgres@127.0.0.1:{self.port}{urlsplit(url).path}"


@contextlib.contextmanager
def running_pooler(admin_url: str) -> Iterator[Pooler]:
    """PgBouncer before the server that this URL names. Raises ToolMissing where the machine has none."""
    program = tools.pgbouncer()
    parts = urlsplit(admin_url)
    host = parse_qs(parts.query).get("host", [parts.hostname or "127.0.0.1"])[0]
    with tempfile.TemporaryDirectory(prefix="anabranch-pgbouncer-") as home:
        port = _free_port()
        configuration = Path(home) / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(host=host, server_port=parts.port or 5432, port=port, pool_size=POOL_SIZE)
        )
        Path(home).chmod(0o755)
        # It refuses to run as root; whom the directory of the server's socket belongs to may reach that.
        user = Path(host).stat().st_uid if os.geteuid() == 0 and Path(host).is_dir() else None
        process = subprocess.Popen(
            [program, configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user
        )
        try:
            _wait_for(port, process)
            yield Pooler(port)
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, f"PgBouncer ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < give_up_at, "PgBouncer does not listen"
            time.sleep(0.02)
