"""The files that figures are kept in: with the date, the machine and the command that made them.

Written by the measurements, read by `report`: so no figure of the documentation is typed by hand.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# 100,000 objects: some hundredths of a second, nine times.
_OBJECTS = 100_000

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Measured:
    """One file."""

    command: str
    measured_at: str
    machine: str
    load: float
    """How many processes wanted a core when the measurement ended, its own among them (one minute's average)."""
    setup: Mapping[str, Any]
    figures: Mapping[str, Any]


def save(path: Path, command: str, figures: Mapping[str, Any], *, setup: Mapping[str, Any]) -> None:
    """Write the figures of a run that has just ended."""
    kept = {
        "command": command,
        "measured_at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "setup": setup,
        "figures": figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Measured:
    """What `save` wrote."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Measured(kept["command"], kept["measured_at"], kept["machine"], kept["load"], kept["setup"], kept["figures"])


def machine() -> str:
    """The machine in a few words."""
    cores = os.cpu_count()
    python = f"Python {platform.python_version()} ({objects_per_s() / 1_000_000:.1f} million objects/s)"
    return (
        f"{cores} cores of {_processor()}, {_memory_gb():.0f} GB, {platform.system()} {platform.release()}, "
        f"{python}, SQLite {sqlite3.sqlite_version}"
    )


def objects_per_s() -> float:
    """How fast this Python is on this machine: small objects that it makes, reads and keeps in a second, at best.

    Builds of one version differ: one that was compiled without profile and link time optimization, as some version
    managers do by themselves, has little more than half of what the others have.
    """

    def seconds() -> float:
        kept: dict[int, int] = {}
        began = time.perf_counter()
        for number in range(_OBJECTS):
            pair = _Pair(number, 1)
            kept[number & 1_023] = pair.left + pair.right
        return time.perf_counter() - began

    return _OBJECTS / min(seconds() for _ in range(9))


class _Pair:
    __slots__ = ("left", "right")

    def __init__(self, left: int, right: int) -> None:
        self.left = left
        self.right = right


def _processor() -> str:
    with_names = Path("/proc/cpuinfo")
    if with_names.is_file():
        for line in with_names.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
