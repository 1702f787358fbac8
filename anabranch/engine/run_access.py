"""The run access: how a workflow function reads its journal and reports to the engine.

Called by the runner of coded workflows, once for each call of a workflow function. It reads the
journal, hands in reports, and is told when something is settled; all of it ends by itself when
the run is not advanced here any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.engine.ownership.owned import OwnedInstance, OwnedInstances
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.stimuli import StepReport


class RunAccess:
    """One coded run, as long as it is held under this very adoption."""

    def __init__(self, held_instances: OwnedInstances, held: OwnedInstance) -> None:
        self._held_instances = held_instances
        self._held = held

    @property
    def journal(self) -> CodedState | None:
        """What is known of the run, and what is about to be committed. None: it is not advanced here any more."""
        state = self._held.state
        if not self._held.is_held or not isinstance(state, CodedState):
            return None
        return state

    def report(self, report: StepReport) -> None:
        """Hand in what a step came to; the listener is called once it is settled."""
        if self._held.is_held:
            self._held_instances.offer(self._held, report)

    @property
    def settled_seq(self) -> int:
        """The last row of the journal that is committed: nothing may be done because of a later one."""
        return self._held.settled_seq

    def listen(self, settled: Callable[[], None], steps_under_way: Callable[[], Sequence[str]]) -> None:
        """Be told whenever something is settled; on release the caller may ask which steps are under way."""
        self._held.listener = settled
        self._held.steps_under_way = steps_under_way

    def stop_listening(self, settled: Callable[[], None]) -> None:
        """Be told no more, unless another call listens by now."""
        if self._held.listener == settled:
            self._held.listener = None
            self._held.steps_under_way = tuple


def run_access_of(held_instances: OwnedInstances, instance_id: str) -> RunAccess | None:
    """The run access of a held instance; None: it is not advanced here any more."""
    held = held_instances.get(instance_id)
    return None if held is None else RunAccess(held_instances, held)
