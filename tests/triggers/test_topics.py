"""Messages start one run per subscription and key, whoever publishes and whatever crashes: the database counts."""

from __future__ import annotations

import asyncio
import signal
import uuid
from typing import Any

import pytest

from anabranch.errors import InvalidInput, InvalidRequest, LimitReached, NotFound, TooManyPending
from anabranch.triggers.topics.publisher import KEPT_MS
from anabranch.triggers.topics.saved_topics import Delivery, Message, Subscription
from anabranch.triggers.topics.topic_service import message_as_json, subscription_as_json
from tests.triggers.conftest import OpenOffice
from tests.triggers.services import MIDNIGHT, TENANT, HandTime, Office
from tests.triggers.test_scheduler import die_after_a_start

SUBSCRIBE = {"type": "workflow", "name": "report"}


async def subscribed(office: Office, *patterns: str, tenant_id: str = TENANT) -> list[str]:
    """The ids of new subscriptions of `report`."""
    made = [await office.topics.subscribe(pattern, SUBSCRIBE, tenant_id=tenant_id) for pattern in patterns]
    return [subscription.subscription_id for subscription, _ in made]


async def published(office: Office, topic: str, payload: Any = None, **options: Any) -> dict[str, Any]:
    """The answer to who publishes."""
    return message_as_json(await office.topics.publish(topic, payload, tenant_id=TENANT, **options))


async def test_a_message_starts_one_run_per_subscription_that_fits_with_the_payload_as_input(office: Office) -> None:
    await subscribed(office, "orders.*", "orders.created", "#", "users.#")

    answer = await published(office, "orders.created", {"id": 7})

    assert len(answer["runs"]) == 3 and answer["errors"] == [] and answer["unfinished"] == 0
    assert sorted(answer["runs"]) == sorted(run["instanceID"] for run in await office.runs())
    run = await office.workflows.get_run(answer["runs"][0], tenant_id=TENANT)
    assert (run["input"], run["name"]) == ({"id": 7}, "report")


async def test_a_message_that_nobody_awaits_starts_nothing(office: Office) -> None:
    assert (await published(office, "orders.created"))["runs"] == []


async def test_the_same_key_gives_the_same_runs_whatever_the_payload(office: Office) -> None:
    await subscribed(office, "orders.*")
    first = await published(office, "orders.created", 1, key="k")
    await subscribed(office, "#")
    again = await published(office, "orders.created", 2, key="k")
    without = [await published(office, "orders.created", 1) for _ in range(2)]

    assert again == first
    assert without[0]["runs"] != without[1]["runs"], "a message without key is a new one each time"
    assert len(await office.runs()) == 1 + 2 * 2


async def test_a_key_names_one_event_for_a_subscription_on_whatever_topics_it_appears(office: Office) -> None:
    await subscribed(office, "orders.*")
    first = await published(office, "orders.created", key="k")
    second = await published(office, "orders.changed", key="k")
    assert first["runs"] == second["runs"] and first["messageID"] != second["messageID"]


async def test_publishers_that_race_with_one_key_start_one_run_each(open_office: OpenOffice) -> None:
    offices = [await open_office() for _ in range(2)]
    await offices[0].draw("report")
    await subscribed(offices[0], *(f"orders.{'*.' * number}#" for number in range(4)), "orders.*")

    answers = await asyncio.gather(*(published(office, "orders.new", key="k") for office in offices for _ in range(5)))

    assert len({answer["messageID"] for answer in answers}) == 1
    assert len({tuple(answer["runs"]) for answer in answers}) == 1
    assert len(await offices[0].runs()) == len(answers[0]["runs"]) == 3


async def test_a_kill_halfway_is_finished_by_another_process_or_by_a_repeat(office: Office, database_url: str) -> None:
    await subscribed(office, "orders.*", "#", "orders.created")

    killed = die_after_a_start(database_url, MIDNIGHT)
    halfway = len(await office.runs())
    taken = await office.saved_topics.take_unfinished(limit=10, own_ms=0)
    answer = await published(office, "orders.created", "something else", key="k")

    assert killed == -signal.SIGKILL
    assert taken == [], "who published is given its time"
    assert 1 <= halfway <= 3
    assert len(answer["runs"]) == 3
    assert {run["instanceID"] for run in await office.runs()} == set(answer["runs"])
    run = await office.workflows.get_run(answer["runs"][0], tenant_id=TENANT)
    assert run["input"] == {"id": 1}, "the message is the one that was kept"


async def test_what_could_not_start_is_started_once_there_is_room(open_office: OpenOffice) -> None:
    office = await open_office(pending_max=1, own_ms=0)
    await office.draw("report")
    await subscribed(office, "orders.*", "#")
    hindered = await published(office, "orders.created", key="k")

    heir = await open_office()
    taken = await heir.publisher.finish_once()

    assert (len(hindered["runs"]), hindered["unfinished"], taken) == (1, 1, 1)
    assert len(await office.runs()) == 2
    assert await heir.publisher.finish_once() == 0
    assert (await published(office, "orders.created", key="k"))["unfinished"] == 0


