"""Change lines of the product at random, and see whether its tests notice: `make mutants`.

    python -m tests.mutants                              ten minutes of mutants of the whole product
    python -m tests.mutants --seed 7 --seconds 3600      those of a seed, for an hour
    python -m tests.mutants --only anabranch/egress      of one folder or file

Each mutant lives in a copy of the clone, so that nothing here changes, and is hunted by the tests of its part, which
stop at the first that fails. One that survives shows code that no test holds to its promise, or code that does
nothing; it is printed with its line. The last line is one JSON object. The exit code is 0 however many survive: a
sample judges nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.changing import Mutant, mutants_of

ROOT = Path(__file__).parents[2]

SECONDS = 600.0

# Short enough to be typed.
SEED_MAX = 1_000_000_000

# The tests of no part take longer on two slow cores; a mutant that hangs them is noticed.
HUNT_S = 300.0

# The tests of each part of the product, the nearest first; the first line whose folder fits.
HUNTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("anabranch/engine/rules/template", ("tests/spec/test_template.py", "tests/spec/test_template_filters.py",
     "tests/spec/test_template_attacks.py", "tests/spec/test_expression_limits.py",
     "tests/spec/test_promised_limits.py")),
    ("anabranch/engine/rules/coded", ("tests/spec", "tests/durable", "tests/simulation/test_worlds.py")),
    ("anabranch/engine/rules", ("tests/spec", "tests/oracle", "tests/stress", "tests/simulation/test_worlds.py")),
    ("anabranch/engine/store", ("tests/conformance", "tests/engine", "tests/access")),
    ("anabranch/audit", ("tests/access",)),
    ("anabranch/keys", ("tests/access", "tests/rest/test_access.py")),
    ("anabranch/engine", ("tests/engine", "tests/simulation/test_worlds.py", "tests/simulation/test_stopping.py")),
    ("anabranch/egress", ("tests/egress",)),
    ("anabranch/triggers", ("tests/triggers",)),
    ("anabranch/durable", ("tests/durable",)),
    ("anabranch/queries", ("tests/handlers/queries",)),
    ("anabranch/handlers", ("tests/handlers",)),
    ("anabranch/secrets", ("tests/secrets",)),
    ("anabranch/sockets", ("tests/sockets",)),
    ("anabranch/telemetry", ("tests/telemetry",)),
    ("anabranch/client", ("tests/client", "tests/durable")),
    ("anabranch/rest", ("tests/rest",)),
    ("anabranch/process", ("tests/rest/test_connections.py", "tests/processes")),
    ("anabranch/cli", ("tests/cli",)),
    ("anabranch/service", ("tests/service", "tests/access", "tests/rest")),
    ("anabranch/migrations", ("tests/migrations",)),
    ("anabranch/settings.py", ("tests/test_settings.py",)),
    ("anabranch/json_input.py", ("tests/test_json_input.py",)),
)  # fmt: skip


def main() -> int:
    """Hunt until the time is over; 0."""
    options = _options()
    seed = secrets.randbelow(SEED_MAX) if options.seed is None else options.seed
    print(f"seed {seed}; the same mutants again: make mutants SEED={seed}", flush=True)
    sample = _sample(random.Random(seed), options.only)
    began, hunted, survivors = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory(prefix="anabranch-mutants-") as folder:
        copy = Path(folder)
        for name in ("anabranch", "tests", "examples", "docs", "benchmarks"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy(path, copy / path.name)
        while time.monotonic() - began < options.seconds:
            path, mutant = next(sample)
            caught = _is_caught(copy, path, mutant)
            hunted += 1
            print(f"{'caught  ' if caught else 'SURVIVED'} {path}:{mutant.line}", flush=True)
            if not caught:
                survivors.append({"file": path, "line": mutant.line, "before": mutant.before, "after": mutant.after})
                print(f"    - {mutant.before}\n    + {mutant.after}", flush=True)
    print(json.dumps({"seed": seed, "mutants": hunted, "survived": len(survivors), "survivors": survivors}))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="begin no mutant after this (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="which mutants (default: drawn anew)")
    parser.add_argument("--only", default="anabranch", help="a folder or file of the product (default: all of it)")
    return parser.parse_args()


def _sample(dice: random.Random, only: str):  # type: ignore[no-untyped-def]
    """Mutants without end; each file as often as it has lines, so that a line is as likely as any other."""
    files = sorted(
        str(path.relative_to(ROOT))
        for path in ROOT.glob("anabranch/**/*.py")
        if str(path.relative_to(ROOT)).startswith(only) and hunters_of(str(path.relative_to(ROOT)))
    )
    if not files:
        sys.exit(f"there is no file of the product at {only} that has tests of its own")
    weights = [len((ROOT / file).read_text().splitlines()) for file in files]
    while True:
        [file] = dice.choices(files, weights)
        mutants = mutants_of((ROOT / file).read_text())
        if mutants:
            yield file, dice.choice(mutants)


def hunters_of(path: str) -> tuple[str, ...]:
    """The tests that are to notice a change of this file; none if it has none of its own."""
    return next((tests for part, tests in HUNTERS if path.startswith(part)), ())


def _is_caught(copy: Path, path: str, mutant: Mutant) -> bool:
    copied = copy / path
    original = copied.read_text()
    copied.write_text(mutant.text)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *hunters_of(path)],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=HUNT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        copied.write_text(original)
    return ended.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
