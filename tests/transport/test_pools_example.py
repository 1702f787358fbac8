"""The example of pools runs as its README says, and prints what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rabbitmq import RabbitMQ

ROOT = Path(__file__).parents[2]
PATIENCE_S = 100


@pytest.mark.timeout(PATIENCE_S + 60)
def test_a_killed_executor_does_not_end_the_run(broker: RabbitMQ) -> None:
    done = subprocess.run(
        [sys.executable, "examples/pools/run.py"],
        cwd=ROOT,
        env=os.environ | {"ANABRANCH_BROKER_URL": broker.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    printed = (ROOT / "examples/pools/README.md").read_text().split("```text\n")[1].split("```")[0]
    assert (done.returncode, done.stdout.strip()) == (0, printed.strip()), done.stderr
