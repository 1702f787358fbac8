"""Run access: what one call of a workflow function reads of its run, and how it reports.

Used by `durable`, which sees nothing else of owned instances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.engine.ownership.owned_instances import OwnedInstance, OwnedInstances
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.stimuli import StepReport


class RunAccess:
    """Reads the journal of a run and reports the results of steps. Has no effect once the run is no longer owned."""

    def __init__(self, owned_instances: OwnedInstances, owned: OwnedInstance) -> None:
        assert isinstance(owned.state, CodedState), "only coded runs have functions"
        self._owned_instances = owned_instances
        self._owned = owned

    @classmethod
    def of(cls, owned_instances: OwnedInstances, instance_id: str) -> RunAccess | None:
        """The access to this run; None if it is no longer owned."""
        owned = owned_instances.get(instance_id)
        return None if owned is None else cls(owned_instances, owned)

    @property
    def journal(self) -> CodedState | None:
        """The state of the run, including rows in flight. None: it is no longer owned."""
        owned = self._owned
        return owned.state if owned.is_owned else None  # type: ignore[return-value]  # no run changes its kind

    def report(self, report: StepReport) -> None:
        """Report the outcome of a step; the listener is called after the commit."""
        if self._owned.is_owned:
            self._owned_instances.offer(self._owned, report)

    @property
    def committed_seq(self) -> int:
        """The last committed row of the journal; later rows must have no effects yet."""
        return self._owned.committed_seq

    def listen(self, settled: Callable[[], None], steps_under_way: Callable[[], Sequence[str]]) -> None:
        """Set the listener for settled reports, which is called soon after their commit by a plain callback of the
        event loop and raises nothing. `steps_under_way` returns the executing steps, for log lines."""
        self._owned.listener = settled
        self._owned.steps_under_way = steps_under_way

    def stop_listening(self, settled: Callable[[], None]) -> None:
        """Remove the listener, unless another call has set its own."""
        if self._owned.listener == settled:
            self._owned.listener = None
            self._owned.steps_under_way = tuple
