"""Start and stop the engine, in the right order.

Start: database threads, then workers, then adoption of runs. Stop: refuse new work, give executions their grace while
everything else is handed over, commit the last batch, hand over the remaining leases. So other workers need not wait
until leases expire.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anabranch.engine.clock import SystemClock
from anabranch.engine.console.console import Console
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.handler_contract import Handler, HandlerRegistry
from anabranch.engine.hints.hint_line import HintLine, LeaderRows, VersionWatch
from anabranch.engine.hints.hints import Hints
from anabranch.engine.hints.leadership import Leadership
from anabranch.engine.housekeeping import Housekeeping
from anabranch.engine.loop_watch import LoopWatch
from anabranch.engine.observers import Observers, StoreNews
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ownership.claiming import Claimer
from anabranch.engine.ownership.external_changes import ExternalChanges
from anabranch.engine.ownership.handover import Handover
from anabranch.engine.ownership.history_watch import HistoryWatch
from anabranch.engine.ownership.leases import Leases
from anabranch.engine.ownership.pause_watch import PauseWatch
from anabranch.engine.ownership.worker_reports import WorkerReports
from anabranch.engine.plans import KnownCode, PlanCache
from anabranch.engine.pool_worker import RemoteExecution, task_queue, task_worker
from anabranch.engine.ports import CallbackSigner, Clock, Gate, Store
from anabranch.engine.task_worker import TaskWorker
from anabranch.engine.telemetry import Telemetry
from anabranch.engine.threads import HandlerThreads
from anabranch.errors import StoreUnavailable
from anabranch.grace import COMMAND_S

logger = logging.getLogger("anabranch.engine")

# At most half of the remaining time for handlers that do not end, and half of the rest for the last commits, so that
# the handover keeps most of the remainder. Hints get what is left.
PART_SHARE = 0.5
HANDOVER_SHARE = 0.8


class Engine:
    """One process's engine on one store: commit loop, task worker, claims, leases, hints."""

    def __init__(
        self,
        *,
        store: Store,
        handlers: HandlerRegistry,
        functions: Handler | None = None,
        options: EngineOptions,
        clock: Clock | None = None,
        worker_id: str | None = None,
        line: HintLine | None = None,
        watch: VersionWatch | None = None,
        target: str | None = None,
        code: Sequence[KnownCode] = (),
        digests: Callable[[], Mapping[tuple[str, int], str]] = dict,
        telemetry: Telemetry | None = None,
        gates: Mapping[str, Gate] | None = None,
        console: Console | None = None,
        callbacks: CallbackSigner | None = None,
        elsewhere: RemoteExecution | None = None,
        leaders: LeaderRows | None = None,
    ) -> None:
        """`line` or `watch` connects it with the other processes of the store; pass `notices` to the store.

        `target` identifies the store: engines of this process with the same target notify each other directly.

        `functions` calls workflow functions, those in `code`.
        `telemetry` receives every row that this process writes. `gates` limit node types that need something scarce, by
        type name. `console` keeps the output of user code, and `callbacks` makes the addresses that nodes send.
        `elsewhere` executes jobs of pools that this process does not serve. `leaders` says which worker does the
        looks that concern all; it needs a `line`.
        """
        self.store = store
        self.options = options
        self.clock = clock or SystemClock()
        self.worker_id = worker_id or f"{socket.gethostname()[:40]}-{secrets.token_hex(6)}"
        self.observers = Observers(self.clock, telemetry)
        self.plans = PlanCache(store, handlers, code, evaluates=options.evaluations_max > 0, pools=options.pools)
        self.console = console
        self.threads = HandlerThreads()
        self._tasks = task_queue(elsewhere, gates)
        worker = self._new_task_worker(elsewhere, handlers=handlers, functions=functions, callbacks=callbacks)
        self.orchestrator = self._new_orchestrator(worker)
        self._handover = Handover(store=store, orchestrator=self.orchestrator, task_worker=worker, tasks=self._tasks)
        self.leadership = self._new_leadership(leaders)
        """Whether another worker polls for all workers."""
        self.claimer = self._new_claimer()
        self._leases = Leases(store=store, orchestrator=self.orchestrator, clock=self.clock, lease_ms=options.lease_ms)
        self.loop_watch = self._new_loop_watch()
        self._reports = self._new_reports(digests)
        self.pause_watch = PauseWatch(store=store, orchestrator=self.orchestrator)
        self._external = self._new_external_changes(watch)
        self.hints = self._new_hints(line, watch, target)
        """Hints from and to other processes (`ChangeHints`)."""
        if console is not None:
            console.connect(owns=self.orchestrator.owns, is_watched=self.hints.is_watched)
            self.orchestrator.adopted, self.orchestrator.runs_with_lines = console.take_adoption, console.runs
        self.history = self._new_history_watch()
        self.notices = self._new_notices(telemetry)
        """Receives from the store what it has written."""
        self.housekeeping = self._new_housekeeping()
        for poller in (self.claimer, self.housekeeping):
            self.leadership.add(poller)
        self._stopped = False

    async def start(self) -> None:
        """Return when ready to work. The store must have been started. Raises StoreUnavailable."""
        self.clock.adjust(await self.store.now())
        await self.orchestrator.start()
        await self.history.start()
        if self.options.watches_loop:
            self.loop_watch.start()
        if self.options.works:
            if self.console is not None:
                await self.console.start()
            await self._tasks.start()
            await self._reports.start()
            await self._leases.start()
            await self.pause_watch.look()
            await self._external.start()
            await self.claimer.start()
            await self.housekeeping.start()
            await self.leadership.start()
        await self.hints.start()

    async def stop(self, *, grace_s: float = 0.0, within_s: float | None = None) -> None:
        """Return when everything has ended or is handed over; executions have `grace_s` to end. May be called twice.

        Takes at most `within_s` in total (default: the grace plus `COMMAND_S`), whatever the database does: what is not
        committed by then can be recovered from the log, and leases expire.
        """
        if self._stopped:
            return
        self._stopped = True
        self.orchestrator.owned.accepts = False
        loop = asyncio.get_running_loop()
        end_at = loop.time() + (grace_s + COMMAND_S if within_s is None else within_s)
        await _ended(self.leadership.stop(), end_at, PART_SHARE, "the lead is not given up; it will expire")
        await self.housekeeping.stop()
        await self.history.stop()
        await self.claimer.stop()
        self._tasks.close()
        self.orchestrator.stop_evaluating()
        if grace_s > 0:
            await self._handover.finish(grace_s)
        await self._tasks.stop(patience_s=max(0.0, PART_SHARE * (end_at - loop.time())))
        await self._external.stop()
        await self._reports.stop()
        await _ended(self.orchestrator.stop(), end_at, PART_SHARE, "the last commit may be lost")
        self.observers.record()
        await self._leases.stop()
        if self.console is not None:
            await self.console.stop(patience_s=max(0.0, PART_SHARE * (end_at - loop.time())))
        self.loop_watch.stop()
        await _ended(self._hand_over(), end_at, HANDOVER_SHARE, "leases are not handed over; they will expire")
        await _ended(self.hints.stop(), end_at, 1.0, "some hints to other processes were not sent")

    async def pauses_changed(self) -> None:
        """A pause was added or removed here: act on it, and tell the others. Raises StoreUnavailable."""
        self.hints.send_pauses_changed()
        await self.pause_watch.look()

    def _new_task_worker(self, elsewhere: RemoteExecution | None, **parts: Any) -> TaskWorker:
        return task_worker(
            elsewhere,
            tasks=self._tasks,
            clock=self.clock,
            concurrency=self.options.concurrency,
            threads=self.threads,
            console=self.console,
            **parts,
        )

    def _new_orchestrator(self, worker: TaskWorker) -> Orchestrator:
        return Orchestrator(
            store=self.store,
            task_worker=worker,
            clock=self.clock,
            observers=self.observers,
            worker_id=self.worker_id,
            options=self.options,
        )

    def _new_leadership(self, rows: LeaderRows | None) -> Leadership:
        return Leadership(
            rows=rows,
            worker_id=self.worker_id,
            clock=self.clock,
            poll_ms=self.options.poll_ms,
            send=lambda word: self.hints.send_leader_hint(word),
            offer=lambda: self.hints.offer_work(),
            may_lead=self.options.leads,
        )

    def _new_claimer(self) -> Claimer:
        return Claimer(
            store=self.store,
            orchestrator=self.orchestrator,
            plans=self.plans,
            observers=self.observers,
            clock=self.clock,
            options=self.options,
            covers=self.leadership.covers,
        )

    def _new_history_watch(self) -> HistoryWatch:
        return HistoryWatch(
            store=self.store,
            acknowledged=self.observers.acknowledged,
            clock=self.clock,
            every_ms=self.options.poll_ms,
        )

    def _new_notices(self, telemetry: Telemetry | None) -> StoreNews:
        return StoreNews(
            hints=self.hints,
            clock=self.clock,
            telemetry=telemetry,
            acknowledged=self.observers.acknowledged.note,
        )

    def _new_loop_watch(self) -> LoopWatch:
        options = self.options
        return LoopWatch(
            lease_ms=options.lease_ms, keep_ms=options.blocked_max_ms, keep_leases=self._leases.keep_from_thread
        )

    def _new_housekeeping(self) -> Housekeeping:
        return Housekeeping(
            store=self.store,
            clock=self.clock,
            sweep_interval_ms=self.options.sweep_interval_ms,
            audit_retention_days=self.options.audit_retention_days,
            console=self.console,
            covers=self.leadership.covers,
        )

    def _new_reports(self, digests: Callable[[], Mapping[tuple[str, int], str]]) -> WorkerReports:
        return WorkerReports(
            store=self.store,
            worker_id=self.worker_id,
            clock=self.clock,
            lease_ms=self.options.lease_ms,
            executing=self._tasks.take_busy_max,
            plans=self.plans,
            digests=digests,
            release=self.options.release,
            unavailable=self.orchestrator.note_failure,
            leader_read=self.leadership.confirm,
        )

    def _new_external_changes(self, watch: VersionWatch | None) -> ExternalChanges:
        return ExternalChanges(
            store=self.store,
            orchestrator=self.orchestrator,
            pause_watch=self.pause_watch,
            clock=self.clock,
            look_ms=self.options.poll_ms,
            others_wrote=None if watch is None else self.claimer.soon,
            watched=lambda: watch is not None and self.hints.listening,
            leadership=self.leadership,
            pauses_changed=lambda: self.hints.send_pauses_changed(),
        )

    def _new_hints(self, line: HintLine | None, watch: VersionWatch | None, target: str | None) -> Hints:
        return Hints(
            line=line,
            watch=watch,
            target=target,
            clock=self.clock,
            works=self.options.works,
            compare=self._external.compare_soon,
            pending=self.claimer.soon,
            moved=self._external.soon,
            paused=self._external.pauses_changed,
            leader=self.leadership,
        )

    async def _hand_over(self) -> None:
        try:
            await self.store.release(worker_id=self.worker_id)
            if self.options.works:
                await self._reports.forget()
        except StoreUnavailable as failure:
            logger.warning("leases could not be handed over; they will expire: %s", failure.message)


async def _ended(part: Awaitable[None], end_at: float, share: float, otherwise: str) -> None:
    """Wait for a part of stopping, for that share of the time until `end_at`; log the consequence if it takes
    longer."""
    try:
        async with asyncio.timeout(max(0.0, share * (end_at - asyncio.get_running_loop().time()))):
            await part
    except TimeoutError:
        logger.warning("the database did not answer in time while this process stopped: %s", otherwise)
