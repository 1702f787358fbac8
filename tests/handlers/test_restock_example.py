"""The example with most kinds of nodes in one workflow runs as its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "restock"

# It starts a dozen processes one after the other: half a minute, or more where others work too.
PATIENCE_S = 240


@pytest.mark.timeout(PATIENCE_S + 10)
def test_the_shop_is_restocked(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "run.py")],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "booked: [('coffee', 59, 'Bean Bros', 51920, 'Ada')" in done.stdout
