"""The example of webhooks runs as its README says, and prints what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# It takes four seconds, or more where others work too.
PATIENCE_S = 100

PRINTED = """
the claimant is answered: 202 waits for approval
the same request again starts nothing: True
the mail asks: 120 for train tickets?
a preview of the link approves nothing: True WAITING
a click on Confirm does: True
the run: COMPLETED {"amount": 120, "state": "paid"}
"""


@pytest.mark.timeout(PATIENCE_S + 10)
def test_a_signed_claim_is_approved_by_link() -> None:
    done = subprocess.run(
        [sys.executable, "examples/approval-hook/run.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, PRINTED.strip()), done.stderr
