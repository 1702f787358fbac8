"""Servers and workers behind PgBouncer, which lends connections by the transaction."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.hardening.drawing import EFFECTS
from tests.processes.conftest import Installation, Launch
from tests.processes.launching import until
from tests.processes.test_coded import ORDERS, SHOP
from tests.processes.test_staying import HELD, SHORT_LEASE, Serve

RUNS = 30

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def pooled_installation(tmp_path: Path, pooled_url: str) -> Installation:
    """A folder, and a database behind the pooler."""
    return Installation(tmp_path, pooled_url)


def test_drawn_and_coded_runs_of_several_workers_complete_behind_a_pooler(
    launch: Launch, served: Serve, pooled_installation: Installation
) -> None:
    server = served(pooled_installation, "--no-worker")
    workers = [launch(pooled_installation, "worker", "--import", SHOP, "--import", EFFECTS).ready() for _ in range(2)]
    server.save({**HELD, "name": "drawn"})
    pooled_installation.open_gate("gate")
    drawn = [server.start("drawn") for _ in range(RUNS)]
    coded = [server.start("order", ORDERS) for _ in range(RUNS)]
    until(lambda: len(server.ask("GET", "/v1/runs?status=WAITING&limit=100").body["items"]) == RUNS)
    for run_id in coded:
        paid = server.ask("POST", f"/v1/runs/{run_id}/signals/paid", {"order": 7, "by": "card"})
        assert paid.status in (200, 202), paid

    assert {server.ended_run(run_id)["status"] for run_id in drawn} == {"COMPLETED"}
    assert {server.ended_run(run_id)["output"]["by"] for run_id in coded} == {"card"}
    said = "".join(process.text for process in (server, *workers))
    assert "a pooler lends connections by the transaction" in said
    assert "prepared statement" not in said
    assert server.ask("GET", "/readyz").status == 200


def test_a_run_is_cancelled_behind_a_pooler(launch: Launch, served: Serve, pooled_installation: Installation) -> None:
    server = served(pooled_installation, "--no-worker")
    # A worker hears of a cancel when it extends its leases: the pooler passes no hints on.
    launch(pooled_installation, "worker", "--import", EFFECTS, **SHORT_LEASE).ready()
    server.save(HELD)
    run_id = server.start("held")
    until(lambda: len(pooled_installation.begun()) >= 2)

    assert server.ask("POST", f"/v1/runs/{run_id}/cancel", {"reason": "enough"}).status == 200
    assert server.ended_run(run_id)["status"] == "CANCELLED"


def test_a_worker_that_is_killed_behind_a_pooler_loses_nothing(
    launch: Launch, served: Serve, pooled_installation: Installation
) -> None:
    server = served(pooled_installation, "--no-worker")
    server.save(HELD)
    to_cancel = launch(pooled_installation, "worker", "--import", EFFECTS, **SHORT_LEASE).ready()
    run_id = server.start("held")
    until(lambda: len(pooled_installation.begun()) == 2)

    assert to_cancel.stop(signal.SIGKILL) == -signal.SIGKILL
    launch(pooled_installation, "worker", "--import", EFFECTS).ready()
    pooled_installation.open_gate("gate")

    assert server.ended_run(run_id)["status"] == "COMPLETED"