async def test_a_workflow_that_is_gone_or_refuses_the_payload_hinders_nobody(office: Office) -> None:
    await office.draw("strict", inputSchema={"type": "object"})
    await office.draw("fleeting")
    for name in ("strict", "fleeting", "report"):
        await office.topics.subscribe("orders.*", {"type": "workflow", "name": name}, tenant_id=TENANT)
    await office.workflows.delete_workflow("fleeting", tenant_id=TENANT)

    answer = await published(office, "orders.created", "no object")

    assert {(error["name"], error["code"]) for error in answer["errors"]} == {
        ("strict", "INVALID_INPUT"),
        ("fleeting", "NOT_FOUND"),
    }
    assert len(answer["runs"]) == 1 and answer["unfinished"] == 0


async def test_messages_are_kept_for_a_day_and_their_runs_longer(office: Office, time: HandTime) -> None:
    await subscribed(office, "orders.*")
    first = await published(office, "orders.created", key="k")
    now = await office.store.now()
    time.now = now + KEPT_MS - 60_000
    assert await office.publisher.remove_old() == 0
    time.now = now + KEPT_MS + 60_000
    assert await office.publisher.remove_old() == 1

    again = await published(office, "orders.created", key="k")
    assert again["runs"] == first["runs"], "the key of the run outlives the message"


async def test_tenants_do_not_hear_each_other(office: Office) -> None:
    await office.draw("report", tenant_id="other")
    theirs = (await subscribed(office, "#", tenant_id="other"))[0]
    assert (await published(office, "orders.created"))["runs"] == []
    assert await office.topics.list_subscriptions(tenant_id=TENANT) == []
    with pytest.raises(NotFound):
        await office.topics.unsubscribe(theirs, tenant_id=TENANT)


async def test_subscribing_twice_gives_the_same_subscription(office: Office) -> None:
    first = await office.topics.subscribe("orders.*", SUBSCRIBE, tenant_id=TENANT)
    again = await office.topics.subscribe("orders.*", SUBSCRIBE, tenant_id=TENANT)
    assert again == (first[0], False) and first[1]
    shown = [subscription_as_json(each) for each in await office.topics.list_subscriptions(tenant_id=TENANT)]
    assert [(each["pattern"], each["type"], each["name"]) for each in shown] == [("orders.*", "workflow", "report")]


async def test_who_unsubscribes_is_not_started_any_more(office: Office) -> None:
    (subscription_id,) = await subscribed(office, "orders.*")
    await office.topics.unsubscribe(subscription_id, tenant_id=TENANT)
    assert (await published(office, "orders.created"))["runs"] == []
    for absent in (subscription_id, "nonsense", "\x00"):
        with pytest.raises(NotFound):
            await office.topics.unsubscribe(absent, tenant_id=TENANT)


@pytest.mark.parametrize(
    ("pattern", "document", "place"),
    [
        ("orders..x", SUBSCRIBE, None),
        ("orders.*", {"type": "webhook", "name": "report"}, "/type"),
        ("orders.*", {"type": "workflow", "name": "nothing"}, "/name"),
        ("orders.*", {"type": "workflow"}, "/name"),
        ("orders.*", {**SUBSCRIBE, "url": "x"}, "/url"),
        ("orders.*", [], None),
    ],
)
async def test_a_subscription_that_makes_no_sense_is_refused(
    office: Office, pattern: str, document: Any, place: str | None
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await office.topics.subscribe(pattern, document, tenant_id=TENANT)
    assert [each["pointer"] for each in refusal.value.details or []] == ([] if place is None else [place])


async def test_a_message_that_makes_no_sense_is_refused(office: Office) -> None:
    for topic in ("orders.*", "", "a b"):
        with pytest.raises(InvalidRequest):
            await published(office, topic)
    with pytest.raises(InvalidRequest):
        await published(office, "orders", key="")
    with pytest.raises(InvalidInput):
        await published(office, "orders", float("inf"))


async def test_limits_are_answered(office: Office) -> None:
    await subscribed(office, "a.*")
    second = Subscription(str(uuid.uuid4()), TENANT, "b", "b", "report")
    with pytest.raises(LimitReached):
        await office.saved_topics.add_subscription(second, count_max=1)
    message = Message(str(uuid.uuid4()), TENANT, "a", "k", None)
    with pytest.raises(TooManyPending):
        await office.saved_topics.add_message(message, own_ms=1, unfinished_max=0, unfinished_per_tenant_max=0)


async def test_a_tenant_at_its_own_limit_of_unfinished_messages_leaves_the_rest_to_others(office: Office) -> None:
    async def publish(tenant_id: str) -> None:
        owed = [Delivery(str(uuid.uuid4()), "report")]
        message = Message(str(uuid.uuid4()), tenant_id, "a", str(uuid.uuid4()), None, owed)
        await office.saved_topics.add_message(message, own_ms=1, unfinished_max=3, unfinished_per_tenant_max=2)

    await publish(TENANT)
    await publish(TENANT)
    with pytest.raises(TooManyPending, match=f"2 messages of tenant '{TENANT}'"):
        await publish(TENANT)
    await publish("another")
    with pytest.raises(TooManyPending, match="3 messages wait"):
        await publish("another")
