"""`python -m benchmarks` measures everything, keeps the figures and renders them: some ten minutes."""

from __future__ import annotations

import subprocess
import sys

from benchmarks import report
from benchmarks.measured import RESULTS

if __name__ == "__main__":
    # Each in a process of its own: what one measurement leaves in memory is not the other's.
    for name in report.MEASURED:
        subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", "--save", str(RESULTS / f"{name}.json")], check=True
        )
    report.main()
