"""`python -m tests.chaos.point_in_time`: the recipe of docs/operations.md for PostgreSQL, with a real server.

Archives the log of a server, takes a base backup, starts runs, notes a time, starts more, and restores a second server
to that time. What was acknowledged before it is there, nothing after it, and `restore-check` tells what goes on. Prints
what it did; the last line is one JSON object. Exits with 1 if something was not as promised.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from anabranch import Client, Worker, workflow
from anabranch.app import build
from anabranch.migrations import upgrade
from anabranch.settings import Settings
from tests.ports import lasting_port
from tests.postgres import program_of

# 60 s: a server starts in one, and in ten where the machine does eight other things.
PATIENCE_S = 60

RUNS = 20

# A server does not run as root; the package of the test servers has made an account for that.
_ACCOUNT = "pgserver"


@workflow(name="point-in-time")
async def point_in_time(ctx: Any, input: Any) -> Any:
    await ctx.step.sleep("nap", "1h")


class Server:
    """A PostgreSQL server in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = lasting_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def configure(self, **settings: str) -> None:
        """Add settings to its file."""
        with (self.folder / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it, and wait until it takes writes."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -k {self.folder}"
        run("pg_ctl", "start", "-w", "-t", str(PATIENCE_S), "-D", self.folder, "-l", self.folder / "log", "-o", options)
        give_up_at = time.monotonic() + PATIENCE_S
        with psycopg.connect(self.url, autocommit=True) as connection:
            while connection.execute("SELECT pg_is_in_recovery()").fetchone() != (False,):
                assert time.monotonic() < give_up_at, (self.folder / "log").read_text()
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop it at once."""
        run("pg_ctl", "stop", "-m", "immediate", "-D", self.folder)


def run(program: str, *arguments: str | Path) -> None:
    """One program of PostgreSQL, as an account that may run it."""
    done = subprocess.run(
        [program_of(program), *arguments],
        user=_ACCOUNT if os.geteuid() == 0 else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def started(url: str, name: str) -> list[str]:
    """The ids of runs whose starts were acknowledged."""
    async with Client(url) as client:
        return [
            (await client.start("point-in-time", {}, idempotency_key=f"{name}-{number}")).run_id
            for number in range(RUNS)
        ]


async def story(folder: Path) -> dict[str, int]:
    """What is left of both halves after the restore."""
    archive, base = folder / "wal", folder / "base"
    live, restored = Server(folder / "live"), Server(base)
    run("initdb", "-D", live.folder, "-U", "postgres", "--auth=trust", "--no-sync")
    live.configure(archive_mode="on", archive_command=f"test ! -f {archive}/%f && cp %p {archive}/%f")
    live.start()
    try:
        await asyncio.to_thread(upgrade, live.url)
        async with Worker(live.url, workflows=[point_in_time]):
            run("pg_basebackup", f"--pgdata={base}", "--checkpoint=fast", "--wal-method=stream", f"--dbname={live.url}")
            before = await started(live.url, "before")
            with psycopg.connect(live.url, autocommit=True) as connection:
                (target,) = connection.execute("SELECT clock_timestamp()::text").fetchone() or ("",)
                after = await started(live.url, "after")
                connection.execute("SELECT pg_switch_wal()")
                give_up_at = time.monotonic() + PATIENCE_S
                while connection.execute("SELECT archived_count > 1 FROM pg_stat_archiver").fetchone() != (True,):
                    assert time.monotonic() < give_up_at, "nothing was archived"
                    await asyncio.sleep(0.1)
    finally:
        live.stop()
    restored.configure(
        restore_command=f"cp {archive}/%f %p", recovery_target_time=str(target), recovery_target_action="promote"
    )
    (base / "recovery.signal").touch()
    (base / "postmaster.pid").unlink(missing_ok=True)
    restored.start()
    try:
        async with build(Settings.load(database_url=restored.url)).open_restore_check() as check:
            report = (await check.check()).as_json()
    finally:
        restored.stop()
    there = {run["instanceID"] for run in report["runs"]}
    return {
        "acknowledged": len(before),
        "lost": len(set(before) - there),
        "afterTarget": len(set(after) & there),
        "open": report["open"],
    }


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="anabranch-pitr-") as name:
        folder = Path(name)
        (folder / "wal").mkdir()
        if os.geteuid() == 0:
            account = pwd.getpwnam(_ACCOUNT)
            for each in (folder, folder / "wal"):
                shutil.chown(each, account.pw_uid, account.pw_gid)
        came_to = asyncio.run(story(folder))
    sys.stdout.write(json.dumps({"point-in-time": came_to}) + "\n")
    return 0 if came_to == {"acknowledged": RUNS, "lost": 0, "afterTarget": 0, "open": RUNS} else 1


if __name__ == "__main__":
    sys.exit(main())
