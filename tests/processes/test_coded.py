"""Coded workflows through the service: a server without the code, workers that have it, and everything between them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import socketio

from tests.hardening.command_line import EXECUTABLE
from tests.processes.conftest import Installation, Launch
from tests.processes.launching import PATIENCE_S, Staying, until
from tests.processes.test_staying import LONG_LEASE, NO_GRACE, PATIENT, SHORT_LEASE, Serve

SHOP = Path(__file__).with_name("shop.py")

# Soon over once its process is killed; long enough that a busy machine does not lose it before.
SOON_OVER = {"ANABRANCH_LEASE": "4s"}
README = Path(__file__).parents[2] / "README.md"

ORDERS = {"order": 7, "items": 2}

pytestmark = pytest.mark.timeout(180)


def test_a_server_without_the_code_lists_and_reads_what_workers_have_registered(
    launch: Launch, served: Serve, installation: Installation
) -> None:
    server = served(installation, "--no-worker")
    assert server.ask("GET", "/v1/workflows").body["items"] == []
    launch(installation, "worker", "--import", SHOP).ready()

    listed = server.ask("GET", "/v1/workflows").body["items"]
    assert [(each["name"], each["kind"], each["version"]) for each in listed] == [
        ("echo", "coded", 1),
        ("held", "coded", 1),
        ("order", "coded", 2),
    ]
    one = server.ask("GET", "/v1/workflows/order")
    assert (one.body["nodes"], one.body["edges"], one.headers["ETag"]) == ([], [], '"2"')
    assert one.body["workflowOptions"] == {"retention": "5d", "retry": None, "deadline": None}
    assert server.ask("GET", "/v1/workflows/order?version=1").body["workflowOptions"]["retention"] == "3d"
    versions = server.ask("GET", f"/v1/workflows/{one.body['workflowID']}/versions").body["items"]
    assert [(each["version"], each["kind"]) for each in versions] == [(2, "coded"), (1, "coded")]


def test_what_is_code_is_changed_by_code_only(launch: Launch, served: Serve, installation: Installation) -> None:
    server = served(installation, "--no-worker")
    launch(installation, "worker", "--import", SHOP).ready()
    drawing = {"name": "order", "nodes": [{"id": "start", "type": "start"}], "edges": []}

    refused = [
        server.ask("PUT", "/v1/workflows/order", drawing),
        server.ask("DELETE", "/v1/workflows/order"),
        server.ask("DELETE", "/v1/workflows/order?force=true"),
        server.ask("POST", "/v1/workflows", drawing),
    ]

    assert [(each.status, each.body["error"]["code"]) for each in refused] == [
        *[(409, "WORKFLOW_IS_CODED")] * 3,
        (409, "NAME_TAKEN"),
    ]
    assert server.ask("GET", "/v1/workflows/order").status == 200


def test_a_run_is_started_shown_and_signalled_where_the_code_is_not(
    launch: Launch, served: Serve, installation: Installation
) -> None:
    server = served(installation, "--no-worker")
    launch(installation, "worker", "--import", SHOP).ready()
    run_id = server.start("order", ORDERS)
    until(lambda: server.ask("GET", f"/v1/runs/{run_id}").body["status"] == "WAITING")

    run = server.ask("GET", f"/v1/workflows/order/runs/{run_id}").body
    shown = Counter((node["nodeID"], node["scope"], node["status"]) for node in run["nodes"])
    assert shown == Counter(
        [
            ("fetch", "", "success"),
            ("fetch", "#2", "success"),
            ("net", "", "success"),
            ("tax", "", "success"),
            ("paid", "", "waiting"),
        ]
    )
    assert (run["kind"], run["version"], run["retentionDays"], run["output"]) == ("coded", 2, 5, None)
    edges = {(edge["upstreamNodeID"], edge["downstreamNodeID"]) for edge in run["graph"]["edges"]}
    assert edges == {
        ("@start", "fetch"),
        ("fetch", "fetch#2"),
        ("fetch#2", "net"),
        ("fetch#2", "tax"),
        ("net", "paid"),
        ("tax", "paid"),
    }
    assert {node for edge in edges for node in edge} == {node["id"] for node in run["graph"]["nodes"]}
    graph = server.ask("GET", f"/v1/runs/{run_id}/graph").body
    assert {"nodes": graph["nodes"], "edges": graph["edges"]} == run["graph"]
    assert (graph["kind"], graph["test"], graph["version"], graph["pins"]) == ("coded", False, 2, {})
    assert server.ask("POST", f"/v1/runs/{run_id}/signals/paid", {"order": 8}).body == {"delivered": False}
    answer = server.ask("POST", f"/v1/runs/{run_id}/signals/paid", {"order": 7, "by": "Ada"})
    assert (answer.status, answer.body) == (202, {"delivered": True})

    ended = server.ended_run(run_id)
    assert (ended["status"], ended["output"]["by"], ended["output"]["prices"]) == ("COMPLETED", "Ada", [200, 200])
    steps = server.ask("GET", f"/v1/runs/{run_id}/steps").body["items"]
    assert {step["nodeID"] + step["scope"]: step["output"] for step in steps} == {
        "fetch": "item-0",
        "fetch#2": "item-1",
        "net": 200,
        "tax": 200,
        "paid": {"order": 7, "by": "Ada"},
    }
    config = json.dumps({"path": "rows", "columns": ["item"]}).replace(" ", "")
    widget = server.ask("GET", f"/v1/runs/{run_id}/widget?type=table&config={config}").body
    assert widget["data"]["rows"] == [{"item": "item-0"}, {"item": "item-1"}], widget


def test_runs_of_code_are_listed_counted_and_cancelled_like_any_other(
    launch: Launch, served: Serve, installation: Installation
) -> None:
    server = served(installation, "--no-worker")
    launch(installation, "worker", "--import", SHOP).ready()
    old = server.ask("POST", "/v1/workflows/order/runs", {"input": {"order": 1}, "version": 1}).body["instanceID"]
    new = server.start("order", ORDERS)
    assert server.ended_run(old)["output"] == "the old way"
    until(lambda: server.ask("GET", f"/v1/runs/{new}").body["status"] == "WAITING")

    def listed(query: str) -> list[str]:
        return [run["instanceID"] for run in server.ask("GET", f"/v1/workflows/order/runs?{query}").body["items"]]

    assert listed("input.order=7") == listed("status=WAITING") == [new]
    assert listed("input.order=1") == listed("status=COMPLETED") == [old]
    assert listed("limit=5") == [new, old]
    cancelled = server.ask("POST", f"/v1/runs/{new}/cancel", {"reason": "changed my mind"})
    assert (cancelled.status, cancelled.body["status"]) == (200, "CANCELLED")
    run = server.ask("GET", f"/v1/runs/{new}").body
    assert {node["nodeID"]: node["status"] for node in run["nodes"]}["paid"] == "cancelled"
    counts = {"COMPLETED": 1, "CANCELLED": 1}
    until(lambda: server.ask("GET", "/v1/workflows/order").body["runCounts"] == counts)


def test_sigterm_hands_a_function_over_and_a_kill_loses_no_step(
    launch: Launch, served: Serve, installation: Installation
) -> None:
    server = served(installation, "--no-worker")
    leaving = launch(installation, "worker", "--import", SHOP, "--import", PATIENT, **NO_GRACE, **LONG_LEASE).ready()
    run_id = server.start("held")
    until(lambda: len(calls(installation)) == 2)
    heir = launch(installation, "worker", "--import", SHOP, **SOON_OVER).ready()

    assert leaving.stop() == 0
    until(lambda: calls(installation)[2:] == [("held", heir.pid)])
    assert heir.stop(signal.SIGKILL) == -signal.SIGKILL
    last = launch(installation, "worker", "--import", SHOP, **SHORT_LEASE).ready()
    until(lambda: calls(installation)[3:] == [("held", last.pid)])
    installation.open_gate("gate")

    assert server.ended_run(run_id)["output"] == "done"
    assert [name for name, _ in calls(installation)] == ["first", "held", "held", "held", "last"]


def test_a_run_waits_for_a_worker_that_has_its_code(
    launch: Launch, served: Serve, sqlite_installation: Installation
) -> None:
    launch(sqlite_installation, "worker", "--import", SHOP).ready().stop()
    server = served(sqlite_installation)
    run_id = server.start("echo", {"n": 1})
    path = f"/v1/runs/{run_id}"
    assert server.ask("GET", path).body["status"] == "PENDING", "nobody takes what it cannot run"

    launch(sqlite_installation, "worker", "--import", SHOP).ready()

    assert server.ended_run(run_id)["output"] == {"got": {"n": 1}}
    assert server.ask("GET", path).body["note"] is None


def test_schedules_and_topics_start_coded_workflows(launch: Launch, served: Serve, installation: Installation) -> None:
    launch(installation, "worker", "--import", SHOP).ready()
    server = served(installation, "--no-worker")
    schedule = {"name": "ticks", "workflow": "echo", "every": "1s", "input": {"from": "schedule"}}
    assert server.ask("POST", "/v1/schedules", schedule).status == 201
    subscription = {"type": "workflow", "name": "echo"}
    assert server.ask("POST", "/v1/topics/orders.%23/subscriptions", subscription).status == 201
    published = server.ask("POST", "/v1/topics/orders.new/messages", {"from": "topic"})

    assert server.ended_run(published.body["runs"][0])["output"] == {"got": {"from": "topic"}}
    found = "/v1/workflows/echo/runs?input.from=schedule&status=COMPLETED"
    until(lambda: server.ask("GET", found).body["items"])


def test_watchers_are_told_of_steps_as_of_nodes(launch: Launch, served: Serve, installation: Installation) -> None:
    server = served(installation, "--no-worker")
    launch(installation, "worker", "--import", SHOP).ready()
    run_id = server.start("order", ORDERS)
    until(lambda: server.ask("GET", f"/v1/runs/{run_id}").body["status"] == "WAITING")

    joined, told = asyncio.run(_watched(server, run_id, "paid", {"order": 7, "by": "Ada"}))

    seen = {node["nodeID"] + node["scope"]: node["status"] for node in joined["nodes"]}
    assert (joined["ok"], joined["status"]) == (True, "WAITING")
    assert seen == {"fetch": "success", "fetch#2": "success", "net": "success", "tax": "success", "paid": "waiting"}
    updates = [(each.get("nodeID"), each["status"]) for each in told]
    assert ("paid", "success") in updates
    assert told[-1]["status"] == "COMPLETED"
    assert told[-1]["output"]["by"] == "Ada"
    assert all(each.get("nodeID") != "" for each in told), "the function itself is not a node"


@pytest.mark.parametrize("asks", ["the database", "a server"])
def test_commands_start_watch_and_signal_runs_of_code(
    launch: Launch, served: Serve, sqlite_installation: Installation, asks: str
) -> None:
    server = served(sqlite_installation, "--no-worker")
    launch(sqlite_installation, "worker", "--import", SHOP).ready()
    where = {"ANABRANCH_URL": server.url, "ANABRANCH_TOKEN": server.key} if asks == "a server" else {}

    def command(*arguments: str) -> str:
        return typed(sqlite_installation, *arguments, **where)

    listed = json.loads(command("workflows", "list", "--json"))["items"]
    assert {each["name"]: each["kind"] for each in listed}["order"] == "coded"
    started = json.loads(command("runs", "start", "order", "--input", json.dumps(ORDERS), "--json"))
    command("runs", "signal", started["instanceID"], "paid", "--payload", '{"order": 7, "by": "Ada"}')
    watched = command("runs", "watch", started["instanceID"])
    shown = command("runs", "show", started["instanceID"])

    assert "success   fetch#2" in watched
    assert '"by": "Ada"' in watched
    assert "fetch" in shown and "#2" in shown


def test_the_function_and_the_graph_of_the_readme_come_to_the_same(
    launch: Launch, sqlite_installation: Installation
) -> None:
    text = README.read_text(encoding="utf-8")
    for name, language in (("refund.py", "python"), ("refund.json", "json")):
        shown = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
        assert shown, f"README shows no {language}"
        (sqlite_installation.folder / name).write_text(shown[1])
    typed(sqlite_installation, "workflows", "import", "refund.json")
    launch(sqlite_installation, "worker", "--import", "refund.py").ready()

    outputs = []
    for name in ("refund", "refund-drawn"):
        run_id = json.loads(typed(sqlite_installation, "runs", "start", name, "--input", '{"order": 7}', "--json"))[
            "instanceID"
        ]
        typed(sqlite_installation, "runs", "signal", run_id, "approve", "--payload", '{"by": "Ada"}')
        outputs.append(json.loads(typed(sqlite_installation, "runs", "watch", run_id, "--json"))["output"])

    assert outputs == [{"refunded": True, "amount": 42, "by": "Ada"}] * 2


def test_dev_loads_the_workflows_of_its_folder(launch: Launch, sqlite_installation: Installation) -> None:
    folder = sqlite_installation.folder / "workflows"
    folder.mkdir()
    shutil.copy(SHOP, folder / "shop.py")

    dev = launch(sqlite_installation, "dev", "--port", "0").ready()

    assert dev.ended_run(dev.start("echo", {"n": 1}))["output"] == {"got": {"n": 1}}


async def _watched(server: Staying, run_id: str, event: str, payload: Any) -> tuple[Any, list[dict[str, Any]]]:
    """What a watcher is answered when it joins, and what it is told until the end, which a signal brings about."""
    told: list[dict[str, Any]] = []
    ended = asyncio.Event()

    async def hear(_: str, update: dict[str, Any]) -> None:
        told.extend(update.get("updates", [update]))
        if told[-1]["status"] == "COMPLETED":
            ended.set()

    watcher = socketio.AsyncClient(reconnection=False)
    watcher.on("*", hear)
    await watcher.connect(server.url, auth={"key": server.key})
    try:
        joined = await watcher.call("workflow_run_join", {"runId": run_id}, timeout=PATIENCE_S)
        await asyncio.to_thread(server.ask, "POST", f"/v1/runs/{run_id}/signals/{event}", payload)
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
    finally:
        await watcher.disconnect()
    return joined, told


def typed(installation: Installation, *arguments: str, **environment: str) -> str:
    """What a command prints that ends well."""
    done = subprocess.run(
        [EXECUTABLE, *arguments],
        cwd=installation.folder,
        env={**os.environ, **installation.environment, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def calls(installation: Installation) -> list[tuple[str, int]]:
    """Every call of a step of `held`: its name, and the process."""
    file = installation.folder / "calls"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, int(pid)) for name, pid in (line.split() for line in lines)]
