"""Which worker can run which run: node types and code. And the suspension of runs that no worker can run.

Pure. Called by the stores and by the services that start runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.payloads import RunFailedPayload, RunSuspended
from anabranch.errors import RunError


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run needs of a worker."""

    kind: str
    workflow: str
    version: int
    node_types: Sequence[str] = ()

    def met_by(self, *, code: Collection[tuple[str, int]], node_types: Collection[str]) -> bool:
        """Whether a worker with this code and these custom node types can run it."""
        if self.kind == CODED_KIND:
            return (self.workflow, self.version) in code
        return all(each in node_types for each in self.node_types)


def nobody_fits(needs: Needs) -> RunSuspended:
    """The suspension of a run that no worker can run."""
    if needs.kind == CODED_KIND:
        message = f"no worker knows version {needs.version} of the coded workflow {needs.workflow!r}"
        hint = "Start a worker that imports it (`--import`): the run goes on by itself."
        return RunSuspended(SuspendReason.UNKNOWN_WORKFLOW, message, hint)
    types = ", ".join(map(repr, needs.node_types))
    message = f"no worker has the node type{'s' if len(needs.node_types) > 1 else ''} {types}"
    hint = "Start a worker that imports them (`--import`) or has their package: the run goes on by itself."
    return RunSuspended(SuspendReason.UNKNOWN_NODE_TYPE, message, hint)


def deadline_passed_unfit(deadline_at: int) -> RunFailedPayload:
    """The failure of a run whose deadline passes while no worker can run it."""
    return RunFailedPayload(
        RunError("DEADLINE_EXCEEDED", "DeadlineExceeded", f"the run was not done by {to_iso(deadline_at)}")
    )
