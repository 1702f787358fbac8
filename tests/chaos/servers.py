"""Two servers with workers on one PostgreSQL, of which one after the other stands still, is killed and is stopped.
Meanwhile clients start runs and wait for them, call webhooks that answer at the end, and signal many runs at once.

Called by the campaigns (`--store servers`). A client that gets no answer asks the other server, with the same key.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from anabranch.app import build
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.keys.access import Role
from anabranch.migrations import upgrade
from anabranch.settings import Settings
from tests.chaos import nodes
from tests.chaos.campaign import LEASE_MS, TENANT, ChaosClient, ChaosProcess, Plan, Report
from tests.chaos.ledger import Ledger
from tests.chaos.scenes import postgresql_server
from tests.chaos.shapes import drawn, end, ledger
from tests.chaos.verdict import violations_of, what_is_stored_is_wrong
from tests.ports import lasting_port

# A client leaves a request after 5 s and asks the other server; runs last up to 3 s.
PATIENCE_S = 5.0
WAIT = "3s"

# Less than a lease; and more than the patience of clients and several leases.
FROZEN_S = LEASE_MS / 1000 * 0.5, 10.0

# Two seconds of a bulk run: it handles 50 runs a second.
BATCH = 100

# What a server may answer that cannot serve a request now; the client asks again.
NOT_NOW = frozenset({429, 503, 504})

SIGNALLED = drawn(
    "chaos-signalled",
    [{"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}, ledger("heard"), end()],
    [("start", "wait"), ("wait", "heard"), ("heard", "end")],
)

TIMED = drawn(
    "chaos-timed",
    [ledger("before"), {"id": "nap", "type": "delay", "config": {"duration": "1s"}}, ledger("after"), end()],
    [("start", "before"), ("before", "nap"), ("nap", "after"), ("after", "end")],
)

HOOKED: dict[str, Any] = {
    "name": "chaos-hooked",
    "nodes": [
        {
            "id": "hook",
            "type": "webhook",
            "config": {"path": "chaos", "respond": "atEnd", "idempotency": {"header": "x-request"}},
        },
        {**ledger("told"), "config": {"value": "{{ctx.input.json.n}}"}},
        {"id": "nap", "type": "delay", "config": {"duration": "500ms"}},
        {"id": "end", "type": "end", "config": {"outputParameters": {"n": "{{ctx.input.json.n}}"}}},
    ],
    "edges": [
        {"upstreamNodeID": before, "downstreamNodeID": after}
        for before, after in itertools.pairwise(["hook", "told", "nap", "end"])
    ],
}


class Refused(Exception):
    """A server has answered what no server should; the violation is noted."""


@dataclass
class Clients:
    """What clients ask of both servers, and what they see."""

    urls: list[str]
    key: str
    dice: random.Random
    seen: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    """Acknowledged runs, with the number that they were given."""
    requests: set[int] = field(default_factory=set)
    """The numbers that were sent to the webhook."""
    asking: dict[str, str] = field(default_factory=dict)
    """What has not been answered yet: path, and what was asked for."""
    has_enough: bool = False
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def work(self) -> None:
        """Until it is enough."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as self._session, asyncio.TaskGroup() as group:
            for activity in [self.start_and_wait] * 3 + [self.call_webhook] * 3 + [self.signal_many]:
                group.create_task(self._repeat(activity))

    async def _repeat(self, activity: Any) -> None:
        while not self.has_enough:
            with contextlib.suppress(Refused):
                await activity()
            await asyncio.sleep(self.dice.uniform(0.0, 0.3))

    async def start_and_wait(self) -> None:
        """Start a run under a key, and wait for its end by requests that are held open."""
        n = next(self.numbers)
        path, body = f"/v1/workflows/chaos-timed/runs?wait={WAIT}", {"input": {"n": n}, "idempotencyKey": f"start-{n}"}
        run = await self._answered("start", "POST", path, body)
        self._acknowledge(run["instanceID"], n)
        while run["status"] not in ("COMPLETED", "FAILED", "CANCELLED"):
            run = await self._answered("wait", "GET", f"/v1/runs/{run['instanceID']}?wait={WAIT}")
        if run["output"] != {"n": n}:
            self.violations.append(f"the run that was started with {n} answers {run}")

    async def call_webhook(self) -> None:
        """Have a webhook answered at the end of its run."""
        n = next(self.numbers)
        self.requests.add(n)
        answer = await self._answered("webhook", "POST", f"/hooks/{TENANT}/chaos", {"n": n}, {"x-request": str(n)})
        if answer != {"n": n}:
            self.violations.append(f"the webhook that was given {n} answers {answer}")

    async def signal_many(self) -> None:
        """Start runs that wait, and signal all of them at once."""
        batch = next(self.numbers)
        started = []
        for _ in range(BATCH):
            n = next(self.numbers)
            body = {"input": {"n": n, "batch": str(batch)}, "idempotencyKey": f"start-{n}"}
            run = await self._answered("start", "POST", "/v1/workflows/chaos-signalled/runs", body)
            self._acknowledge(run["instanceID"], n)
            started.append(run["instanceID"])
        chosen = {"workflow": "chaos-signalled", "input": {"batch": str(batch)}}
        asked = {"action": "signal", "filter": chosen, "options": {"event": "go", "payload": {}}}
        key = {"Idempotency-Key": f"bulk-{batch}"}
        bulk = await self._answered("bulk", "POST", "/v1/runs/bulk", asked, key)
        while bulk["status"] not in ("COMPLETED", "FAILED", "CANCELLED"):
            await asyncio.sleep(0.2)
            bulk = await self._answered("bulk progress", "GET", f"/v1/runs/bulk/{bulk['bulkID']}")
        if bulk["status"] != "COMPLETED" or bulk["succeeded"] != BATCH:
            self.violations.append(f"the bulk run over {BATCH} runs comes to {bulk}")

    async def recovery_s(self, url: str) -> float:
        """From now until this server has started a run and answered at its end."""
        began, n = time.monotonic(), next(self.numbers)
        path, body = f"/v1/workflows/chaos-timed/runs?wait={WAIT}", {"input": {"n": n}, "idempotencyKey": f"start-{n}"}
        status = ""
        while status != "COMPLETED":
            run = await self._asked("start", url, "POST", path, body, None)
            if run is None:
                await asyncio.sleep(0.1)
                continue
            self._acknowledge(run["instanceID"], n)
            status = run["status"]
        return time.monotonic() - began

    def _acknowledge(self, run_id: str, n: int) -> None:
        if self.runs.setdefault(run_id, n) != n:
            self.violations.append(f"the keys of {n} and {self.runs[run_id]} have one run")

    async def _answered(
        self, what: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Ask one server after the other until one answers."""
        self.asking[f"{path} {body}"] = what
        for url in itertools.cycle(self.dice.sample(self.urls, len(self.urls))):
            answer = await self._asked(what, url, method, path, body, headers)
            if answer is not None:
                del self.asking[f"{path} {body}"]
                return answer
            await asyncio.sleep(0.1)
        raise AssertionError("there are servers")

    async def _asked(
        self, what: str, url: str, method: str, path: str, body: Any, headers: dict[str, str] | None
    ) -> Any:
        """The answer of one server; None: it has not served the request, and may be asked again."""
        own = {} if path.startswith("/hooks") else {"Authorization": f"Bearer {self.key}"}
        try:
            async with (
                asyncio.timeout(PATIENCE_S),
                self._session.request(method, url + path, json=body, headers=own | (headers or {})) as response,
            ):
                status, answer = response.status, await response.json()
        except TimeoutError:
            self.seen[f"{what}: no answer within {PATIENCE_S:g} s"] += 1
            return None
        except (aiohttp.ClientError, OSError):
            self.seen[f"{what}: connection lost or refused"] += 1
            return None
        if status < 300:
            self.seen[f"{what}: answered"] += 1
            return answer
        self.seen[f"{what}: {status} {answer.get('error', {}).get('code')}"] += 1
        if status not in NOT_NOW:
            self.violations.append(f"{method} {path} is answered {status}: {answer}")
            raise Refused
        return None


async def with_servers(plan: Plan) -> Report:
    """Each of two servers stands still, shortly and for long, is killed and is stopped, under load."""
    report, began = Report(), time.monotonic()
    async with postgresql_server() as server:
        url = server.get_uri()
        await asyncio.to_thread(upgrade, url)
        async with build(Settings(database_url=url)).open_access() as access:
            key = (await access.create_key(tenant_id=TENANT, role=Role.ADMIN, actor="chaos")).key
        store = ChaosClient(url)
        await store.open(pool=None)
        with Ledger() as kept:
            for document in (SIGNALLED, TIMED, HOOKED):
                await store.service.save_workflow(document, tenant_id=TENANT)
            ports = [lasting_port() for _ in range(plan.workers)]
            servers = [ChaosProcess(*_command(port, url, kept.port)) for port in ports]
            await asyncio.gather(*(each.started() for each in servers))
            clients = Clients([f"http://127.0.0.1:{port}" for port in ports], key, random.Random(plan.seed))
            working = asyncio.create_task(clients.work())
            try:
                for number, each in enumerate(servers):
                    report.recoveries_s |= await _one_after_the_other(number, each, clients, report)
                clients.has_enough = True
                if not (await asyncio.wait([working], timeout=plan.peace_s))[0]:
                    clients.violations.append(f"clients still ask for {sorted(clients.asking)}")
                await _judge(store, clients, kept, report, plan)
            finally:
                working.cancel()
                await asyncio.gather(*(each.end() for each in servers))
        await store.close()
        report.violations += await asyncio.to_thread(what_is_stored_is_wrong, url)
    report.seen, report.seconds = dict(sorted(clients.seen.items())), time.monotonic() - began
    return report


def _command(port: int, url: str, ledger_port: int) -> tuple[list[str], dict[str, str]]:
    own = {
        "ANABRANCH_DATABASE_URL": url,
        "ANABRANCH_LEASE": f"{LEASE_MS}ms",
        "ANABRANCH_CRASH_LIMIT": "1000",
        "ANABRANCH_GRACE": "5s",
        "ANABRANCH_LOG_LEVEL": "error",
        nodes.LEDGER_PORT: str(ledger_port),
    }
    return ["-m", "anabranch", "serve", "--port", str(port), "--import", str(Path(nodes.__file__))], own


async def _one_after_the_other(number: int, server: ChaosProcess, clients: Clients, report: Report) -> dict[str, float]:
    """Everything that happens to one server."""
    url, found = clients.urls[number], {}
    for seconds in FROZEN_S:
        await asyncio.sleep(2)
        async with server.paused():
            await asyncio.sleep(seconds)
        report.pauses += 1
        found[f"server {number} frozen, {seconds:g} s"] = round(await clients.recovery_s(url), 1)
    for name, ending in (("killed", signal.SIGKILL), ("stopped", signal.SIGTERM)):
        await asyncio.sleep(2)
        await server.restart(ending)
        report.kills += ending is signal.SIGKILL
        found[f"server {number} {name} and started"] = round(await clients.recovery_s(url), 1)
    return found


async def _judge(store: ChaosClient, clients: Clients, kept: Ledger, report: Report, plan: Plan) -> None:
    """Every key and every request has one run, and each of them has come to what it should."""
    hooked = await store.service.list_runs(RunFilter(workflow="chaos-hooked"), tenant_id=TENANT, limit=5_000)
    others = [
        run
        for name in ("chaos-timed", "chaos-signalled")
        for run in await store.service.list_runs(RunFilter(workflow=name), tenant_id=TENANT, limit=5_000)
    ]
    if len(hooked) != len(clients.requests):
        clients.violations.append(f"{len(clients.requests)} requests of the webhook have {len(hooked)} runs")
    unknown = {run["instanceID"] for run in others} - clients.runs.keys()
    clients.violations += [f"{run_id} is stored, and its start was never answered" for run_id in unknown]
    numbers = dict(clients.runs)
    for run in hooked:
        whole = await store.service.get_run(run["instanceID"], tenant_id=TENANT)
        numbers[run["instanceID"]] = whole["input"]["json"]["n"]
    store.started = numbers
    calm = time.monotonic()
    report.violations = [] if await store.all_ended(plan.peace_s) else ["not everything ended in time"]
    report.recovery_s = time.monotonic() - calm
    report.violations += clients.violations
    report.violations += violations_of(numbers, set(), await store.store.load(list(numbers)), kept.entries)
    report.instances, report.effects = len(numbers), len(kept.entries)
    report.repeated_effects = report.effects - len({(entry["key"], entry["attempt"]) for entry in kept.entries})
