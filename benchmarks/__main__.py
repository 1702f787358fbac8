"""`python -m benchmarks` measures everything, keeps the figures and renders them: some ten minutes on a quiet machine.

The rounds are fewer than each measurement has by itself: so many fit into that time.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks import report
from benchmarks.measured import RESULTS

ROUNDS = {"engine": 3, "service": 1, "durable": 3, "growth": 1, "canvas": 1}

if __name__ == "__main__":
    # Each in a process of its own: what one measurement leaves in memory is not the other's.
    for name in report.MEASURED:
        command = [sys.executable, "-m", f"benchmarks.{name}", "--rounds", str(ROUNDS[name])]
        subprocess.run([*command, "--save", str(RESULTS / f"{name}.json")], check=True)
    report.main()
