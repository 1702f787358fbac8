"""Tests an executor, in any language, against the protocol of docs/executors.md.

    python -m anabranch.testing.executor_conformance [--broker URL] [--only CASE] [--without CASE] -- COMMAND…

Needs a RabbitMQ (default: ANABRANCH_BROKER_URL) and `anabranch[rabbitmq]`. COMMAND is started here, with
ANABRANCH_BROKER_URL, ANABRANCH_POOLS (one pool, of this trial alone) and ANABRANCH_CONCURRENCY in its environment, and
has to execute three node types:

* `conformanceEcho` tells the line `echo` (info) and the progress 1 of 2, `half`; its output is `config`, `input` (of
  the context), `attempt` and `idempotencyKey`.
* `conformanceFails` fails with `code`, `message` and `retryable` of its config.
* `conformanceWaits` tells the line `waits`, waits `ms` of its config, and its output is `{"waited": ms}`.

Prints a line for each case, and ends with 1 if one of them fails. It uses the broker directly and none of our
executor's code, so it tests the protocol and not our implementation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from secrets import token_hex
from typing import Any, TypeAlias

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import idempotency_key

CONCURRENCY = 4

# 20 s for anything that an executor does at once: long enough for a machine that does much else.
PATIENCE_S = 20.0

# An hour: longer than any trial takes.
FOREVER_MS = 3_600_000

# 300 ms: the time limits of the trial.
SHORT_MS = 300

JOB_ARGUMENTS: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 20,
    "x-consumer-timeout": 604_800_000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "anabranch.dead",
}

Fields: TypeAlias = dict[str, Any]


class NotConforming(Exception):
    """The executor did something else than the protocol says."""


@dataclass
class Trial:
    """One executor, a pool of its own, and everything that was reported from there."""

    url: str
    command: Sequence[str]
    channel: AbstractChannel
    environ: Mapping[str, str]
    pool: str = field(default_factory=lambda: f"trial-{token_hex(4)}")
    reports: list[Fields] = field(default_factory=list)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _process: asyncio.subprocess.Process | None = None

    @property
    def queues(self) -> tuple[str, str]:
        """The queues of jobs of normal and of high priority."""
        return f"anabranch.jobs.{self.pool}", f"anabranch.jobs.{self.pool}.high"

    async def open(self) -> None:
        """Declare the queues as workers do."""
        await self.channel.declare_queue("anabranch.dead", durable=True, arguments={"x-queue-type": "quorum"})
        await self._declare()
        for exchange in ("anabranch.cancelled", "anabranch.sought"):
            await self.channel.declare_exchange(exchange, aio_pika.ExchangeType.FANOUT, durable=True)
        await self.listen(self.pool)

    async def reset(self) -> None:
        """End the executor and drop its jobs, so that the next case begins anew."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None
        await self._delete()
        await self._declare()

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.reset()
        await self._delete()

    async def _declare(self) -> None:
        for queue in self.queues:
            await self.channel.declare_queue(queue, durable=True, arguments=JOB_ARGUMENTS)

    async def _delete(self) -> None:
        for queue in self.queues:
            await self.channel.queue_delete(queue)

    # -- the executor ---------------------------------------------------------------------
    async def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None:
            environ = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
            own = {"broker_url": self.url, "pools": self.pool, "concurrency": str(CONCURRENCY)}
            environ |= {_variable(name): value for name, value in own.items()} | dict(self.environ)
            self._process = await asyncio.create_subprocess_exec(
                *self.command, env=environ, stdout=asyncio.subprocess.DEVNULL
            )

    def send_signal(self, number: signal.Signals) -> None:
        """Send it this signal."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def end(self, number: signal.Signals) -> int:
        """End it by this signal; its exit code, once the broker has noticed."""
        self.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """The exit code of an executor that was told to end, once the broker has noticed."""
        process, self._process = self._process, None
        assert process is not None, "a case ends an executor that it has started"
        otherwise = "the executor does not end on its signal"
        async with _patience(otherwise):
            code = await process.wait()
        await self._until(lambda counts: not any(each.consumer_count for each in counts), otherwise)
        return code

    async def jobs_left(self) -> int:
        """How many jobs have not been acknowledged, when no executor runs."""
        return sum(each.message_count for each in await self._counts())

    async def until_ready(self, count: int, otherwise: str) -> None:
        """Returns when as many jobs wait for an executor."""
        await self._until(lambda counts: sum(each.message_count for each in counts) == count, otherwise)

    async def _until(self, is_so: Callable[[list[Any]], bool], otherwise: str) -> None:
        """Look at the queues until it is so: the broker tells nobody. An answer under way is waited for, because giving
        it up closes the channel."""
        give_up_at = asyncio.get_running_loop().time() + PATIENCE_S
        while not is_so(await self._counts()):
            check(asyncio.get_running_loop().time() < give_up_at, f"{otherwise}, for {PATIENCE_S:g} s")
            await asyncio.sleep(0.02)

    async def _counts(self) -> list[Any]:
        declared = [await self.channel.declare_queue(queue, passive=True) for queue in self.queues]
        return [each.declaration_result for each in declared]

    # -- messages -------------------------------------------------------------------------
    def job(self, node_type: str, config: Any = None, **more: Any) -> Fields:
        """A job, as a worker sends it."""
        instance_id = token_hex(8)
        key = idempotency_key(instance_id, "far", "")
        return {
            "protocol": 1,
            "jobID": f"{key}-1",
            "instanceID": instance_id,
            "tenantID": "default",
            "workflowID": None,
            "nodeID": "far",
            "scope": "",
            "attempt": 1,
            "type": node_type,
            "pool": self.pool,
            "priority": "normal",
            "config": {} if config is None else config,
            "sealed": None,
            "parts": [],
            "context": {"input": {"text": "\u00e4 {{ctx.input}}", "numbers": [1, 2.5, None]}},
            "idempotencyKey": key,
            "keyGeneration": 0,
            "timeoutMs": None,
            "heartbeatTimeoutMs": None,
            "outputBytesMax": 1_048_576,
            "deadlineAt": None,
            "replyTo": self.pool,
            "ticket": token_hex(8),
            "sending": 1,
            "fieldOfALaterRelease": True,
            **more,
        }

    async def send(self, job: Fields) -> Fields:
        """Send a job to the pool."""
        await self.publish(json.dumps(job).encode(), priority=job["priority"])
        return job

    async def publish(self, raw: bytes, *, priority: str = "normal") -> None:
        """Send anything to the pool."""
        message = aio_pika.Message(raw, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self.channel.default_exchange.publish(message, self.queues[priority == "high"])

    async def cancel(self, job: Fields) -> None:
        """Nobody awaits the job any more."""
        await self._broadcast("anabranch.cancelled", job["ticket"].encode())

    async def search(self, job: Fields) -> None:
        """Ask who has the job, with the queue for reports and the ticket that it has from now on."""
        found = {"jobID": job["jobID"], "ticket": job["ticket"]}
        search = {"protocol": 1, "replyTo": job["replyTo"], "jobs": [found, {"jobID": "another", "ticket": "t"}]}
        await self._broadcast("anabranch.sought", json.dumps(search).encode())

    async def _broadcast(self, exchange: str, raw: bytes) -> None:
        fanout = await self.channel.get_exchange(exchange)
        await fanout.publish(aio_pika.Message(raw), "")

    async def listen(self, name: str) -> None:
        """Receive the reports to this name."""
        queue = await self.channel.declare_queue(f"anabranch.reports.{name}", exclusive=True)

        async def take(message: AbstractIncomingMessage) -> None:
            decoded = json.loads(message.body)
            async with self._arrived:
                self.reports += [each | {"to": name} for each in (decoded if isinstance(decoded, list) else [decoded])]
                self._arrived.notify_all()

        await queue.consume(take, no_ack=True)

    def reports_of(self, job: Fields, *kinds: str) -> list[Fields]:
        """The reports of these kinds about a job so far."""
        return [each for each in self.reports if each.get("jobID") == job["jobID"] and each.get("kind") in kinds]

    async def report(self, job: Fields, kind: str, *, nth: int = 1, to: str | None = None) -> Fields:
        """The nth report of this kind about a job (to this name), as soon as it is there."""

        def reports() -> list[Fields]:
            return [each for each in self.reports_of(job, kind) if to is None or each["to"] == to]

        whom = "" if to is None else " to the newest sender"
        async with _patience(f"no {kind} of {job['type']} was reported{whom}"), self._arrived:
            await self._arrived.wait_for(lambda: len(reports()) >= nth)
        return reports()[nth - 1]

    async def result(self, job: Fields, *, nth: int = 1) -> Fields:
        """The nth result of a job."""
        return await self.report(job, "result", nth=nth)

    async def failure(self, job: Fields, code: str) -> Fields:
        """The result of a job, which has to have failed with this code."""
        result = await self.result(job)
        check(result.get("status") == "failed", f"{job['type']} has not failed: {result}")
        check(result["error"].get("code") == code, f"the code is not {code}: {result['error']}")
        return result


def _variable(setting: str) -> str:
    """A variable of the environment."""
    return f"ANABRANCH_{setting.upper()}"


def check(is_so: object, otherwise: str) -> None:
    """Raise NotConforming unless it is so."""
    if not is_so:
        raise NotConforming(otherwise)


@asynccontextmanager
async def _patience(otherwise: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError:
        raise NotConforming(f"{otherwise}, for {PATIENCE_S:g} s") from None


# -- the cases, in the order in which they are tried ------------------------------------------
async def job(trial: Trial) -> None:
    """`started` is first, lines and progress follow in their order, the result is last."""
    sent = await trial.send(trial.job("conformanceEcho", {"greeting": "{{not.a.template}}"}))
    result = await trial.result(sent)
    reports = trial.reports_of(sent, "started", "line", "progress", "result")
    check([each["kind"] for each in reports] == ["started", "line", "progress", "result"], f"the reports are {reports}")
    check(all(each.get("protocol") == 1 for each in reports), f"a report has no protocol: {reports}")
    started, line, progress, _ = reports
    check(isinstance(started.get("executor"), str) and started["executor"] != "", "`started` has no name of it")
    check((line.get("level"), line.get("text")) == (20, "echo"), f"the line is {line}")
    check([progress.get(each) for each in ("done", "total", "text")] == [1, 2, "half"], f"the progress is {progress}")
    output = {"config": sent["config"], "input": sent["context"]["input"]}
    output |= {"attempt": 1, "idempotencyKey": sent["idempotencyKey"]}
    check(result.get("status") == "completed" and result.get("output") == output, f"the result is {result}")


async def error(trial: Trial) -> None:
    """An error has its code and message, and whether a retry may help."""
    for retryable in (False, True):
        config = {"code": "PAPERLESS", "message": "no paper", "retryable": retryable}
        result = await trial.failure(await trial.send(trial.job("conformanceFails", config)), "PAPERLESS")
        check("no paper" in result["error"].get("message", ""), f"the message is {result['error']}")
        check(result.get("retryable", True) is retryable, f"retryable is not {retryable}: {result}")


async def unknown_type(trial: Trial) -> None:
    """A type that it does not have fails for good."""
    result = await trial.failure(await trial.send(trial.job("conformanceUnheardOf")), "UNKNOWN_NODE_TYPE")
    check(result.get("retryable") is False, "a retry cannot help")


async def bad_message(trial: Trial) -> None:
    """A message that it cannot read becomes a dead letter, and the next job is executed."""
    bad = [b"no JSON", json.dumps(trial.job("conformanceEcho", protocol=99)).encode()]
    for raw in bad:
        await trial.publish(raw)
    await trial.result(await trial.send(trial.job("conformanceEcho")))
    dead = await trial.channel.get_queue("anabranch.dead")
    found: list[bytes] = []
    of_others = []
    give_up_at = asyncio.get_running_loop().time() + PATIENCE_S
    while len(found) < len(bad) and asyncio.get_running_loop().time() < give_up_at:
        letter = await dead.get(fail=False)
        if letter is None:
            await asyncio.sleep(0.02)
        elif letter.body in bad:
            found.append(letter.body)
            await letter.ack()
        else:
            of_others.append(letter)
    for letter in of_others:
        await letter.nack(requeue=True)
    check(sorted(found) == sorted(bad), f"of {len(bad)} messages that cannot be read, {len(found)} are dead letters")


async def large_value(trial: Trial) -> None:
    """A megabyte goes there and back."""
    sent = await trial.send(trial.job("conformanceEcho", {"text": "\u00e4" * 500_000}, outputBytesMax=4_194_304))
    result = await trial.result(sent)
    check(result.get("status") == "completed", f"it failed: {result.get('error')}")
    check(result["output"]["config"] == sent["config"], "the value is another one")


async def large_parts(trial: Trial) -> None:
    """No server answers here: a job that only names its large values is refused, and its handler not called."""
    part = {"at": ["context", "input", "rows"], "sha256": "0" * 64, "bytes": 70_000}
    sent = trial.job("conformanceEcho", context={"input": {"rows": None}}, parts=[part])
    await trial.failure(await trial.send(sent), "EXECUTOR_REFUSED")
    check(not trial.reports_of(sent, "line"), "the handler got null in place of a large value")


async def duplicate_job(trial: Trial) -> None:
    """A job that comes again is executed once: the newest sender gets the result, then and later."""
    other = f"{trial.pool}-other"
    await trial.listen(other)
    first = await trial.send(trial.job("conformanceWaits", {"ms": SHORT_MS}))
    await trial.report(first, "line")
    again = first | {"replyTo": other, "ticket": token_hex(8), "sending": 2}
    await trial.send(again)
    await trial.report(first, "result", to=other)
    results = len(trial.reports_of(first, "result"))
    await trial.send(again | {"sending": 3})
    await trial.result(first, nth=results + 1)
    check(len(trial.reports_of(first, "line")) == 1, "it was executed more than once")


async def search(trial: Trial) -> None:
    """A worker that takes runs over gets the reports of their jobs, and may cancel them; also results that are kept."""
    other = f"{trial.pool}-owner"
    await trial.listen(other)
    ended = await trial.send(trial.job("conformanceEcho"))
    await trial.result(ended)
    await trial.search(ended | {"replyTo": other})
    await trial.report(ended, "result", to=other)
    waits = await trial.send(trial.job("conformanceWaits", {"ms": 2 * SHORT_MS}))
    await trial.report(waits, "line")
    await trial.search(waits | {"replyTo": other})
    await trial.report(waits, "result", to=other)
    check(len(trial.reports_of(waits, "line")) == 1, "it was executed more than once")


async def priorities(trial: Trial) -> None:
    """If no place is free, a job of high priority begins before one that came earlier."""
    waiting = [await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS})) for _ in range(CONCURRENCY)]
    for each in waiting:
        await trial.report(each, "line")
    later = await trial.send(trial.job("conformanceEcho"))
    sooner = await trial.send(trial.job("conformanceEcho", priority="high"))
    await trial.report(sooner, "started")
    for each in waiting:
        await trial.cancel(each)
    await trial.result(sooner)
    await trial.result(later)
    begun = [each["jobID"] for each in trial.reports if each["kind"] == "line"]
    check(begun.index(sooner["jobID"]) < begun.index(later["jobID"]), "the job of normal priority began first")


async def time_limits(trial: Trial) -> None:
    """The executor keeps the timeout of a job and its heartbeat timeout; both may be tried again."""
    limits = {"NODE_TIMEOUT": {"timeoutMs": SHORT_MS}, "HEARTBEAT_TIMEOUT": {"heartbeatTimeoutMs": SHORT_MS}}
    for code, limit in limits.items():
        sent = await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS}, **limit))
        result = await trial.failure(sent, code)
        check(result.get("retryable", True) is True, "another attempt may be quicker")


async def deadline_passed(trial: Trial) -> None:
    """A job of a run that is over by the executor's clock is answered all the same: the clock may be wrong."""
    await trial.result(await trial.send(trial.job("conformanceEcho", deadlineAt=1)))


