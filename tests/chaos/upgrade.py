"""`python -m tests.chaos.upgrade`: from version 0.1.0 to this one and back, under load, on PostgreSQL.

0.1.0 is taken from the history of this repository into an environment of its own. Its workers and this version's meet
one database: nothing may be migrated while the old ones run, neither version works on the other's schema, every run
that the old version began is ended by the new one, and a copy from before the migration by the old one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

from tests.replication import PATIENCE_S, Server, replicated_servers

OLD_COMMIT = "bc331dc"
RUNS = 60

_WORKFLOW = {
    "name": "slow",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "first", "type": "delay", "config": {"duration": "2s"}},
        {"id": "set", "type": "set", "config": {"values": {"n": "{{ctx.input.n}}"}}, "outputVariable": "kept"},
        {"id": "second", "type": "waitForEvent", "config": {"event": "go"}},
        {"id": "end", "type": "end", "config": {"outputParameters": {"n": "{{ctx.kept.n}}"}}},
    ],
    "edges": [
        {"id": f"e{number}", "upstreamNodeID": one, "downstreamNodeID": other}
        for number, (one, other) in enumerate(
            [("start", "first"), ("first", "set"), ("set", "second"), ("second", "end")]
        )
    ],
}

# Starts the runs, or finds those that were started under their keys; with `go` they go on.
_START = f"""
import asyncio, sys
from anabranch import Client
async def main():
    async with Client(sys.argv[1]) as client:
        for n in range({RUNS}):
            run = await client.start("slow", {{"n": n}}, idempotency_key=f"{{sys.argv[2]}}-{{n}}")
            if "go" in sys.argv:
                await run.signal("go", None, key="once")
asyncio.run(main())
"""


class Version:
    """A version of anabranch, as a program."""

    def __init__(self, name: str, python: Path, folder: Path) -> None:
        self.name = name
        self._python = python
        self._folder = folder

    def run(self, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [str(self._python), *arguments],
            cwd=self._folder,
            env={**os.environ, "ANABRANCH_DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def command(self, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line."""
        return self.run(url, "-m", "anabranch", *arguments)

    @contextlib.contextmanager
    def worker(self, url: str) -> Iterator[None]:
        """A worker, stopped in order at the end."""
        process = subprocess.Popen(
            [str(self._python), "-m", "anabranch", "worker", "--json"],
            cwd=self._folder,
            env={**os.environ, "ANABRANCH_DATABASE_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None and process.stdout.readline(), f"the worker of {self.name} did not start"
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def old_version(home: Path) -> Version:
    """Version 0.1.0 from the history, in an environment of its own that has the packages of this one."""
    source = home / "source"
    source.mkdir()
    archive = subprocess.run(
        ["git", "archive", OLD_COMMIT, "anabranch"], capture_output=True, check=True, cwd=Path(__file__).parents[2]
    )
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    venv.create(home / "environment", with_pip=False)
    python = home / "environment" / "bin" / "python"
    packages = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    Path(packages.stdout.strip(), "old.pth").write_text(f"{source}\n{sysconfig.get_path('purelib')}\n")
    return Version("0.1.0", python, home)


def wait_for_ends(server: Server, database: str, runs: int) -> None:
    """Return when so many runs are COMPLETED."""
    ended = f"SELECT count(*) >= {runs} FROM workflow_instances WHERE status = 'COMPLETED'"
    server.wait_for(ended, database=database)


def upgraded(server: Server, home: Path) -> list[str]:
    """What was not as promised."""
    url, copy_url = server.url, server.url_of("copy")
    old, new = old_version(home), Version("this version", Path(sys.executable), home)
    violations: list[str] = []

    def demand(holds: object, what: str, said: str = "") -> None:
        print(f"{'as promised' if holds else 'NOT AS PROMISED'}: {what}", flush=True)
        if not holds:
            violations.append(f"{what}: {said[-500:]}")

    document = home / "slow.json"
    document.write_text(json.dumps(_WORKFLOW))
    for made in (old.command(url, "migrate"), old.command(url, "workflows", "import", str(document))):
        demand(made.returncode == 0, "0.1.0 makes a database, and saves a workflow", made.stderr)
    with old.worker(url):
        started = old.run(url, "-c", _START, url, "old")
        demand(started.returncode == 0, f"{old.name} starts {RUNS} runs", started.stderr)
        server.wait_for("SELECT count(*) > 10 FROM workflow_instance_logs WHERE node_id = 'second'")
        refused = new.command(url, "migrate")
        demand("OLDER_PROCESSES" in refused.stderr, "nothing is migrated while 0.1.0 runs", refused.stderr)
        mismatch = new.command(url, "worker")
        demand(
            "SCHEMA_MISMATCH" in mismatch.stderr, "this version does not work on the schema of 0.1.0", mismatch.stderr
        )
    open_runs = server.ask("SELECT count(*) FROM workflow_instances WHERE completed_at IS NULL")
    demand(open_runs == RUNS, f"0.1.0 is stopped with {open_runs} open runs")
    server.wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'anabranch%'")
    server.change("CREATE DATABASE copy TEMPLATE postgres")
    began = time.monotonic()
    migrated = new.command(url, "migrate")
    demand(migrated.returncode == 0, f"this version migrates, in {time.monotonic() - began:.1f} s", migrated.stderr)
    too_new = old.command(url, "worker")
    demand("SCHEMA_MISMATCH" in too_new.stderr, "0.1.0 does not start on the new schema", too_new.stderr)
    with new.worker(url):
        for runs in ("new", "old"):
            started = new.run(url, "-c", _START, url, runs, "go")
            demand(started.returncode == 0, f"this version starts or finds {RUNS} runs", started.stderr)
        wait_for_ends(server, "postgres", 2 * RUNS)
        demand(True, f"all {2 * RUNS} runs complete, those of 0.1.0 too")
    with old.worker(copy_url):
        found = old.run(copy_url, "-c", _START, copy_url, "old", "go")
        demand(found.returncode == 0, f"0.1.0 finds its {RUNS} runs on the copy", found.stderr)
        wait_for_ends(server, "copy", RUNS)
        demand(True, f"0.1.0 completes its {RUNS} runs on the copy from before the migration")
    checked = new.command(url, "doctor", "--data")
    demand(checked.returncode == 0, "the check of all data finds nothing", checked.stdout + checked.stderr)
    return violations


def main() -> int:
    """Print what holds; the last line is one JSON object."""
    with tempfile.TemporaryDirectory(prefix="anabranch-upgrade-") as home, replicated_servers() as servers:
        violations = upgraded(servers.primary, Path(home))
    for violation in violations:
        print(f"  {violation}", flush=True)
    print(json.dumps({"upgrade": {"violations": len(violations)}}))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
