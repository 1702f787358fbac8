"""A guard against a slower hot path that a slow or busy machine cannot set off.

    python -m benchmarks.check [--update]

Two kinds of figures. **Counts** (`guard.py`: bytecode instructions a node, SQL statements a
commit, bytes a transition …) are the same in every run on every machine, and may grow by 3 % against
`baseline.json`: room for a sentence of code somewhere, not for another pass over a run's state.
They depend on the version of Python, so each version has a baseline of its own. `--update`
writes this version's anew: do that in the commit that makes the hot path dearer for a reason,
or cheaper.

**Ratios to the bound**, taken in one run, see what counts do not: time spent in C, in waiting,
in too small batches. They are timings divided by timings a moment apart, and on a busy machine
two equal runs differ by half. So the best of a few rounds must only keep half of what is
promised; what counts cannot see is usually larger than that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from anabranch.app import tune_interpreter
from benchmarks.databases import BACKENDS, databases
from benchmarks.engine import measure_ratios

BASELINE = Path(__file__).with_name("baseline.json")

# 3 %, some 140 instructions a node: a new check on the way of every node fits in, and so does
# another patch version of a library. Copying every output once more does not (a deepcopy of
# the smallest object is 5 %).
GROWTH_MAX = 1.03

# Half of the promised share, and twice the promised processor time (with that of the database
# server, which is in SQLite's anyway): see above.
NODES_PER_BOUND_MIN = 0.22
CPU_PER_BOUND_CPU_MAX = 8.0

RATIO_ROUNDS = 3
RATIO_INSTANCES = 300

Counts = Mapping[str, float]


def problems_of(now: Counts, baseline: Counts) -> Iterator[str]:
    """Every count that grew, came new or is gone, in words."""
    for name in sorted({*now, *baseline}):
        if name not in baseline:
            yield f"{name} is new: --update takes it into the baseline"
        elif name not in now:
            yield f"{name} is not counted any more: --update takes it out of the baseline"
        elif now[name] > baseline[name] * GROWTH_MAX:
            growth = now[name] / baseline[name] - 1
            yield f"{name}: {now[name]:,} instead of {baseline[name]:,} (+{growth:.0%})"


def problems_of_ratios(nodes_per_bound: float, cpu_per_bound_cpu: float, backend: str) -> Iterator[str]:
    """What is out of proportion to the bound, in words."""
    if nodes_per_bound < NODES_PER_BOUND_MIN:
        yield f"{backend}: nodes/s are {nodes_per_bound:.2f} of the bound, less than {NODES_PER_BOUND_MIN}"
    if cpu_per_bound_cpu > CPU_PER_BOUND_CPU_MAX:
        yield f"{backend}: {cpu_per_bound_cpu:.1f} times the bound's processor time, over {CPU_PER_BOUND_CPU_MAX:g}"


def main() -> None:
    """Count, compare, and end with 1 if something grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the counts into the baseline instead of comparing")
    arguments = parser.parse_args()
    python = ".".join(platform.python_version_tuple()[:2])
    baselines: dict[str, dict[str, float]] = json.loads(BASELINE.read_text(encoding="utf-8"))
    now = _counts()
    if arguments.update:
        baselines[python] = now
        BASELINE.write_text(json.dumps(baselines, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{BASELINE.name} has the {len(now)} counts of Python {python}")
        return
    problems = [*_compare(now, baselines.get(python), python), *_ratios()]
    for problem in problems:
        print(f"WORSE  {problem}")
    if problems:
        sys.exit("the hot path costs more than it did; if that is meant: python -m benchmarks.check --update")


def _counts() -> dict[str, float]:
    """The counts, from a process whose sets and dicts are ordered alike in every run."""
    command = [sys.executable, "-m", "benchmarks.guard"]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.PIPE, check=True)
    counts: dict[str, float] = json.loads(done.stdout)
    return counts


def _compare(now: Counts, baseline: Counts | None, python: str) -> list[str]:
    if baseline is None:
        print(f"no baseline for Python {python}: only ratios are judged (--update makes one)")
        return []
    for name, value in now.items():
        before = baseline.get(name)
        change = "" if not before else f"{value / before - 1:+8.1%}"
        print(f"{name:55}{value:14,.2f}{change}")
    return list(problems_of(now, baseline))


def _ratios() -> list[str]:
    tune_interpreter()
    problems: list[str] = []
    with databases() as made:
        for backend in BACKENDS:
            url = made.create(backend)
            rounds = [
                measure_ratios(url, RATIO_INSTANCES, made.server_cpu_s, bound_first=bool(number % 2))
                for number in range(RATIO_ROUNDS)
            ]
            nodes, cpu = max(nodes for nodes, _ in rounds), min(cpu for _, cpu in rounds)
            print(f"{backend + ': nodes/s, share of the bound':55}{nodes:14.2f}")
            print(f"{backend + ': processor time against the bound':55}{cpu:14.2f}")
            problems += problems_of_ratios(nodes, cpu, backend)
    return problems


if __name__ == "__main__":
    main()