async def nobody_awaits(trial: Trial) -> None:
    """A job whose `started` is returned is not begun, and not kept."""
    sent = trial.job("conformanceEcho")
    await trial.send(sent | {"replyTo": f"{trial.pool}-gone"})
    await trial.result(await trial.send(trial.job("conformanceEcho")))
    await trial.send(sent)
    await trial.result(sent)
    check(len(trial.reports_of(sent, "started")) == 1, "the result of a job that nobody awaited was kept")


async def sender_gone(trial: Trial) -> None:
    """A job whose sender is gone is executed once if another one sends it, also before the executor knows that."""
    await trial.end(signal.SIGTERM)
    sent = [trial.job("conformanceEcho") for _ in range(CONCURRENCY)]
    for each in sent:  # while no executor runs, so that it gets the two messages of a job at once
        await trial.send(each | {"replyTo": f"{trial.pool}-gone", "ticket": token_hex(8)})
        await trial.send(each)
    await trial.start()
    for each in sent:
        await trial.result(each)
        check(len(trial.reports_of(each, "line")) == 1, "it was executed more than once")


async def cancelled(trial: Trial) -> None:
    """It executes no more jobs than it may at once, and a cancelled one makes room."""
    waiting = [await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS})) for _ in range(CONCURRENCY)]
    for each in waiting:
        await trial.report(each, "line")
    sent = await trial.send(trial.job("conformanceEcho"))
    await trial.cancel(trial.job("conformanceEcho"))  # a ticket that nobody knows
    await asyncio.sleep(SHORT_MS / 1000)  # time to do wrong: however long this is, no conforming executor fails
    check(not trial.reports_of(sent, "line"), f"it executes more than {CONCURRENCY} jobs at once")
    for each in waiting:
        await trial.cancel(each)
    await trial.result(sent)
    completed = [each for job in waiting for each in trial.reports_of(job, "result") if each["status"] == "completed"]
    check(not completed, f"a cancelled job completed: {completed}")


