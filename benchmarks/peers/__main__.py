"""How fast are others? The packages as they are published, like for like, on the same databases.

    python -m benchmarks.peers [--rounds 3] [--runs 500] [--only NAME]... [--json] [--save FILE]

The first time it installs them beside this file, into `installed`. In each round every program (`programs`) gets a
fresh database and a process of its own, one after the other, and the next round begins with another one; shown are
medians. A program that fails is left out, and why is told.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from benchmarks.databases import BACKENDS, Databases, databases
from benchmarks.durable import STEPS
from benchmarks.measured import save

PROGRAMS = Path(__file__).with_name("programs")
INSTALLED = Path(__file__).with_name("installed")

ROUNDS = 3
RUNS = 500
LONE_RUNS = 20

# 100 at once, for those that ask: more makes none of them faster.
CONCURRENCY = 100

# 5 min for one program in one round: the slowest needs one.
PATIENCE_S = 300

OWN = "anabranch"

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Peer:
    """A program, and what it can be measured on."""

    command: Callable[[], list[str]]
    backends: tuple[str, ...] = BACKENDS


def _python() -> str:
    return str(INSTALLED / "venv" / "bin" / "python")


PEERS: Mapping[str, Peer] = {
    OWN: Peer(lambda: [sys.executable, "-m", "benchmarks.peers.programs.own"]),
    "OpenWorkflow": Peer(lambda: ["node", str(INSTALLED / "openworkflow.mjs")]),
    "DBOS": Peer(lambda: [_python(), str(PROGRAMS / "dbos_steps.py")]),
    "pgqueuer": Peer(lambda: [_python(), str(PROGRAMS / "pgqueuer_jobs.py")], ("postgresql",)),
    "procrastinate": Peer(lambda: [_python(), str(PROGRAMS / "procrastinate_jobs.py")], ("postgresql",)),
}


def install() -> None:
    """Install the pinned packages, once."""
    if not Path(_python()).exists():
        print("installing DBOS, pgqueuer and procrastinate", file=sys.stderr)
        venv.create(INSTALLED / "venv", with_pip=True)
        packages = ["--requirement", str(PROGRAMS / "requirements.txt")]
        subprocess.run([_python(), "-m", "pip", "install", "--quiet", *packages], check=True)
    INSTALLED.mkdir(exist_ok=True)
    for name in ("package.json", "openworkflow.mjs"):
        shutil.copy(PROGRAMS / name, INSTALLED / name)
    if not (INSTALLED / "node_modules").exists() and shutil.which("npm"):
        print("installing OpenWorkflow", file=sys.stderr)
        subprocess.run(["npm", "install", "--silent", "--no-audit"], cwd=INSTALLED, check=True)


def measure(peer: Peer, url: str, runs: int) -> dict[str, float | str]:
    """Run a program on a database; what it told. Raises RuntimeError with its last words if it failed."""
    environment = dict(os.environ)
    if peer.command()[0] == "node":
        url, host = _for_node(url)
        environment |= {"PGHOST": host, "PGUSER": "postgres"}
    numbers = [str(number) for number in (runs, STEPS, LONE_RUNS, CONCURRENCY)]
    try:
        done = subprocess.run(
            [*peer.command(), url, *numbers],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=INSTALLED if peer.command()[0] == "node" else None,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise RuntimeError(str(failure)) from failure
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(next((line for line in words if "Error" in line), words[-1]))
    told: dict[str, float | str] = json.loads(lines[-1])
    return told


def _for_node(url: str) -> tuple[str, str]:
    """Its driver takes the folder of a socket from the environment alone."""
    parts = urlsplit(url)
    if parts.scheme != "postgresql":
        return url, ""
    return f"postgresql://{parts.path}", parse_qs(parts.query).get("host", ["localhost"])[0]


def measure_all(
    made: Databases, names: list[str], rounds: int, runs: int
) -> tuple[dict[str, dict[str, Figures]], dict[str, str]]:
    """Database → program → medians; and program → its version."""
    told: dict[tuple[str, str], list[dict[str, float | str]]] = {}
    versions: dict[str, str] = {}
    for number in range(rounds):
        for backend in BACKENDS:
            for name in names[number % len(names) :] + names[: number % len(names)]:
                if backend not in PEERS[name].backends:
                    continue
                try:
                    figures = measure(PEERS[name], made.create_empty(backend), runs)
                except RuntimeError as failure:
                    print(f"left out: {name} on {backend}: {failure}", file=sys.stderr)
                    continue
                versions[name] = str(figures.pop("version"))
                told.setdefault((backend, name), []).append(figures)
    medians: dict[str, dict[str, Figures]] = {backend: {} for backend in BACKENDS}
    for (backend, name), ones in told.items():
        medians[backend][name] = {key: statistics.median(float(one[key]) for one in ones) for key in ones[0]}
    return medians, versions


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--save", type=Path, help="write the figures, with date, machine and command, to this file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs of {STEPS} steps each")
    parser.add_argument("--only", action="append", choices=list(PEERS), help="these programs; may be repeated")
    arguments = parser.parse_args()
    install()
    with databases() as made:
        names = arguments.only or list(PEERS)
        figures, versions = measure_all(made, names, arguments.rounds, arguments.runs)
    for backend, ones in figures.items():
        for name, row in ones.items():
            told = ", ".join(f"{key} {value:,.2f}" for key, value in row.items())
            print(f"{backend}, {name} {versions[name]}: {told}")
    if arguments.save:
        setup = {"rounds": arguments.rounds, "runs": arguments.runs, "versions": versions}
        save(arguments.save, "python -m benchmarks.peers", figures, setup=setup)
    if arguments.json:
        print(json.dumps({"versions": versions, **figures}))


if __name__ == "__main__":
    main()
