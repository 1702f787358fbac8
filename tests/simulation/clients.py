"""Clients of the simulated processes: they start runs, send signals, cancel, and ask again when the line goes dead.

They use the same service as every API. What was acknowledged to them must be in the database
at that very moment, and no call may end in an error that the contract does not know.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.shared.log_limit import LOG_TOO_LARGE
from anabranch.errors import (
    ForkRefused,
    NotFound,
    ParentNotWaiting,
    RetryRefused,
    RetryWouldRepeat,
    RunIsCompleted,
    RunIsOpen,
    RunIsTerminal,
    RunTooLarge,
    StoreUnavailable,
)
from anabranch.run_requests import ForkOptions, RetryOptions, StartedRun, StartOptions
from anabranch.service.workflow_service import WorkflowService
from anabranch.testing.memory_store.database import MemoryDatabase
from tests.simulation.cases import SimulatedCase
from tests.simulation.coded_cases import CodedCase
from tests.simulation.judge import Judge
from tests.simulation.processes import ConnectionLost, SimulatedProcess
from tests.simulation.programs import EVENTS

# A client that hears nothing for 4 s hangs up and asks another process.
PATIENCE_S = 4.0

# Between two acts of a client: most come in bursts.
PAUSES_S = (0.0, 0.0, 0.01, 0.1, 0.6)

# After a failed call; as a person or a polite library would.
RETRY_S = 0.3

_OPEN = tuple(status for status in Status if not status.is_terminal)

# What a retry or a fork may be refused for.
REFUSALS = (
    ForkRefused,
    ParentNotWaiting,
    RetryRefused,
    RetryWouldRepeat,
    RunIsCompleted,
    RunIsOpen,
    RunTooLarge,
)


@dataclass(slots=True)
class Known:
    """What the clients of one tenant know of the runs they started."""

    runs: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    """Idempotency key → the run that a start with it was answered with."""


class Client:
    """One user of the API, acting until told to stop."""

    def __init__(
        self,
        *,
        rng: random.Random,
        cases: Sequence[SimulatedCase | CodedCase],
        known: Known,
        judge: Judge,
        database: MemoryDatabase,
        processes: Callable[[], list[SimulatedProcess]],
        name: str,
        tenant_id: str,
    ) -> None:
        self._rng = rng
        self._cases = cases
        self._known = known
        self._judge = judge
        self._database = database
        self._processes = processes
        self._name = name
        self.tenant_id = tenant_id
        self._count = 0
        self.stopped = False

    async def act(self, runs_max: int) -> None:
        """Start up to so many runs, and disturb those that are there."""
        while not self.stopped and runs_max > 0:
            await asyncio.sleep(self._rng.choice(PAUSES_S) * self._rng.random() * 2)
            dice = self._rng.random()
            if dice < 0.35 or not self._known.runs:
                runs_max -= 1
                await self._start()
            elif dice < 0.45:
                await self._start_again()
            elif dice < 0.8:
                await self._signal_something()
            elif dice < 0.9:
                await self._signal_at_the_last_moment()
            elif dice < 0.95:
                await self.cancel(self._rng.choice(self._known.runs[-8:]))
            else:
                await self._read(self._rng.choice(self._known.runs))

    async def start(self, case: SimulatedCase | CodedCase, **options: Any) -> str:
        """Start a run; its id."""
        input_ = case.input_beside(self._known.runs[-1] if self._known.runs else None)
        chosen = StartOptions(version=case.version, **options)
        started: StartedRun = await self._call(lambda s: self._begin(s, case, input_, chosen))
        run = started.instance_id
        self._expect(run in self._database.instances, "an acknowledged call is durable: the started run is absent", run)
        return run

    async def signal(self, run: str, event: str) -> None:
        """Send a signal; with its key it is delivered once, however often it is sent."""
        self._count += 1
        key = f"{self._name}-{self._count}"
        payload = {"kind": self._rng.randint(0, 1), "from": key}
        sent_twice = self._rng.random() < 0.2
        try:
            for _ in range(1 + sent_twice):
                await self._call(lambda s: s.send_signal(run, event, payload, tenant_id=self.tenant_id, key=key))
        except RunIsTerminal:
            is_open_again = EventType.INSTANCE_REOPENED in self._types(run)
            ended = is_open_again or self._status(run).is_terminal
            self._expect(ended, "RUN_IS_TERMINAL is said of terminal runs only", run)
            return
        rows = self._database.instances[run].events
        kept = [row for row in rows if row.type is EventType.SIGNAL_RECEIVED and row.payload.value.get("key") == key]
        self._expect(len(kept) == 1, f"an acknowledged call is durable: signal {key} is there {len(kept)} times", run)

    async def cancel(self, run: str) -> None:
        """Cancel a run that may have ended."""
        try:
            await self._call(lambda s: s.cancel_run(run, tenant_id=self.tenant_id, reason="a client's wish"))
        except RunIsTerminal:
            is_open_again = EventType.INSTANCE_REOPENED in self._types(run)
            ended = is_open_again or self._status(run) not in (Status.CANCELLED, *_OPEN)
            self._expect(ended, "RUN_IS_TERMINAL is said of runs that ended otherwise", run)
            return
        cancelled = self._status(run) is Status.CANCELLED or EventType.INSTANCE_REOPENED in self._types(run)
        self._expect(cancelled, f"an acknowledged cancel is committed: the run is {self._status(run)}", run)

    async def pause_now_and_then(self, dice: random.Random) -> None:
        """Let runs stand still for a while; some are forgotten."""
        while not self.stopped:
            await asyncio.sleep(dice.random() * 2)
            if not self._known.runs:
                continue
            run = dice.choice(self._known.runs[-8:])
            await self.pause(run, children=dice.random() < 0.5)
            await asyncio.sleep(dice.choice(PAUSES_S) * dice.random() * 4)
            if dice.random() < 0.8:
                await self.resume(run)

    async def pause_workflows_now_and_then(self, dice: random.Random, workflows: Sequence[str]) -> None:
        """Let all runs of a workflow or of the tenant stand still for a while; some are forgotten."""
        while not self.stopped:
            await asyncio.sleep(dice.random() * 4)
            workflow = None if dice.random() < 0.3 else dice.choice(workflows)
            await self.close_gate(workflow)
            await asyncio.sleep(dice.choice((0.05, 0.5, 2.0)) * dice.random() * 2)
            if dice.random() < 0.8:
                await self.open_gate(workflow)

    async def close_gate(self, workflow: str | None) -> None:
        """Pause a workflow, by its name or id, or without one the tenant."""
        self._judge.families.pausing_tenants.add(self.tenant_id)
        if workflow is None:
            await self._call(lambda s: s.pause_tenant(tenant_id=self.tenant_id, by="a client"))
        else:
            await self._call(lambda s: s.pause_workflow(workflow, tenant_id=self.tenant_id, by="a client"))
        self._judge.rarities["tenant paused" if workflow is None else "workflow paused"] += 1

    async def open_gate(self, workflow: str | None) -> None:
        """Resume it."""
        if workflow is None:
            await self._call(lambda s: s.resume_tenant(tenant_id=self.tenant_id))
        else:
            await self._call(lambda s: s.resume_workflow(workflow, tenant_id=self.tenant_id))

    async def repair_now_and_then(self, dice: random.Random) -> None:
        """Let runs that have ended badly go on, and begin others with the outcomes of any."""
        while not self.stopped:
            await asyncio.sleep(dice.random() * 2)
            if not self._known.runs:
                continue
            run = dice.choice(self._known.runs[-8:])
            if dice.random() < 0.6:
                await self.retry(run)
            else:
                await self.fork(run, dice)

    async def retry(self, run: str) -> None:
        """Let a run go on if it has ended badly; with its key that happens once, however often it is asked for."""
        self._count += 1
        options = RetryOptions(idempotency_key=f"{self._name}-retry-{self._count}")
        with suppress(RunIsOpen, RunIsCompleted, RetryWouldRepeat, RetryRefused, ParentNotWaiting):
            await self._call(lambda s: s.retry_run(run, options, tenant_id=self.tenant_id, by="a client"))
            keys = [
                row.payload.value.get("key")
                for row in self._database.instances[run].events
                if row.type is EventType.INSTANCE_REOPENED
            ]
            times = keys.count(options.idempotency_key)
            self._judge.rarities["run retried"] += times
            # A resume that its log has no room for ends the run.
            is_resumed = EventType.INSTANCE_RESUMED in self._types(run) or self._ended_by_its_log(run)
            self._expect(times == 1 or is_resumed, f"an acknowledged retry is committed: {times} times", run)

    async def fork(self, run: str, dice: random.Random) -> None:
        """Begin another run with the outcomes of this one up to some row."""
        self._count += 1
        seq = dice.choice([None, dice.randint(1, len(self._database.instances[run].events))])
        options = ForkOptions(
            idempotency_key=f"{self._name}-fork-{self._count}",
            at_seq=seq,
            redo_failed=dice.random() < 0.3,
            signals=dice.random() < 0.8,
        )
        with suppress(ForkRefused, RunTooLarge):
            answer = await self._call(lambda s: s.fork_run(run, options, tenant_id=self.tenant_id))
            forked = answer["instanceID"]
            self._judge.rarities["run forked"] += 1
            is_there = forked in self._database.instances
            self._expect(is_there, "an acknowledged call is durable: the fork is absent", forked)
            self._known.runs.append(forked)

    async def pause(self, run: str, *, children: bool) -> None:
        """Pause a run that may have ended."""
        with suppress(RunIsTerminal):
            await self._call(lambda s: s.pause_run(run, tenant_id=self.tenant_id, by="a client", children=children))
            status = self._status(run)
            settled = status.is_terminal or EventType.INSTANCE_SUSPENDED in self._types(run)
            self._expect(settled, f"an acknowledged pause is committed: the run is {status}", run)

    async def resume(self, run: str) -> None:
        """Let a run that may have ended go on."""
        with suppress(RunIsTerminal):
            await self._call(lambda s: s.resume_run(run, tenant_id=self.tenant_id, by="a client"))
            self._judge.rarities["suspended run resumed"] += EventType.INSTANCE_RESUMED in self._types(run)

    def _ended_by_its_log(self, run: str) -> bool:
        last = self._database.instances[run].events[-1]
        return last.type is EventType.INSTANCE_FAILED and last.payload.value["code"] == LOG_TOO_LARGE

    def _types(self, run: str) -> list[EventType]:
        return [row.type for row in self._database.instances[run].events]

    # -- calls ----------------------------------------------------------------------------
    async def _begin(
        self, service: WorkflowService, case: SimulatedCase | CodedCase, input_: Any, options: StartOptions
    ) -> StartedRun:
        """Start a run where the runs of this case begin: by hand, or as the trigger does that has fired."""
        trigger = case.trigger if isinstance(case, SimulatedCase) else None
        if trigger is None:
            return await service.execute_workflow(case.name, input_, options, tenant_id=self.tenant_id)
        key = options.idempotency_key or f"{self._name}-{self._count}-unkept"
        fired = replace(options, trigger=trigger, idempotency_key=f"hook:{key}")
        return await service.start_triggered_run(case.name, input_, fired, tenant_id=self.tenant_id)

    async def _start(self) -> None:
        self._count += 1
        key = f"{self._name}-{self._count}" if self._rng.random() < 0.8 else None
        options: dict[str, Any] = {"idempotency_key": key}
        now = self._database.now()
        if self._rng.random() < 0.15:
            options["available_at"] = now + self._rng.randint(-500, 4_000)
        if self._rng.random() < 0.08:
            options["deadline_at"] = options.get("available_at", now) + self._rng.randint(1, 5_000)
        run = await self.start(self._rng.choice(self._cases), **options)
        self._known.runs.append(run)
        if key is not None:
            self._known.keys[key] = run

    async def _start_again(self) -> None:
        if not self._known.keys:
            return
        key = self._rng.choice(sorted(self._known.keys))
        first = self._known.keys[key]
        case, options = self._judge.facts(first).case, StartOptions(idempotency_key=key)
        started: StartedRun = await self._call(lambda s: self._begin(s, case, {}, options))
        self._judge.rarities["start repeated with its key"] += 1
        same = started.instance_id == first and not started.created
        self._expect(same, f"a repeated start is answered with the first run: {started}, not {first}", first)

    async def _signal_something(self) -> None:
        """A signal that the run may wait for some day, or one that it knows nothing of."""
        recent = self._known.runs[-8:]
        waiting = [run for run in recent if self._judge.facts(run).waits]
        run = self._rng.choice(waiting if waiting and self._rng.random() < 0.5 else recent)
        events = self._judge.facts(run).case.events
        await self.signal(run, self._rng.choice([*events, *events, *EVENTS]))

    async def _signal_at_the_last_moment(self) -> None:
        """Answer a wait when its time is just running out."""
        runs = [(run, self._judge.facts(run).waits) for run in self._known.runs]
        waits = [(run, wait.payload.value) for run, waits in runs for wait in waits.values()]
        waits = [(run, note) for run, note in waits if "dueAt" in note]
        if waits:
            run, note = self._rng.choice(waits)
            left_ms = from_iso(note["dueAt"]) - self._database.now() - self._rng.randint(0, 8)
            await asyncio.sleep(max(0, left_ms) / 1000)
            await self.signal(run, note["event"])

    async def _read(self, run: str) -> None:
        shown = await self._call(lambda s: s.get_run(run, tenant_id=self.tenant_id))
        self._expect(shown["instanceID"] == run, "a run is shown as itself", run)

    async def _call(self, work: Callable[[WorkflowService], Coroutine[Any, Any, Any]]) -> Any:
        """The answer of some process, asked until one is heard."""
        while True:
            processes = self._processes()
            if not processes:
                await asyncio.sleep(RETRY_S)
                continue
            process = self._rng.choice(processes)
            answer = process.request(work)
            try:
                await asyncio.wait({answer}, timeout=PATIENCE_S)
                if answer.done():
                    return answer.result()
                answer.cancel()
            except (StoreUnavailable, ConnectionLost):
                pass
            except (RunIsTerminal, NotFound, *REFUSALS):
                raise
            except Exception as failure:
                self._judge.accuse("no call ends in an error that the contract does not know", repr(failure))
                raise
            self._judge.rarities["client asked again after a lost answer"] += 1
            await asyncio.sleep(RETRY_S * self._rng.random())

    def _status(self, run: str) -> Status:
        return self._database.instances[run].row.status

    def _expect(self, kept: bool, promise: str, run: str) -> None:
        if not kept:
            self._judge.accuse(promise, "it is not so", run)