async def repetition_cancelled(trial: Trial) -> None:
    """A job that was sent twice before it is cancelled is executed once: nobody awaits its repetition either."""
    first = await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS}))
    await trial.report(first, "line")
    again = await trial.send(first | {"ticket": token_hex(8), "sending": 2})
    await trial.until_ready(0, "the executor does not take the repetition")
    await trial.search(again)  # once it has answered, it knows the ticket of the repetition
    await trial.report(first, "started", nth=2)
    await trial.cancel(again)
    await trial.result(await trial.send(trial.job("conformanceEcho")))
    check(len(trial.reports_of(first, "line")) == 1, "the repetition was executed after the job was cancelled")


async def sent_again(trial: Trial) -> None:
    """A job that was cancelled before it began, and is sent again then, is executed: its repetition is awaited."""
    waiting = [await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS})) for _ in range(CONCURRENCY)]
    for each in waiting:
        await trial.report(each, "line")
    sent = await trial.send(trial.job("conformanceEcho", priority="high"))
    await trial.report(sent, "started")
    await trial.cancel(sent)
    await trial.send(sent | {"ticket": token_hex(8), "sending": 2})
    await trial.until_ready(0, "the executor does not take the repetition")
    for each in waiting:
        await trial.cancel(each)
    await trial.result(sent)


