"""Waiters: callers that wait until their signal or cancel is committed, and the answers to those of starts.

No caller is answered before the commit. If the commit will not happen in this process, the caller is referred to the
store.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import Stimulus
from anabranch.engine.rules.transitions import PendingTransition
from anabranch.errors import NotFound


@dataclass(frozen=True, slots=True)
class StartResult:
    """The result of a start: the instance, and whether this call created it."""

    instance_id: str
    status: Status
    created: bool


@dataclass(frozen=True, slots=True)
class OfferResult:
    """The result of a signal or cancel offered to an owned instance; `owned` False: it is not owned here any more."""

    owned: bool
    status: Status = Status.RUNNING
    delivered: bool | None = False
    """For a signal: whether a matching wait was open. None: the run ended first, so the signal was not kept."""
    refused: str | None = None


def why_rejected(head: InstanceHead) -> NotFound:
    """The answer to the start of a rejected run."""
    if head.parent_id is None:
        return NotFound(f"workflow {head.workflow_id} was deleted before the run could begin")
    return NotFound(f"run {head.instance_id}: its workflow was deleted, or its parent no longer needs it")


class Waiters:
    """The callers of signals and cancels to one owned instance."""

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests: list[tuple[Stimulus, asyncio.Future[OfferResult]]] = []
        """Each request, with the future that its caller awaits."""

    def add(self, stimulus: Stimulus) -> asyncio.Future[OfferResult]:
        """A future for the outcome of a stimulus that is about to be offered."""
        answer: asyncio.Future[OfferResult] = asyncio.get_running_loop().create_future()
        self.requests.append((stimulus, answer))
        return answer

    def answer(self, pending: PendingTransition) -> None:
        """Answer the callers of signals and cancels."""
        decided = {
            id(stimulus): decision for stimulus, decision in zip(pending.stimuli, pending.decisions, strict=True)
        }
        waiting = []
        for stimulus, future in self.requests:
            decision = decided.get(id(stimulus))
            if decision is None:
                waiting.append((stimulus, future))
            elif not future.done():
                status = pending.leased.state.status
                future.set_result(
                    OfferResult(owned=True, status=status, delivered=decision.delivered, refused=decision.refused)
                )
        self.requests = waiting

    def refuse(self, stimulus: Stimulus, code: str) -> None:
        """Raise the refusal to the caller."""
        for request, future in self.requests:
            if request is stimulus and not future.done():
                future.set_result(OfferResult(owned=True, refused=code))
        self.requests = [(request, future) for request, future in self.requests if request is not stimulus]

    def refer_to_store(self) -> None:
        """Answer the remaining callers that the run is no longer owned."""
        for _, future in self.requests:
            if not future.done():
                future.set_result(OfferResult(owned=False))
