"""Answers to signals: was a matching wait open? For signals that this process did not decide itself.

Called by the service after it has stored a signal for a run of another process, and for repeated keys. Only rows about
signals and waits are read, and the results are cached: with many signals to one run each row is read once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.shared.shared_events import SignalWaits
from anabranch.engine.rules.values import Payload

# 16 runs: many signals usually go to few runs at a time.
RUNS_MAX = 16


@dataclass(slots=True)
class _Folded:
    waits: SignalWaits
    delivered: dict[int, bool] = field(default_factory=dict)
    """By the signal's `seq`: was a matching wait open when it arrived?"""
    transition: asyncio.Lock = field(default_factory=asyncio.Lock)


class SignalAnswers:
    """A cache of the signals of recently requested runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folded: OrderedDict[str, _Folded] = OrderedDict()

    async def was_delivered(self, row: InstanceRow, seq: int) -> bool:
        """Whether a matching wait was open when the signal at `seq` arrived. The signal must be in the log."""
        folded = self._folded_of(row)
        async with folded.transition:
            if seq not in folded.delivered:
                await self._read_on(row, folded)
            return folded.delivered[seq]

    async def is_awaited(self, row: InstanceRow, event: str, payload: Payload) -> bool:
        """Whether an open wait matches the signal and is not taken by an earlier one."""
        folded = self._folded_of(row)
        async with folded.transition:
            await self._read_on(row, folded)
            return folded.waits.oldest_wait(event, payload) is not None

    async def first_answer(self, row: InstanceRow, key: str) -> bool | None:
        """The answer of the first signal with this key; None if the log has none."""
        folded = self._folded_of(row)
        async with folded.transition:
            if key not in folded.waits.signal_answers:
                await self._read_on(row, folded)
            return folded.waits.signal_answers.get(key)

    def _folded_of(self, row: InstanceRow) -> _Folded:
        instance_id = row.head.instance_id
        folded = self._folded.setdefault(instance_id, _Folded(SignalWaits(row.head)))
        self._folded.move_to_end(instance_id)
        if len(self._folded) > RUNS_MAX:
            self._folded.popitem(last=False)
        return folded

    async def _read_on(self, row: InstanceRow, folded: _Folded) -> None:
        waits = folded.waits
        rows = await self._store.read_signal_waits(
            row.head.instance_id, after_seq=waits.last_seq, open_waits=list(waits.open)
        )
        for event in rows:
            delivered = waits.evolve(event)
            if delivered is not None:
                folded.delivered[event.seq] = delivered
