"""The examples of coded workflows run as their READMEs say, and print what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# They take three seconds, or more where others work too.
PATIENCE_S = 100

PRINTED = {
    "orders": """
{'order': 'A1', 'outcome': 'shipped', 'parcel': 'parcel-A1'}
{'order': 'A2', 'outcome': 'not paid in time'}
{'order': 'A3', 'outcome': 'refunded: no courier carries a piano'}
stock: {'tea': 4, 'coffee': 0, 'piano': 1}
refunds: {'A3': 990000}
""",
    "scraper": """
rhine: 8 words
rhone: 7 words
inn: 6 words
missing: ['styx answers 404']
asked: {'': 1, 'inn': 1, 'rhine': 1, 'rhone': 3, 'styx': 1}
""",
    "agent": """
the agent asks: approve-send-refund? yes
the agent asks: approve-close-account? no
 user: Customer 17 says that she paid twice.
model: Let me look at the invoice.
 tool: invoice 17: 120.00, paid twice
model: It was paid twice: one payment goes back.
 tool: refunded 120.00 for invoice 17
model: Better to be rid of such a customer.
 tool: close-account was not approved
model: Done: refunded 120.00 for invoice 17; close-account was not approved.
answer: Done: refunded 120.00 for invoice 17; close-account was not approved.
""",
}


@pytest.mark.timeout(PATIENCE_S + 10)
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name / "run.py")],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == PRINTED[name].removeprefix("\n")
    assert f"python examples/{name}/run.py" in (ROOT / "examples" / name / "README.md").read_text()
