"""Record golden runs with the version that is checked out: `python -m tests.golden.record FILE.json`.

Run it in a checkout of the version to be recorded, with this folder copied into it, on a quiet machine; a minute.
A server runs every case; the recording is what its database holds after it was killed twice, in the middle of all
that hangs. Then the same version brings every run to its end, and what came of each is written beside it. So the
file says what was stored, what this version read in it, and what it made of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from anabranch import Client
from tests.golden import later, nodes
from tests.golden.cases import CASES, GRAPHS
from tests.golden.describing import describe_all

KEY = "golden"
SETTLED_S = 8.0
"""So long nothing new is in the database: what moves then waits for a timer, a signal or the release."""
LEASE = "5s"
TERMINAL = ("COMPLETED", "FAILED", "CANCELLED")


class Server:
    """A server with its worker, in a process of its own."""

    def __init__(self, folder: Path, *modules: Any) -> None:
        environment = {
            **os.environ, "ANABRANCH_API_KEY": KEY, "ANABRANCH_LEASE": LEASE, "GOLDEN_DIR": str(folder),
            "ANABRANCH_MAX_RETENTION_DAYS": "1825", "PYTHONPATH": os.getcwd(), "ANABRANCH_PORT": "0",
        }  # fmt: skip
        imports = [flag for module in modules for flag in ("--import", module.__name__)]
        command = [sys.executable, "-m", "anabranch", "dev", *imports]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = ""
        while not line.startswith("http://"):
            line = self.process.stdout.readline()
            assert line, "the server ended"
        self.url = line.split("/?")[0]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One call of REST."""
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1{path}", data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refusal:
            raise AssertionError(f"{method} {path}: {refusal.read().decode()}") from None

    def kill(self, how: int = signal.SIGKILL) -> None:
        """End it."""
        self.process.send_signal(how)
        self.process.wait()


def record(folder: Path) -> dict[str, Any]:
    """The recording."""
    database = folder / ".anabranch" / "anabranch.db"
    url = f"sqlite:///{database}"
    server = Server(folder, nodes, later)
    for name, graph in GRAPHS.items():
        server.ask("POST", "/workflows", {"name": name, **graph})
    server.kill(signal.SIGTERM)

    server = Server(folder, nodes)
    run_ids = [_started(server, number) for number in range(len(CASES))]
    _settle(database)
    for case, run_id in zip(CASES, run_ids, strict=True):
        for number, (event, payload) in enumerate(case.signals):
            server.ask("POST", f"/runs/{run_id}/signals/{event}", payload)
            if number == 0:
                _settle(database, at_least_s=0.3)
        if case.cancelled:
            server.ask("POST", f"/runs/{run_id}/cancel", {"reason": "recorded"})
    _settle(database)
    server.kill()
    server = Server(folder, nodes)  # takes over what the killed one was executing
    _settle(database)
    server.kill()

    tables = _dump(database)
    read = asyncio.run(_read(url, run_ids))
    has_ended = {run_id: read[run_id]["view"]["status"] in TERMINAL for run_id in run_ids}
    expected = {run_id: case.ends for case, run_id in zip(CASES, run_ids, strict=True)}
    unexpected = [
        (CASES[number], read[run_id]["view"])
        for number, run_id in enumerate(run_ids)
        if has_ended[run_id] != expected[run_id]
    ]
    assert not unexpected, "\n".join(map(str, unexpected))

    (folder / "release").touch()
    server = Server(folder, nodes, later)
    for case, run_id in zip(CASES, run_ids, strict=True):
        for event, payload in case.finish:
            server.ask("POST", f"/runs/{run_id}/signals/{event}", payload)
    until = time.monotonic() + 120
    while unfinished := [
        run_id for run_id in run_ids if server.ask("GET", f"/runs/{run_id}")["status"] not in TERMINAL
    ]:
        assert time.monotonic() < until, [server.ask("GET", f"/runs/{run_id}") for run_id in unfinished]
        time.sleep(0.5)
    ends = {run_id: server.ask("GET", f"/runs/{run_id}") for run_id in run_ids}
    server.kill(signal.SIGTERM)
    runs = [
        {"case": number, "runID": run_id, **read[run_id], "end": ends[run_id]} for number, run_id in enumerate(run_ids)
    ]
    return {"schema": _revision(database), "tables": tables, "runs": runs}


def _started(server: Server, number: int) -> str:
    case = CASES[number]
    if case.graph is not None:
        return str(server.ask("POST", "/test-runs", {**case.graph, "input": case.input})["instanceID"])
    body = {"input": case.input, "idempotencyKey": f"case-{number}"}
    return str(server.ask("POST", f"/workflows/{case.workflow}/runs", body)["instanceID"])


async def _read(url: str, run_ids: list[str]) -> dict[str, Any]:
    async with Client(url) as client:
        views = {run_id: await client.get(run_id) for run_id in run_ids}
    states = await describe_all(url, run_ids)
    return {run_id: {"view": views[run_id], "state": states[run_id]} for run_id in run_ids}


def _settle(database: Path, at_least_s: float = SETTLED_S) -> None:
    """Wait until no row has been added for so long."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < at_least_s:
        with sqlite3.connect(database) as connection:
            (rows,) = connection.execute("SELECT count(*) FROM workflow_instance_logs").fetchone()
        connection.close()
        if rows != seen:
            seen, since = rows, time.monotonic()
        time.sleep(0.1)


def _dump(database: Path) -> dict[str, list[dict[str, Any]]]:
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    tables = {name: [dict(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name in names}
    connection.close()
    # Keys are of that server alone, and what a server saves by itself is no golden run.
    return {name: rows for name, rows in tables.items() if name not in ("alembic_version", "api_keys") and rows}


def _revision(database: Path) -> str:
    connection = sqlite3.connect(database)
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    connection.close()
    return str(revision)


def write(recording: dict[str, Any], file: Path) -> None:
    """One row and one run a line, so that a difference can be read."""
    lines = [f'{{"schema": {json.dumps(recording["schema"])}, "tables": {{']
    tables = list(recording["tables"].items())
    for number, (name, rows) in enumerate(tables):
        lines.append(f'"{name}": [')
        lines.append(",\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
        lines.append("]," if number < len(tables) - 1 else "]")
    lines.append('}, "runs": [')
    lines.append(",\n".join(json.dumps(run, ensure_ascii=False) for run in recording["runs"]))
    file.write_text("\n".join([*lines, "]}"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(record(Path(folder)), Path(sys.argv[1]))
