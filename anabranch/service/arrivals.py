"""How signals met the waits of their runs, for those that this process did not decide itself.

Called by the façade after it has written a signal past the engine, and for repeated keys. Only the
log knows the answer: a wait that is still open may have been promised an earlier signal. So a log is
folded up to its newest signal, and what came of each is remembered: of many signals to one run each
event is read once, not once for every later signal.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.evolve import evolve
from anabranch.engine.rules.states import AnyState, new_state
from anabranch.engine.rules.values import Payload

# 16 runs: a folded run may hold 16 MB, and whoever sends many signals sends them to few runs at a time.
RUNS_MAX = 16

ReadLog = Callable[[InstanceRow, int], Awaitable[list[Event]]]
"""The events of a run after a `seq`."""


@dataclass(slots=True)
class _Folded:
    state: AnyState
    delivered: dict[int, bool] = field(default_factory=dict)
    """By the signal's `seq`: was a fitting wait open when it arrived?"""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Arrivals:
    """The signals of the runs that were asked for last."""

    def __init__(self, plans: PlanCache, read_log: ReadLog) -> None:
        self._plans = plans
        self._read_log = read_log
        self._folded: OrderedDict[str, _Folded] = OrderedDict()

    async def was_delivered(self, row: InstanceRow, seq: int) -> bool:
        """Was a fitting wait open when the signal at `seq` arrived? It is in the log."""
        folded = await self._folded_of(row)
        async with folded.turn:
            if seq not in folded.delivered:
                await self._read_on(row, folded)
            return folded.delivered[seq]

    async def is_awaited(self, row: InstanceRow, event: str, payload: Payload) -> bool:
        """Is a wait open that such a signal fits, and that no earlier one is promised to?"""
        folded = await self._folded_of(row)
        async with folded.turn:
            await self._read_on(row, folded)
            return folded.state.oldest_wait(event, payload) is not None

    async def first_answer(self, row: InstanceRow, key: str) -> bool | None:
        """What the first signal with this key was answered; None if there is none in the log."""
        folded = await self._folded_of(row)
        async with folded.turn:
            if key not in folded.state.signal_answers:
                await self._read_on(row, folded)
            return folded.state.signal_answers.get(key)

    async def _folded_of(self, row: InstanceRow) -> _Folded:
        instance_id = row.head.instance_id
        if instance_id not in self._folded:
            fresh = _Folded(new_state(await self._plans.plan_of(row.head), row.head))
            self._folded.setdefault(instance_id, fresh)  # somebody may have been quicker while we looked for the plan
            if len(self._folded) > RUNS_MAX:
                self._folded.popitem(last=False)
        folded = self._folded[instance_id]
        self._folded.move_to_end(instance_id)
        return folded

    async def _read_on(self, row: InstanceRow, folded: _Folded) -> None:
        state = folded.state
        for event in await self._read_log(row, state.last_seq):
            if event.type is EventType.SIGNAL_RECEIVED:
                note = event.payload.value
                wait = state.oldest_wait(note["event"], Payload.trusted(note["payload"]))
                folded.delivered[event.seq] = wait is not None
            evolve(state, event)
