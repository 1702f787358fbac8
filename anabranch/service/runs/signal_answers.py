"""The answer to a signal: was a matching wait open when it arrived?

Used by `RunVerbs` for signals that this process did not decide itself, and for keys that are sent again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.shared.signals import FoldedSignals
from anabranch.engine.rules.values import Payload

# 16 runs: many signals usually go to few runs at a time.
RUNS_CACHED_MAX = 16


@dataclass(slots=True)
class _Folded:
    log: FoldedSignals = field(default_factory=FoldedSignals)
    delivered: dict[int, bool] = field(default_factory=dict)
    """By the signal's `seq`: was a matching wait open when it arrived?"""
    transition: asyncio.Lock = field(default_factory=asyncio.Lock)


class SignalAnswers:
    """Answers for signals that are in the log.

    Only rows about signals and waits are read, and the results are cached: with many signals to one run each row is
    read once.
    """

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
            return folded.log.signals.oldest_wait(event, payload) is not None

    async def first_answer(self, row: InstanceRow, key: str) -> bool | None:
        """The answer of the first signal with this key; None if the log has none."""
        folded = self._folded_of(row)
        async with folded.transition:
            if key not in folded.log.signals.answers:
                await self._read_on(row, folded)
            return folded.log.signals.answers.get(key)

    def _folded_of(self, row: InstanceRow) -> _Folded:
        instance_id = row.head.instance_id
        folded = self._folded.setdefault(instance_id, _Folded())
        self._folded.move_to_end(instance_id)
        if len(self._folded) > RUNS_CACHED_MAX:
            self._folded.popitem(last=False)
        return folded

    async def _read_on(self, row: InstanceRow, folded: _Folded) -> None:
        known = folded.log
        rows = await self._store.read_signal_waits(
            row.head.instance_id, after_seq=known.last_seq, open_waits=list(known.open)
        )
        for event in rows:
            delivered = known.evolve(event)
            if delivered is not None:
                folded.delivered[event.seq] = delivered
