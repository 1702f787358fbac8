"""What happens when there is more of it: speed and memory against size.

    python -m benchmarks.growth [--json] [--save FILE] [--quick] [--only NAME …] [--rounds 3]

Every point of a series is measured once a round on both databases, in a process of its own, and
the median is shown. `--quick` takes the small points only, once and shortly: for development.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch.app import tune_interpreter
from benchmarks.children import Figures, in_child
from benchmarks.databases import BACKENDS, Databases, databases
from benchmarks.measured import save
from benchmarks.series import SERIES, Series

ROUNDS = 3

# 1 s a point: an engine makes some ten thousand nodes in it, and a slow commit does not matter any more.
SECONDS = 1.0
QUICK_SECONDS = 0.1

# The columns that a series may have, with their headings.
COLUMNS = {"nodes_per_s": "nodes/s", "runs_per_s": "runs/s", "mb_per_s": "MB/s", "memory_mb": "MB"}

Grown = dict[str, list[Figures]]
"""By database, the figures of every point, with its `x`."""


def measure(series: Series, made: Databases, *, rounds: int, seconds: float, quick: bool) -> Grown:
    """One series on both databases."""
    points = series.quick_points if quick else series.points
    urls = _databases_of(series, points, made)
    found: dict[tuple[str, int], list[Figures]] = {}
    for number in range(rounds):
        for x in points:
            for backend in BACKENDS:
                if number == 0 or x not in series.once:
                    _say(f"{series.name} {x:,} {backend}, round {number + 1}")
                    figures = in_child(series.measure, urls[backend, x], x, seconds)
                    found.setdefault((backend, x), []).append(figures)
    return {backend: [{"x": x, **_medians(found[backend, x])} for x in points] for backend in BACKENDS}


def comparison(series: Series, points: Sequence[Figures]) -> float:
    """The last point against the first: what a unit costs, or how fast it goes."""
    first, last = points[0][series.rate], points[-1][series.rate]
    return last / first if series.faster else first / last


def table(series: Series, grown: Mapping[str, Sequence[Figures]]) -> list[list[str]]:
    """A series as rows of text, the headings first."""
    columns = [key for key in COLUMNS if key in grown[BACKENDS[0]][0] and (key != "runs_per_s" or key == series.rate)]
    head = [series.axis] + [f"{backend} {COLUMNS[key]}" for backend in BACKENDS for key in columns]
    body = []
    for index, point in enumerate(grown[BACKENDS[0]]):
        cells = [_number(grown[backend][index][key]) for backend in BACKENDS for key in columns]
        body.append([f"{point['x']:,.0f}", *cells])
    return [head, *body]


def verdict(series: Series, grown: Mapping[str, Sequence[Figures]]) -> str:
    """How the last point compares with the first, beside what is promised."""
    parts = []
    if series.said:
        ratios = ", ".join(f"{backend} {comparison(series, grown[backend]):.2f}" for backend in BACKENDS)
        promise = "" if series.ratio_max is None else f" (promised: at most {series.ratio_max:g})"
        parts.append(f"{series.said}: {ratios}{promise}")
    if series.memory_max_mb is not None:
        parts.append(f"memory at the last point: promised below {series.memory_max_mb:g} MB")
    return "; ".join(parts)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--save", type=Path, help="write the figures, with date, machine and command, to this file")
    parser.add_argument("--quick", action="store_true", help="small points, once and shortly")
    parser.add_argument("--only", action="append", choices=[series.name for series in SERIES], metavar="NAME")
    parser.add_argument("--rounds", type=int, help=f"default: {ROUNDS}, or 1 with --quick")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (1 if arguments.quick else ROUNDS)
    tune_interpreter()
    figures: dict[str, Grown] = {}
    began = time.monotonic()
    with databases() as made:
        for series in SERIES:
            if arguments.only and series.name not in arguments.only:
                continue
            seconds = QUICK_SECONDS if arguments.quick else SECONDS
            grown = measure(series, made, rounds=rounds, seconds=seconds, quick=arguments.quick)
            figures[series.name] = grown
            _print_series(series, grown)
            if arguments.save:  # after every series: an interrupted run has measured something, too
                save(arguments.save, _command(arguments), figures, setup={"rounds": rounds})
    _say(f"{time.monotonic() - began:.0f} s")
    if arguments.json:
        print(json.dumps(figures))


def _command(arguments: argparse.Namespace) -> str:
    only = "".join(f" --only {name}" for name in arguments.only or ())
    return "python -m benchmarks.growth" + (" --quick" if arguments.quick else "") + only


def _databases_of(series: Series, points: Sequence[int], made: Databases) -> dict[tuple[str, int], str]:
    """One database of each kind for the series, or one for each point where they differ."""
    if series.prepare is None:
        urls = {backend: made.create(backend) for backend in BACKENDS}
        return {(backend, x): url for backend, url in urls.items() for x in points}
    own = {(backend, x): made.create(backend) for backend in BACKENDS for x in points}
    for (backend, x), url in own.items():
        _say(f"{series.name}: preparing {x:,} on {backend}")
        series.prepare(url, x)
    return own


def _medians(measured: Sequence[Figures]) -> Figures:
    return {key: round(statistics.median(one[key] for one in measured), 3) for key in measured[0]}


def _print_series(series: Series, grown: Grown) -> None:
    print(f"\n{series.title} ({series.name})")
    for row in table(series, grown):
        print("  " + row[0].rjust(10) + "".join(cell.rjust(22) for cell in row[1:]))
    print(f"  {verdict(series, grown)}", flush=True)


def _number(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