async def beats(trial: Trial) -> None:
    """A job under way gives a sign of life at least every 10 s."""
    sent = await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS}))
    await trial.report(sent, "beat")
    await trial.cancel(sent)


async def shutdown(trial: Trial) -> None:
    """On SIGTERM what executes may end, is reported and acknowledged; the process ends with 0 and leaves no job."""
    sent = await trial.send(trial.job("conformanceWaits", {"ms": 2 * SHORT_MS}))
    await trial.report(sent, "line")
    code = await trial.end(signal.SIGTERM)
    check(code == 0, f"it ended with {code}")
    await trial.result(sent)
    left = await trial.jobs_left()
    check(left == 0, f"{left} jobs were not acknowledged")


async def given_back(trial: Trial) -> None:
    """On SIGTERM a job that waits for a slot is in its queue again at once, as if it had never been taken."""
    waiting = [await trial.send(trial.job("conformanceWaits", {"ms": FOREVER_MS})) for _ in range(CONCURRENCY)]
    for each in waiting:
        await trial.report(each, "line")
    sent = await trial.send(trial.job("conformanceEcho", priority="high"))
    await trial.until_ready(0, "the executor takes no job of high priority while it is full")
    trial.send_signal(signal.SIGTERM)
    await trial.until_ready(1, "the job that waits is not given back while others execute")
    queue = await trial.channel.get_queue(trial.queues[1])
    message = await queue.get()
    check(json.loads(message.body)["jobID"] == sent["jobID"], "another job was given back")
    check(not message.headers.get("x-delivery-count"), "the broker counts the job as one whose executor died")
    await message.ack()
    for each in waiting:
        await trial.cancel(each)
    code = await trial.ended()
    check(code == 0, f"it ended with {code}")


