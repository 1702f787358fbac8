"""Publishing a version arms its triggers and disarms those of the version before, in one transaction."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import pytest

from anabranch.engine.rules.instants import to_iso
from anabranch.errors import ArmedByNode, HookPathTaken, InvalidRequest
from anabranch.service.definitions.definition_verbs import UpdateOptions
from anabranch.triggers.schedules.saved_schedules import Schedule
from anabranch.triggers.topics.saved_topics import Subscription
from anabranch.triggers.trigger_table import TriggerTable
from tests.triggers.services import HOUR, TENANT, HandTime, Office

_DIES_BEFORE_THE_COMMIT = """
import asyncio, json, os, signal, sys
from anabranch.engine.ports import NewVersion
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql import definitions

async def publish(url, workflow_id, document):
    store = open_store(url)
    await store.start()
    definitions._record = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
    wanted = NewVersion(name="listener", title=None, definition=json.loads(document), workflow_id=workflow_id)
    await store.save_workflow(wanted, tenant_id="acme")

asyncio.run(publish(*sys.argv[1:]))
"""


def triggered(name: str = "listener", *, start: bool = False, **triggers: dict[str, Any]) -> dict[str, Any]:
    """A workflow of these triggers."""
    nodes = [{"id": "start", "type": "start"}] if start else []
    return {"name": name, "nodes": [*nodes, *({"id": key, **each} for key, each in triggers.items())], "edges": []}


def every(interval: str, **config: Any) -> dict[str, Any]:
    return {"type": "schedule", "config": {"every": interval, **config}}


def on(pattern: str) -> dict[str, Any]:
    return {"type": "topic", "config": {"topic": pattern}}


def hook(path: str) -> dict[str, Any]:
    return {"type": "webhook", "config": {"path": path}}


async def publish(office: Office, document: dict[str, Any], **options: Any) -> int:
    """Save a workflow's next version; its number."""
    saved, _ = await office.workflows.save_workflow({**document, **options}, tenant_id=TENANT)
    return saved.version


async def schedules(office: Office) -> list[Schedule]:
    return list(await office.schedules.list_schedules(tenant_id=TENANT))


async def subscriptions(office: Office) -> list[Subscription]:
    return list(await office.topics.list_subscriptions(tenant_id=TENANT))


async def armed(office: Office) -> set[tuple[str | None, int | None]]:
    """Node and version of all schedules and subscriptions that nodes have armed."""
    found: list[Schedule | Subscription] = [*(await schedules(office)), *(await subscriptions(office))]
    return {(each.node_id, each.version) for each in found if each.node_id is not None}


async def test_a_published_version_arms_its_triggers_and_the_next_one_disarms_them(office: Office) -> None:
    await publish(office, triggered(tick=every("1h"), orders=on("orders.*")))
    assert await armed(office) == {("tick", 1), ("orders", 1)}
    await publish(office, triggered(tick=every("1h"), users=on("users.#")))
    assert await armed(office) == {("tick", 2), ("users", 2)}
    await publish(office, triggered(tick={**every("1h"), "disabled": True}, start=True))
    assert await armed(office) == set()


async def test_what_is_saved_without_being_activated_is_not_armed_until_it_is(office: Office) -> None:
    await publish(office, triggered(tick=every("1h")))
    await publish(office, triggered(orders=on("orders.*")), activate=False)
    assert await armed(office) == {("tick", 1)}
    await office.workflows.activate_version("listener", 2, tenant_id=TENANT)
    assert await armed(office) == {("orders", 2)}
    await office.workflows.activate_version("listener", 1, tenant_id=TENANT)
    assert await armed(office) == {("tick", 1)}


async def test_a_renamed_workflow_shows_its_new_name_with_what_an_older_version_armed(office: Office) -> None:
    await publish(office, triggered(tick=every("1h")))
    renamed = {**triggered("renamed", orders=on("orders.*")), "activate": False}
    await office.workflows.update_workflow("listener", renamed, UpdateOptions(replace=True), tenant_id=TENANT)
    assert [(each.name, each.version) for each in await schedules(office)] == [("renamed/tick", 1)]


async def test_a_deleted_workflow_has_nothing_armed(office: Office) -> None:
    await publish(office, triggered(tick=every("1h"), orders=on("orders.*")))
    await office.workflows.delete_workflow("listener", tenant_id=TENANT)
    assert await armed(office) == set()


async def test_a_schedule_keeps_its_id_and_its_rhythm_over_versions_and_not_with_another_timing(office: Office) -> None:
    await publish(office, triggered(tick=every("1h")))
    [first] = await schedules(office)
    await publish(office, triggered(tick=every("1h", missed="skip"), orders=on("a")))
    [second] = await schedules(office)
    assert (second.schedule_id, second.next_at, second.anchor_at) == (
        first.schedule_id,
        first.next_at,
        first.anchor_at,
    )
    assert (second.missed, second.version) == ("skip", 2)
    await publish(office, triggered(tick=every("2h")))
    [third] = await schedules(office)
    assert third.schedule_id == first.schedule_id
    assert third.next_at is not None and first.next_at is not None and third.next_at >= first.next_at + HOUR


