"""Schedules, topics and webhooks of a process. Called by `composition` for processes with APIs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from anabranch.app.resources import CLOSING_S, Components
from anabranch.app_services import RunServices
from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.clock import SystemClock
from anabranch.engine.store.sql.store import SqlStore
from anabranch.grace import Grace
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.audit import audit_table, counted_entries
    from anabranch.drafts import draft_table
    from anabranch.triggers import trigger_table
    from anabranch.triggers.schedules import schedule_service, schedule_table, scheduler
    from anabranch.triggers.topics import publisher, topic_service, topic_tables
    from anabranch.triggers.webhooks import callback_service, test_hook_service, webhook_service
else:
    audit_table = deferred("anabranch.audit.audit_table")
    counted_entries = deferred("anabranch.audit.counted_entries")
    schedule_service = deferred("anabranch.triggers.schedules.schedule_service")
    schedule_table = deferred("anabranch.triggers.schedules.schedule_table")
    scheduler = deferred("anabranch.triggers.schedules.scheduler")
    publisher = deferred("anabranch.triggers.topics.publisher")
    topic_service = deferred("anabranch.triggers.topics.topic_service")
    topic_tables = deferred("anabranch.triggers.topics.topic_tables")
    draft_table = deferred("anabranch.drafts.draft_table")
    callback_service = deferred("anabranch.triggers.webhooks.callback_service")
    test_hook_service = deferred("anabranch.triggers.webhooks.test_hook_service")
    webhook_service = deferred("anabranch.triggers.webhooks.webhook_service")
    trigger_table = deferred("anabranch.triggers.trigger_table")


@dataclass(frozen=True, slots=True, eq=False)
class HookServices:
    """The services that receive requests from outside."""

    webhooks: webhook_service.WebhookService
    callbacks: callback_service.CallbackService
    tests: test_hook_service.TestHookService


@asynccontextmanager
async def open_triggers(
    settings: Settings, store: SqlStore, runs: RunServices, *, works: bool
) -> AsyncIterator[tuple[schedule_service.ScheduleService, topic_service.TopicService]]:
    """Schedules and topics; with `works` what is due and unfinished is started here, until the end."""
    workflows, leadership = runs.workflows, runs.engine.leadership
    schedules, topics = schedule_table.ScheduleTable(store), topic_tables.TopicTable(store)
    starting = scheduler.Scheduler(
        saved=schedules, starter=workflows, clock=SystemClock(), store_now=store.now, covers=leadership.covers
    )
    publishing = publisher.Publisher(
        saved=topics,
        starter=workflows,
        clock=SystemClock(),
        store_now=store.now,
        unfinished_max=settings.unfinished_max,
        unfinished_per_tenant_max=settings.unfinished_per_tenant_max,
        covers=leadership.covers,
        base_url=settings.reached_at,
    )
    try:
        if works:
            for poller in (starting, publishing):
                leadership.add(poller)
            await starting.start()
            await publishing.start()
        yield (
            schedule_service.ScheduleService(saved=schedules, workflows=workflows, store_now=store.now),
            topic_service.TopicService(saved=topics, workflows=workflows, publisher=publishing),
        )
    finally:
        await leadership.stop()  # before the scheduler: as long as this worker leads, no other starts what is due
        await starting.stop()
        await publishing.stop()


@asynccontextmanager
async def open_webhooks(
    settings: Settings, store: SqlStore, components: Components, runs: RunServices, grace: Grace
) -> AsyncIterator[HookServices]:
    """Open the services for webhooks and callbacks; at the end, refused requests are recorded."""
    limits = webhook_service.HookLimits(settings.webhook_rate, settings.webhook_body_limit)
    webhooks = webhook_service.WebhookService(
        hooks=trigger_table.TriggerTable(store),
        secrets=components.secrets,
        workflows=runs.workflows,
        waits=runs.waits,
        refusals=counted_entries.CountedEntries(audit_table.AuditTable(store)),
        limits=limits,
    )
    callbacks = callback_service.CallbackService(
        addresses=components.callbacks,
        workflows=runs.workflows,
        rows=store,
        clock=runs.engine.clock,
        body_bytes_max=settings.webhook_body_limit,
    )
    tests = test_hook_service.TestHookService(
        addresses=components.test_addresses,
        drafts=draft_table.DraftTable(store),
        workflows=runs.workflows,
        callbacks=callbacks,
        webhooks=webhooks,
    )
    try:
        yield HookServices(webhooks, callbacks, tests)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(grace.closing_s(CLOSING_S)):
                await webhooks.stop()
