"""Routes of what starts runs by itself: schedules, and messages on topics."""

from __future__ import annotations

from anabranch.errors import InvalidInput, LimitReached, NameTaken, NotFound, ShuttingDown, TooManyPending
from anabranch.request_checks import KEY_CHARACTERS_MAX
from anabranch.rest.bodies import checked
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import Page
from anabranch.rest.models.runs import StartedRun
from anabranch.rest.models.triggers import (
    Backfill,
    BackfilledRuns,
    PublishedMessage,
    ScheduleForm,
    ScheduleList,
    ScheduleSummary,
    SubscriptionForm,
    SubscriptionList,
    SubscriptionSummary,
    Trigger,
)
from anabranch.rest.routes.route import AnyJson, Call, Checked, Header, Reply, Route
from anabranch.service import backfill_as_json, message_as_json, schedule_as_json, subscription_as_json
from anabranch.service.access import Role

_MESSAGE_KEY = Header(
    "Idempotency-Key", "A repeated key starts nothing anew, and is answered as the first was.", KEY_CHARACTERS_MAX
)
_TRIGGER_KEY = Header("Idempotency-Key", "A repeated key gives the first run.", KEY_CHARACTERS_MAX)


# -- schedules ----------------------------------------------------------------------------
async def list_schedules(call: Call) -> Reply:
    """By name, with what is due next and how the last start went."""
    found = await call.services.schedules.list_schedules(tenant_id=call.tenant_id)
    return Reply(page_by_name([schedule_as_json(each) for each in found], call.query, "schedules"))


async def create_schedule(call: Call) -> Reply:
    """Cron with a time zone, or an interval; its first occurrence is later than now."""
    made = await call.services.schedules.create_schedule(call.body, tenant_id=call.tenant_id, actor=call.actor)
    return Reply(schedule_as_json(made), 201, {"Location": f"/v1/schedules/{made.schedule_id}"})


async def get_schedule(call: Call) -> Reply:
    """`{schedule}` is an id or a name."""
    found = await call.services.schedules.get_schedule(call.path["schedule"], tenant_id=call.tenant_id)
    return Reply(schedule_as_json(found))


