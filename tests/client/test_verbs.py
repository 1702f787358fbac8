"""The verbs on a real server: whatever a program asks for, the log of the run tells the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anabranch.client.remote import RemoteGateway
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidRequest, NotPermitted, RunIsTerminal, VersionMismatch, WorkflowHasRuns
from anabranch.run_requests import StartOptions
from tests.cli.conftest import GREETING, WAITING, chain
from tests.client.serving import Server, served

PATIENCE_S = 30


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with served(tmp_path) as running:
        yield running


@pytest.fixture
async def service(server: Server) -> AsyncIterator[RemoteGateway]:
    async with RemoteGateway(server.url, server.keys["admin"]) as each:
        yield each


async def test_from_a_document_to_an_output(service: RemoteGateway) -> None:
    assert (await service.validate(GREETING))["valid"]
    saved = await service.save_workflow(GREETING)
    started = await service.start_run(saved["name"], {"name": "Ada"})

    run = await service.wait_for_end(started.instance_id, timeout_s=PATIENCE_S)

    assert (started.created, run["output"]) == (True, {"last": {"text": "Hello Ada"}})
    assert [step["nodeID"] async for page in service.step_pages(started.instance_id) for step in page] == [
        "start",
        "greet",
        "end",
    ]
    log = await service.get_log(started.instance_id)
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    assert await service.get_log(started.instance_id, after_seq=3) == log[3:]
    page = await service.list_runs(RunFilter(workflow="greeting", statuses=[Status.COMPLETED]), limit=100)
    assert [item["instanceID"] for item in page["items"]] == [started.instance_id]


async def test_versions_are_counted_and_can_be_expected(service: RemoteGateway) -> None:
    changed = chain("greeting")
    assert [(await service.save_workflow(each))["version"] for each in (GREETING, GREETING, changed)] == [1, 1, 2]

    with pytest.raises(VersionMismatch):
        await service.update_workflow("greeting", GREETING, expected_version=1)

    assert (await service.get_workflow("greeting"))["version"] == 2
    assert await service.export_workflow("greeting", version=1) == GREETING
    assert [item["name"] for item in await service.list_workflows()] == ["greeting"]


async def test_a_document_without_a_name_is_a_new_workflow_each_time(service: RemoteGateway) -> None:
    untitled = {"title": "Greeting", "nodes": GREETING["nodes"], "edges": GREETING["edges"]}

    assert [(await service.save_workflow(untitled))["name"] for _ in range(2)] == ["greeting", "greeting-2"]


async def test_an_empty_key_is_refused_and_not_replaced(service: RemoteGateway) -> None:
    await service.save_workflow(WAITING)

    with pytest.raises(InvalidRequest):
        await service.start_run("waiting", {}, StartOptions(idempotency_key=""))


async def test_a_repeated_key_meets_the_first_run(service: RemoteGateway) -> None:
    await service.save_workflow(WAITING)
    first = await service.start_run("waiting", {}, StartOptions(idempotency_key="k"))
    again = await service.start_run("waiting", {}, StartOptions(idempotency_key="k"))

    assert (first.created, again.created, again.instance_id) == (True, False, first.instance_id)


@pytest.mark.parametrize("event", ["go", "a/b", "..", "ä ö", "50%", "?x=1#y"])
async def test_a_signal_arrives_under_its_name(service: RemoteGateway, event: str) -> None:
    node = {"id": "wait", "type": "waitForEvent", "config": {"event": event}, "outputVariable": "last"}
    await service.save_workflow(chain("named", node))
    run = await service.start_run("named", {})

    await service.send_signal(run.instance_id, event, {"n": [1, None]}, key="k")

    ended = await service.wait_for_end(run.instance_id, timeout_s=PATIENCE_S)
    assert ended["output"] == {"last": {"n": [1, None]}}
    with pytest.raises(RunIsTerminal):
        await service.cancel_run(run.instance_id, reason="too late")


async def test_waiting_has_a_limit_and_the_run_goes_on(service: RemoteGateway) -> None:
    await service.save_workflow(WAITING)
    run = await service.start_run("waiting", {})

    with pytest.raises(TimeoutError):
        await service.wait_for_end(run.instance_id, timeout_s=0.2)

    with pytest.raises(WorkflowHasRuns):
        await service.delete_workflow("waiting")
    assert [await service.cancel_run(run.instance_id, reason="enough") for _ in range(2)] == ["CANCELLED"] * 2
    assert (await service.get_run(run.instance_id))["note"] == "enough"
    await service.delete_workflow("waiting")


async def test_a_run_is_paused_and_resumed_twice_is_once(service: RemoteGateway) -> None:
    await service.save_workflow(WAITING)
    run = await service.start_run("waiting", {})

    assert [await service.pause_run(run.instance_id) for _ in range(2)] == ["SUSPENDED"] * 2
    shown = await service.get_run(run.instance_id)
    assert (shown["suspendedFor"], shown["suspended"]["reason"]) == ("PAUSED", "PAUSED")
    paused = RunFilter(statuses=[Status.SUSPENDED], reasons=[SuspendReason.PAUSED])
    assert [each["instanceID"] for each in (await service.list_runs(paused, limit=9))["items"]] == [run.instance_id]

    assert await service.resume_run(run.instance_id, children=False) != "SUSPENDED"
    assert await service.resume_run(run.instance_id) != "SUSPENDED"
    assert (await service.get_run(run.instance_id))["suspended"] is None
    await service.cancel_run(run.instance_id, reason="enough")
    with pytest.raises(RunIsTerminal):
        await service.pause_run(run.instance_id)


async def test_a_start_may_be_put_off_and_bounded(service: RemoteGateway) -> None:
    await service.save_workflow(GREETING)
    started = await service.start_run(
        "greeting",
        {},
        StartOptions(version=1, retention_days=3, available_at=4_070_908_800_000, deadline_at=4_070_908_801_500),
    )

    run = await service.get_run(started.instance_id)

    assert (run["status"], run["retentionDays"]) == ("PENDING", 3)
    assert (run["availableAt"], run["deadlineAt"]) == (
        "2099-01-01T00:00:00.000+00:00", "2099-01-01T00:00:01.500+00:00"
    )  # fmt: skip


async def test_a_role_that_is_too_low_is_told(server: Server, service: RemoteGateway) -> None:
    await service.save_workflow(GREETING)
    async with RemoteGateway(server.url, server.keys["viewer"]) as viewer:
        assert (await viewer.get_workflow("greeting"))["name"] == "greeting"
        with pytest.raises(NotPermitted):
            await viewer.start_run("greeting", {})


async def test_a_page_is_asked_for_as_it_may_be(service: RemoteGateway) -> None:
    with pytest.raises(InvalidRequest):
        await service.list_runs(RunFilter(), limit=1_000)
