"""Put an engine under load, and judge every run of it: `make stress`.

    python -m tests.stress                                              1,000 runs of all shapes, on the memory store
    python -m tests.stress linear "diamond all" --count 5000            of these shapes
    python -m tests.stress order.json --input '{"n": 1}' --store sqlite  of a workflow of yours, with two workers
    python -m tests.stress --store postgresql --workers 3 --kills 10    kill a worker ten times meanwhile

Shapes: --list. A run is judged by what ended, how often, and in which order. PostgreSQL is a server of its own unless
`--url` names a database, which should be empty: its workers take up whatever runs are there. The last line is one JSON
object. The exit code is 1 if a promise was broken, 2 if the command makes no sense.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from anabranch.engine.rules.graph.validate import validate
from anabranch.handlers.registry import load_types
from tests.postgres import running_postgres
from tests.stress.judging import Work
from tests.stress.load import Plan, Told, stress
from tests.stress.topologies import TOPOLOGIES

# Short enough to be typed.
SEED_MAX = 1_000_000_000

# 20 violations are told; the first ones explain the rest.
TOLD_MAX = 20

# Those that fail as a script says need a node type of the tests, which no worker has.
SHAPES = {shape.name: shape for shape in TOPOLOGIES if shape.script is None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 if every promise was kept."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(SHAPES))
        return 0
    if options.store == "memory" and options.kills:
        parser.error("the memory store is in one process, which is not killed: --kills takes sqlite or postgresql")
    if options.url and options.store != "postgresql":
        parser.error("--url names a PostgreSQL database: --store postgresql")
    work = [_work(parser, name, options.input) for name in options.work] or [*map(Work.of_shape, SHAPES.values())]
    seed = secrets.randbelow(SEED_MAX) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    with _database(options.store, options.url) as url, _progress() as told:
        plan = Plan(work, options.count, url, workers=options.workers, kills=options.kills, seed=seed)
        report = asyncio.run(stress(plan, told))
    for violation in report.violations[:TOLD_MAX]:
        print(violation, file=sys.stderr)
    print(
        json.dumps(
            {
                "work": [each.name for each in work],
                "store": options.store,
                "workers": options.workers,
                "seed": seed,
                "runs": report.runs,
                "nodes": report.nodes,
                "kills": report.kills,
                "seconds": round(report.seconds, 3),
                "runsPerSecond": round(report.runs / report.seconds, 1),
                "nodesPerSecond": round(report.nodes / report.seconds, 1),
                "violations": len(report.violations),
            }
        )
    )
    return 1 if report.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("work", nargs="*", metavar="SHAPE|FILE", help="what is run (default: all shapes)")
    parser.add_argument("--list", action="store_true", help="name the shapes")
    parser.add_argument("--count", type=_positive, default=1_000, help="how many runs (default: %(default)s)")
    parser.add_argument("--input", type=json.loads, default={}, metavar="JSON", help="the input of files")
    parser.add_argument("--store", choices=["memory", "sqlite", "postgresql"], default="memory")
    parser.add_argument("--url", help="an empty PostgreSQL database (default: a server of its own)")
    parser.add_argument("--workers", type=_positive, default=2, help="how many workers (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=0, help="how often a worker is killed (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the order of things (default: drawn anew)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _work(parser: argparse.ArgumentParser, name: str, input_: Any) -> Work:
    if name in SHAPES:
        return Work.of_shape(SHAPES[name])
    try:
        document = json.loads(Path(name).read_text())
    except (OSError, ValueError) as refusal:
        parser.error(f"{name!r} is no shape (--list) and no file of a workflow: {refusal}")
    report = validate(document, load_types())
    if report.errors:
        parser.error(f"{name}: {report.errors[0].message}")
    return Work.of_document(name, document, input_)


@contextmanager
def _database(store: str, url: str | None) -> Iterator[str | None]:
    """The database that is worked on; nothing is left of it but of one that was named."""
    if store == "memory":
        yield None
    elif url is not None:
        yield url
    elif store == "sqlite":
        with tempfile.TemporaryDirectory(prefix="anabranch-stress-") as folder:
            yield f"sqlite:///{Path(folder) / 'stress.db'}"
    else:
        with running_postgres() as server:
            made = server.create()
            try:
                yield made
            finally:
                server.drop(made)


@contextmanager
def _progress() -> Iterator[Told]:
    """A bar on a terminal; elsewhere a line at each tenth."""
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("runs", total=None)
            yield lambda ended, count: progress.update(task, completed=ended, total=count)
        return
    tenths = 0

    def told(ended: int, count: int) -> None:
        nonlocal tenths
        if ended * 10 // count > tenths:
            tenths = ended * 10 // count
            print(f"{ended} of {count} runs have ended", file=sys.stderr, flush=True)

    yield told


if __name__ == "__main__":
    sys.exit(main())