async def test_an_armed_schedule_starts_runs_of_its_version_at_its_node(office: Office, time: HandTime) -> None:
    await publish(office, triggered(tick=every("1h"), other=every("24h", input={"n": 1}), start=True))
    [other, tick] = sorted(await schedules(office), key=lambda each: each.name)
    assert tick.next_at is not None
    time.now = tick.next_at
    await office.look()
    await office.look()
    [run] = await office.runs(workflow="listener")
    shown = await office.workflows.get_run(run["instanceID"], tenant_id=TENANT)
    assert shown["input"] == {"scheduledAt": to_iso(tick.next_at)}
    assert shown["startedBy"] == {
        "kind": "schedule",
        "scheduleID": tick.schedule_id,
        "occurrenceAt": to_iso(tick.next_at),
        "nodeID": "tick",
    }
    log = await office.store.read_log(run["instanceID"], limit=10)
    assert log[0].payload.value["trigger"] == "tick"
    by_hand = await office.schedules.trigger_now(other.schedule_id, tenant_id=TENANT)
    assert (await office.workflows.get_run(by_hand.instance_id, tenant_id=TENANT))["input"] == {"n": 1}


async def test_a_version_published_while_an_occurrence_is_due_takes_it_and_none_is_started_twice(
    office: Office, time: HandTime
) -> None:
    await publish(office, triggered(tick=every("1h")))
    [before] = await schedules(office)
    assert before.next_at is not None
    time.now = before.next_at
    await publish(office, triggered(tick=every("1h"), orders=on("a")))
    assert not await office.saved_schedules.advance(before, before), "armed by another version by now"
    await office.look()
    assert [run["version"] for run in await office.runs(workflow="listener")] == [2]


async def test_an_armed_topic_starts_runs_at_its_node(office: Office) -> None:
    await publish(office, triggered(orders=on("orders.*"), others=on("users.*")))
    message = await office.topics.publish("orders.created", {"id": 7}, tenant_id=TENANT)
    [run] = await office.runs(workflow="listener")
    shown = await office.workflows.get_run(run["instanceID"], tenant_id=TENANT)
    assert shown["input"] == {"id": 7}
    assert shown["startedBy"]["nodeID"] == "orders"
    assert (shown["startedBy"]["topic"], shown["startedBy"]["messageID"]) == ("orders.created", message.message_id)


async def test_what_a_node_has_armed_is_not_changed_from_the_side(office: Office) -> None:
    await publish(office, triggered(tick=every("1h"), orders=on("orders.*")))
    [schedule], [subscription] = await schedules(office), await subscriptions(office)
    with pytest.raises(ArmedByNode, match="by node 'tick' of workflow listener, version 1"):
        await office.schedules.delete_schedule(schedule.schedule_id, tenant_id=TENANT)
    with pytest.raises(ArmedByNode):
        document = {"name": "x", "workflow": "report", "every": "1h"}
        await office.schedules.update_schedule(schedule.schedule_id, document, tenant_id=TENANT)
    with pytest.raises(ArmedByNode, match="by node 'orders'"):
        await office.topics.unsubscribe(subscription.subscription_id, tenant_id=TENANT)
    assert await armed(office) == {("tick", 1), ("orders", 1)}


async def test_a_schedule_of_a_workflow_without_a_start_is_refused(office: Office) -> None:
    await publish(office, triggered(tick=every("1h")))
    with pytest.raises(InvalidRequest, match="no start node"):
        await office.schedule("by-hand", workflow="listener", every="1h")
    with pytest.raises(InvalidRequest, match="no start node"):
        await office.topics.subscribe("a.b", {"type": "workflow", "name": "listener"}, tenant_id=TENANT)


async def test_a_webhook_path_belongs_to_one_workflow_of_a_tenant(office: Office) -> None:
    await publish(office, triggered(one=hook("orders"), two=hook("users")))
    await publish(office, triggered(one=hook("users"), two=hook("orders")))  # they may exchange theirs
    table = TriggerTable(office.store)
    found = await table.find_hook("orders", tenant_id=TENANT)
    assert found is not None
    assert (found.node_id, found.workflow, found.version, found.config) == ("two", "listener", 2, {"path": "orders"})
    assert await table.find_hook("orders", tenant_id="other") is None
    with pytest.raises(HookPathTaken, match="'orders' belongs to workflow listener"):
        await publish(office, triggered("rival", h=hook("orders"), tick=every("1h")))
    assert {each.workflow for each in await schedules(office)} == set(), "nothing of a refused version is armed"
    await publish(office, triggered(one=hook("users")))
    await publish(office, triggered("rival", h=hook("orders")))
    rivals = [publish(office, triggered(f"rival-{number}", h=hook("new"))) for number in range(4)]
    answers = await asyncio.gather(*rivals, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["HookPathTaken"] * 3 + ["int"]


async def test_a_process_that_is_killed_while_it_publishes_leaves_the_old_version_armed(
    office: Office, database_url: str
) -> None:
    await publish(office, triggered(tick=every("1h"), orders=on("orders.*")))
    found = await office.workflows.get_workflow_by_id("listener", tenant_id=TENANT)
    document = '{"name": "listener", "nodes": [{"id": "w", "type": "topic", "config": {"topic": "w"}}], "edges": []}'
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _DIES_BEFORE_THE_COMMIT, database_url, found.workflow_id, document
    )
    assert await process.wait() == -signal.SIGKILL
    assert await armed(office) == {("tick", 1), ("orders", 1)}
    assert (await office.workflows.get_workflow_by_id("listener", tenant_id=TENANT)).version == 1