async def killed(trial: Trial) -> None:
    """A job is acknowledged after its result, not before: another executor gets those of one that died."""
    sent = await trial.send(trial.job("conformanceWaits", {"ms": 2 * SHORT_MS}))
    await trial.report(sent, "line")
    await trial.end(signal.SIGKILL)
    check(await trial.jobs_left() == 1, "the job is lost with its executor")
    await trial.start()
    result = await trial.result(sent)
    check(result.get("status") == "completed", f"the result is {result}")


CASES: tuple[Callable[[Trial], Awaitable[None]], ...] = (
    job,
    error,
    unknown_type,
    bad_message,
    large_value,
    large_parts,
    duplicate_job,
    search,
    priorities,
    time_limits,
    deadline_passed,
    nobody_awaits,
    sender_gone,
    cancelled,
    repetition_cancelled,
    sent_again,
    beats,
    shutdown,
    given_back,
    killed,
)
NAMES = tuple(case.__name__ for case in CASES)


async def conformance(
    url: str, command: Sequence[str], *, names: Sequence[str] = NAMES, environ: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """Try an executor: for each case what is not as the protocol says, or None. Raises what the broker refuses."""
    found: dict[str, str | None] = {}
    async with await aio_pika.connect(url) as connection:
        trial = Trial(url, command, await connection.channel(), environ or {})
        await trial.open()
        try:
            for case in CASES:
                if case.__name__ in names:
                    await trial.start()
                    try:
                        await case(trial)
                    except (NotConforming, KeyError, TypeError) as refusal:
                        is_refusal = isinstance(refusal, NotConforming)
                        found[case.__name__] = str(refusal) if is_refusal else f"a report has another form: {refusal!r}"
                        await trial.reset()
                    else:
                        found[case.__name__] = None
        finally:
            await trial.close()
    return found


def main() -> int:
    """Try the executor that the command line names; 1 if a case fails."""
    parser = argparse.ArgumentParser(prog="executor_conformance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--broker", default=os.environ.get(_variable("broker_url")), help="amqp://…")
    parser.add_argument("--only", action="append", choices=NAMES, metavar="CASE", help=", ".join(NAMES))
    parser.add_argument("--without", action="append", choices=NAMES, metavar="CASE", default=[])
    parser.add_argument("command", nargs="+", help="starts the executor; after `--`")
    arguments = parser.parse_args()
    if arguments.broker is None:
        parser.error("name a broker: --broker amqp://user:password@host/ or ANABRANCH_BROKER_URL")
    names = [name for name in arguments.only or NAMES if name not in arguments.without]
    found = asyncio.run(conformance(arguments.broker, arguments.command, names=names))
    for name, refusal in found.items():
        sys.stdout.write(f"ok      {name}\n" if refusal is None else f"FAILED  {name}: {refusal}\n")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