async def update_schedule(call: Call) -> Reply:
    """Replaced as a whole; what the document leaves out takes its default."""
    saved = await call.services.schedules.update_schedule(
        call.path["schedule"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(schedule_as_json(saved))


async def delete_schedule(call: Call) -> Reply:
    """Runs that it has started go on."""
    await call.services.schedules.delete_schedule(call.path["schedule"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


async def trigger_schedule(call: Call) -> Reply:
    """Beside its occurrences, which stay as they are; also while it is disabled. 200 where the key was used before."""
    call.services.readiness.refuse_if_stopping()
    started = await call.services.schedules.trigger_now(
        call.path["schedule"], tenant_id=call.tenant_id, idempotency_key=call.headers.get("Idempotency-Key")
    )
    return Reply(
        {"instanceID": started.instance_id, "status": started.status.value},
        201 if started.created else 200,
        {"Location": f"/v1/runs/{started.instance_id}"},
    )


async def backfill_schedule(call: Call) -> Reply:
    """Each occurrence has one run: those that have theirs keep it, so that the call may be repeated."""
    call.services.readiness.refuse_if_stopping()
    schedule = await call.services.schedules.get_schedule(call.path["schedule"], tenant_id=call.tenant_id)
    asked = checked(call.body, Backfill)
    started = await call.services.schedules.backfill(
        schedule.schedule_id, tenant_id=call.tenant_id, since=asked.since, until=asked.until
    )
    return Reply(backfill_as_json(started))


# -- topics -------------------------------------------------------------------------------
async def list_subscriptions(call: Call) -> Reply:
    """Those with this very pattern."""
    found = await call.services.topics.list_subscriptions(tenant_id=call.tenant_id, pattern=call.path["pattern"])
    items = [subscription_as_json(each) for each in found]
    return Reply(page_by_name(items, call.query, "subscriptions", "subscriptionID"))


async def subscribe(call: Call) -> Reply:
    """201; 200 where the workflow was subscribed already."""
    made, is_new = await call.services.topics.subscribe(
        call.path["pattern"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(subscription_as_json(made), 201 if is_new else 200)


async def unsubscribe(call: Call) -> Reply:
    """No message that is published from now on starts it."""
    await call.services.topics.unsubscribe(call.path["subscription"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


async def publish(call: Call) -> Reply:
    """The message and the runs that it names are durable; the body is the input of each."""
    call.services.readiness.refuse_if_stopping()
    message = await call.services.topics.publish(
        call.path["topic"], call.body, tenant_id=call.tenant_id, key=call.headers.get("Idempotency-Key")
    )
    return Reply(message_as_json(message), 202)


ROUTES = (
    Route(
        "GET",
        "/v1/schedules",
        list_schedules,
        "List the schedules, by name.",
        Role.VIEWER,
        {200: ScheduleList},
        query=Page,
        tag="triggers",
    ),
    Route(
        "POST",
        "/v1/schedules",
        create_schedule,
        "Save a schedule.",
        Role.EDITOR,
        {201: ScheduleSummary},
        body=Checked(ScheduleForm),
        errors=(NameTaken, LimitReached),
        tag="triggers",
    ),
    Route(
        "GET",
        "/v1/schedules/{schedule}",
        get_schedule,
        "Read a schedule.",
        Role.VIEWER,
        {200: ScheduleSummary},
        errors=(NotFound,),
        tag="triggers",
    ),
    Route(
        "PUT",
        "/v1/schedules/{schedule}",
        update_schedule,
        "Replace a schedule.",
        Role.EDITOR,
        {200: ScheduleSummary},
        body=Checked(ScheduleForm),
        errors=(NotFound, NameTaken),
        tag="triggers",
    ),
    Route(
        "DELETE",
        "/v1/schedules/{schedule}",
        delete_schedule,
        "Delete a schedule.",
        Role.EDITOR,
        {204: None},
        errors=(NotFound,),
        tag="triggers",
    ),
    Route(
        "POST",
        "/v1/schedules/{schedule}/trigger",
        trigger_schedule,
        "Start a run of a schedule now.",
        Role.OPERATOR,
        {201: StartedRun, 200: StartedRun},
        body=Trigger,
        body_required=False,
        headers=(_TRIGGER_KEY,),
        errors=(NotFound, InvalidInput, TooManyPending, ShuttingDown),
        tag="triggers",
    ),
    Route(
        "POST",
        "/v1/schedules/{schedule}/backfill",
        backfill_schedule,
        "Start the runs of occurrences that have passed and have none.",
        Role.OPERATOR,
        {200: BackfilledRuns},
        body=Checked(Backfill),
        errors=(NotFound, InvalidInput, TooManyPending, ShuttingDown),
        tag="triggers",
    ),
    Route(
        "GET",
        "/v1/topics/{pattern}/subscriptions",
        list_subscriptions,
        "List the subscriptions to a pattern of topics.",
        Role.VIEWER,
        {200: SubscriptionList},
        query=Page,
        tag="triggers",
    ),
    Route(
        "POST",
        "/v1/topics/{pattern}/subscriptions",
        subscribe,
        "Have messages on these topics start a workflow.",
        Role.EDITOR,
        {201: SubscriptionSummary, 200: SubscriptionSummary},
        body=Checked(SubscriptionForm),
        errors=(LimitReached,),
        tag="triggers",
    ),
    Route(
        "DELETE",
        "/v1/topics/{pattern}/subscriptions/{subscription}",
        unsubscribe,
        "End a subscription.",
        Role.EDITOR,
        {204: None},
        errors=(NotFound,),
        tag="triggers",
    ),
    Route(
        "POST",
        "/v1/topics/{topic}/messages",
        publish,
        "Publish a message; it starts one run per subscription that fits.",
        Role.OPERATOR,
        {202: PublishedMessage},
        body=AnyJson(),
        body_required=False,
        headers=(_MESSAGE_KEY,),
        errors=(InvalidInput, TooManyPending, ShuttingDown),
        tag="triggers",
    ),
)
