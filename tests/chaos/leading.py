"""Workers on one PostgreSQL, of which the one that leads is killed, frozen or stopped again and again: every occurrence
of a schedule and every message that its publisher left behind has exactly one run.

Called by the campaigns (`--store leading`). `python -m tests.chaos.leading DATABASE_URL` is one worker.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import psycopg

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.migrations import upgrade
from anabranch.settings import Settings
from anabranch.triggers.schedules.schedule_table import ScheduleTable
from anabranch.triggers.schedules.scheduler import occurrence_key
from anabranch.triggers.topics.publisher import delivery_key
from anabranch.triggers.topics.saved_topics import Delivery, Message, Subscription
from anabranch.triggers.topics.topic_tables import TopicTable
from tests.chaos import nodes
from tests.chaos.campaign import LEASE_MS, TENANT, ChaosProcess, Plan, Report
from tests.chaos.ledger import Ledger
from tests.chaos.scenes import postgresql_server
from tests.chaos.shapes import drawn, end, ledger
from tests.chaos.verdict import violations_of, what_is_stored_is_wrong

NAME = "chaos-due"
DUE = drawn(NAME, [ledger("told"), end()], [("start", "told"), ("told", "end")])

# As many a second as a small installation has in a minute.
SCHEDULES = 8

# A message is left alone for so long; its publisher is dead by then.
OWN_MS = 500

# 8 s: more than the 5 s of silence after which another one leads.
FROZEN_S = 8.0

# What a process says of a run's creation is by its own clock, which follows the database's this closely.
CLOCKS_APART_MS = 500

ENDINGS = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)


@dataclass
class Due:
    """What has to be started, and by which keys it is known."""

    url: str
    store: SqlStore
    services: AppServices
    anchors: dict[str, int] = field(default_factory=dict)
    """Schedules, and when they were saved."""
    messages: list[str] = field(default_factory=list)
    """The keys of the runs of messages."""
    has_enough: bool = False

    async def save(self) -> Subscription:
        """Save the schedules and a subscription."""
        await self.services.workflows.save_workflow(DUE, tenant_id=TENANT)
        for number in range(SCHEDULES):
            document = {"name": f"s{number}", "workflow": NAME, "every": "1s", "input": {"n": number}, "missed": "all"}
            saved = await self.services.schedules.create_schedule(document, tenant_id=TENANT)
            self.anchors[saved.schedule_id] = saved.anchor_at
        document = {"type": "workflow", "name": NAME}
        return (await self.services.topics.subscribe("chaos.#", document, tenant_id=TENANT))[0]

    async def leave_messages(self, subscription: Subscription, dice: random.Random) -> None:
        """Store messages whose publisher dies before their runs start."""
        topics = TopicTable(self.store)
        while not self.has_enough:
            key, number = uuid.uuid4().hex, SCHEDULES + len(self.messages)
            delivery = Delivery(subscription.subscription_id, NAME)
            message = Message(str(uuid.uuid4()), TENANT, "chaos.left", key, {"n": number}, (delivery,))
            await topics.add_message(message, own_ms=OWN_MS, unfinished_max=10_000, unfinished_per_tenant_max=10_000)
            self.messages.append(delivery_key(subscription.subscription_id, key))
            await asyncio.sleep(dice.uniform(0.0, 0.6))

    async def all_started(self, patience_s: float) -> int | None:
        """The time up to which every schedule has started what was due, once all messages are finished, too; None: not
        in time."""
        until, give_up_at = await self.store.now(), time.monotonic() + patience_s
        saved = ScheduleTable(self.store)
        while time.monotonic() < give_up_at:
            late = await saved.due_schedules(now=until, limit=SCHEDULES, after=None)
            rows = await self._rows("SELECT count(*) FROM topic_messages WHERE due_at IS NOT NULL")
            if not late and rows == [(0,)]:
                return until
            await asyncio.sleep(0.2)
        return None

    async def keys(self) -> list[tuple[str, str, int]]:
        """Key, id and time of creation of each run."""
        query = "SELECT idempotency_key, instance_id::text, created_at FROM workflow_instances WHERE workflow_name = %s"
        return await self._rows(query, NAME)

    async def leader(self) -> str | None:
        """The worker that leads now."""
        rows = await self._rows(
            "SELECT worker_id FROM leaders WHERE until > extract(epoch FROM clock_timestamp()) * 1000"
        )
        return rows[0][0] if rows else None

    async def _rows(self, query: str, *arguments: Any) -> list[Any]:
        def read() -> list[Any]:
            with psycopg.connect(self.url) as connection:
                return connection.execute(query.encode(), arguments).fetchall()

        return await asyncio.to_thread(read)


async def with_leaders(plan: Plan) -> Report:
    """Kills the leader as often as the plan says."""
    report, dice, began = Report(), random.Random(plan.seed), time.monotonic()
    async with postgresql_server() as server:
        url = server.get_uri()
        await asyncio.to_thread(upgrade, url)
        store = open_store(url)
        await store.start()
        with Ledger() as kept:
            async with build(Settings.load(environ={}, database_url=url)).open_services(works=False) as services:
                due = Due(url, store, services)
                command = ["-m", "tests.chaos.leading", url], {nodes.LEDGER_PORT: str(kept.port)}
                workers = [ChaosProcess(*command) for _ in range(plan.workers)]
                await asyncio.gather(*(each.started() for each in workers))
                publishing = asyncio.create_task(due.leave_messages(await due.save(), dice))
                try:
                    await _end_leaders(due, workers, plan, report, dice)
                    due.has_enough = True
                    await publishing
                    await _judge(due, kept, report, plan)
                finally:
                    publishing.cancel()
                    await asyncio.gather(*(each.end() for each in workers))
        await store.stop()
        report.violations += await asyncio.to_thread(what_is_stored_is_wrong, url)
    report.seconds = time.monotonic() - began
    return report


async def _end_leaders(due: Due, workers: list[ChaosProcess], plan: Plan, report: Report, dice: random.Random) -> None:
    """Whoever leads is killed, frozen past its lease or stopped."""
    led_at = time.monotonic()
    while report.kills < plan.kills or report.pauses < plan.pauses:
        await asyncio.sleep(dice.uniform(0.5, 2.0))
        name = await due.leader()
        leading = next((each for each in workers if each.said == name), None)
        if leading is None:
            if time.monotonic() - led_at > plan.peace_s:
                report.violations.append(f"none of these workers has led for {plan.peace_s:g} s")
                return
            continue
        ending = dice.choice(ENDINGS)
        if ending is signal.SIGSTOP:
            async with leading.paused():
                await asyncio.sleep(FROZEN_S)
            report.pauses += 1
        else:
            await leading.restart(ending)
            report.kills += ending is signal.SIGKILL
        led_at = time.monotonic()


async def _judge(due: Due, kept: Ledger, report: Report, plan: Plan) -> None:
    """Every occurrence and every message has one run, and each of them has come to what it should."""
    until = await due.all_started(plan.peace_s)
    if until is None:
        report.violations.append("not everything that was due was started")
        until = await due.store.now()
    for schedule_id in due.anchors:
        await due.services.schedules.delete_schedule(schedule_id, tenant_id=TENANT)
    rows = await due.keys()
    found = [key for key, _, _ in rows]
    wanted = {
        occurrence_key(schedule_id, at)
        for schedule_id, anchor in due.anchors.items()
        for at in range(anchor + 1_000, until + 1, 1_000)
    }
    report.violations += [f"nothing was started for {key}" for key in sorted((wanted | set(due.messages)) - set(found))]
    report.violations += [f"{key} has {found.count(key)} runs" for key in set(found) if found.count(key) > 1]
    later = set(found) - wanted - set(due.messages)
    report.violations += [f"{key} was not due" for key in later if due_at_of(key) <= until]
    late_ms = [created_at - due_at_of(key) for key, _, created_at in rows if key in wanted]
    if min(late_ms) < -CLOCKS_APART_MS:
        report.violations.append(f"an occurrence was started {-min(late_ms)} ms early")
    report.recoveries_s["the latest occurrence after it was due"] = max(late_ms) / 1000
    numbers = {}
    for _, run_id, _ in rows:
        numbers[run_id] = (await due.services.workflows.get_run(run_id, tenant_id=TENANT))["input"]["n"]
        give_up_at = time.monotonic() + plan.peace_s
        while not (await due.store.get_instance(run_id)).status.is_terminal:  # type: ignore[union-attr]
            if time.monotonic() > give_up_at:
                break
            await asyncio.sleep(0.1)
    loaded = await due.store.load(list(numbers))
    report.violations += violations_of(numbers, set(), loaded, kept.entries)
    report.instances, report.effects = len(rows), len(kept.entries)
    report.repeated_effects = report.effects - len({(entry["key"], entry["attempt"]) for entry in kept.entries})


def due_at_of(key: str) -> int:
    """When an occurrence was due, by its key."""
    return from_iso(key.split(":", 2)[2])


async def work(url: str) -> None:
    """One worker, until SIGTERM; it prints its id."""
    assert nodes.LedgerNode is not None, "importing it has declared the node type"
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settings = Settings.load(environ={}, database_url=url, lease=f"{LEASE_MS}ms", crash_limit="1000")
    async with build(settings).open_services(works=True) as services:
        sys.stdout.write(f"{services.engine.worker_id}\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    os.environ.setdefault("ANABRANCH_LOG_LEVEL", "error")
    asyncio.run(work(sys.argv[1]))
