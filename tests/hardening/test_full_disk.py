"""A disk without room: what is recorded stays, what is not waits, and the process can be left at any time.

The limit is that of the operating system on the size of a file (`RLIMIT_FSIZE`), which SQLite
meets as it meets a full disk.
"""

from __future__ import annotations

import json
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.engine.ownership.reconcile import STORE_RETRY_MS
from tests.hardening.command_line import Command
from tests.hardening.conftest import Launch, Write
from tests.hardening.drawing import EFFECTS, PLAIN, chain, effect

OUTPUT_CHARACTERS = 200_000
# No two are equal: what is equal is stored once.
LARGE = chain("large", *[effect(f"n{number}", size=OUTPUT_CHARACTERS + number) for number in range(5)])

# Room for the tables (100 KB), for two of the five outputs, and for nothing like all of them.
FILE_BYTES_MAX = 600_000

# So long the attempts are counted, of which the second follows at once (it may have been a broken connection).
COUNTED_S = 1.5


def files_of_at_most(size: int) -> Callable[[], None]:
    """What a process has to do to itself to have no more room than this in any file."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_disk_that_fills_up_during_a_run_loses_nothing_and_repeats_nothing_recorded(
    anabranch: Command, launch: Launch, write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert anabranch("migrate").code == 0
    monkeypatch.setenv("ANABRANCH_LEASE", "1h")  # else the lapse of the lease would end a stop that hangs
    began = time.monotonic()
    process = launch(
        "run", write("large.json", LARGE), "--import", EFFECTS, "--watch", limit=files_of_at_most(FILE_BYTES_MAX)
    )
    line = process.saw("warning: SQLite database")
    assert str(folder / ".anabranch" / "anabranch.db") in line
    assert "disk" in line
    tries, counted_from = 1, time.monotonic()
    while time.monotonic() - counted_from < COUNTED_S:
        process.saw("warning: SQLite database")
        tries += 1
    pauses = (time.monotonic() - began) / (STORE_RETRY_MS / 1000)
    assert tries <= pauses + 2, "the full disk is asked without a pause"

    assert process.send(signal.SIGINT) == 130, "a process that cannot write can still be left"
    (run,) = anabranch("runs", "list", "--json").document["items"]
    assert run["status"] == "RUNNING"
    log = anabranch("runs", "log", run["instanceID"], "--json").document["items"]
    recorded = {event["nodeID"] for event in log if event["eventType"] == "NODE_COMPLETED"}
    assert recorded and not recorded >= {"n4"}

    resumed = launch("run", "--resume", run["instanceID"], "--import", EFFECTS)
    assert resumed.ended() == 0
    nodes = [json.loads(entry)["node"] for entry in (folder / "effects.jsonl").read_text().splitlines()]
    assert set(nodes) == {"n0", "n1", "n2", "n3", "n4"}
    assert all(nodes.count(node) == 1 for node in recorded - {"start"}), "what was recorded was executed again"


def test_without_room_for_the_first_row_a_run_is_refused_in_one_line(
    anabranch: Command, launch: Launch, write: Write, folder: Path
) -> None:
    assert anabranch("migrate").code == 0
    size = (folder / ".anabranch" / "anabranch.db").stat().st_size

    process = launch("run", write("plain.json", PLAIN), limit=files_of_at_most(size // 8))

    assert process.ended() == 1
    assert [line for line in process.text.splitlines() if not line.startswith("hint: ")] == [
        f"error STORE_UNAVAILABLE: SQLite database {folder / '.anabranch' / 'anabranch.db'}: disk I/O error"
    ]
    assert anabranch("runs", "list", "--json").document["items"] == []
    assert anabranch("run", "plain.json").code == 0, "with room again it works as if nothing had been"
