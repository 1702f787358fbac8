"""Each part of an installation stands still in turn, shortly and for long, and its way to the broker is cut off in each
direction: under load, with nodes that executors execute.

Called by the campaigns (`--store frozen`). What a client sees of a server that stands still is in `servers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass

from anabranch.migrations import upgrade
from tests.chaos.campaign import LEASE_MS, Campaign, ChaosClient, ChaosProcess, Plan, Report
from tests.chaos.proxy import Proxy
from tests.chaos.scenes import DIRECTIONS, frozen_server, postgresql_server
from tests.rabbitmq import running_rabbitmq

# Half a lease and three: nobody notices the first, and others take over in the second.
WORKER_S = LEASE_MS / 1000 * 0.5, LEASE_MS / 1000 * 3

# Less than the 10 s between two signs of life of an executor, and more than the 30 s after which its jobs are sent
# again.
EXECUTOR_S = 5.0, 40.0

# Less than the 10 s in which a broker confirms, and more than the 33 s after which a connection without heartbeats is
# left.
BROKER_S = 3.0, 40.0

# Less than a lease, and more than the 11 s that a statement may take.
DATABASE_S = LEASE_MS / 1000 * 0.5, 15.0


@dataclass(frozen=True)
class Standstill:
    """One fault of the story."""

    name: str
    seconds: float
    fault: Callable[[], AbstractAsyncContextManager[None]]


async def standing_still(plan: Plan) -> Report:
    """Workers, executors, the broker and the database, one after the other. Raises ToolMissing without a RabbitMQ."""
    dice = random.Random(plan.seed)
    async with postgresql_server() as server:
        url = server.get_uri()
        await asyncio.to_thread(upgrade, url)
        with running_rabbitmq() as broker:
            async with Proxy(broker.port, seed=plan.seed) as proxy:

                async def story(
                    client: ChaosClient, workers: list[ChaosProcess], executors: list[ChaosProcess]
                ) -> dict[str, float]:
                    faults = [
                        *_of("worker", WORKER_S, lambda: dice.choice(workers).paused()),
                        *_of("executor", EXECUTOR_S, lambda: dice.choice(executors).paused()),
                        *_of("broker", BROKER_S, lambda: _awaitable(broker.frozen())),
                        *_of("database", DATABASE_S, lambda: _awaitable(frozen_server(server))),
                        *_of_the_way_to_the_broker(proxy),
                    ]
                    return await _in_turn(faults, client)

                campaign = Campaign(
                    plan,
                    worker_url=url,
                    client_url=url,
                    broker_url=f"amqp://guest:guest@127.0.0.1:{proxy.port}/",
                    story=story,
                )
                return await campaign.run()


def _of(
    part: str, seconds: tuple[float, float], fault: Callable[[], AbstractAsyncContextManager[None]]
) -> Iterator[Standstill]:
    for each in seconds:
        yield Standstill(f"{part} frozen, {each:g} s", each, fault)


def _of_the_way_to_the_broker(proxy: Proxy) -> Iterator[Standstill]:
    """Held up, so that everything arrives afterwards, and lost, so that connections stay half open."""
    for name, (requests, answers) in DIRECTIONS.items():

        def held_up(requests: bool = requests, answers: bool = answers) -> AbstractAsyncContextManager[None]:
            return _awaitable(proxy.partition(requests=requests, answers=answers))

        def dropped(requests: bool = requests, answers: bool = answers) -> AbstractAsyncContextManager[None]:
            return _awaitable(proxy.dropping(requests=requests, answers=answers))

        for seconds in BROKER_S[: 2 if requests and answers else 1]:
            yield Standstill(f"{name} the broker held up, {seconds:g} s", seconds, held_up)
        yield Standstill(f"{name} the broker dropped, {BROKER_S[0]:g} s", BROKER_S[0], dropped)


async def _in_turn(faults: list[Standstill], client: ChaosClient) -> dict[str, float]:
    """Every fault once; the next one when runs go on."""
    recoveries = {"none": round(await client.recovery_s(), 1)}
    for each in faults:
        async with each.fault():
            await asyncio.sleep(each.seconds)
        recoveries[each.name] = round(await client.recovery_s(), 1)
        print(f"{each.name}: a run took {recoveries[each.name]} s afterwards", flush=True)
    return recoveries


@contextlib.asynccontextmanager
async def _awaitable(fault: AbstractContextManager[None]) -> AsyncIterator[None]:
    with fault:
        yield
