"""The options of an engine: limits, intervals and lease times."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.dataclass import dataclass
from anabranch.engine.rules.drawn.outcomes import EVALUATIONS_MAX
from anabranch.engine.rules.graph.pools import DEFAULT_POOL
from anabranch.engine.rules.shared.blame import CRASHES_MAX
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.transitions import BATCH_TRANSITIONS_MAX

# The interval of looking for parked timers: half of the promised second of lateness.
POLL_MS = 500


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of one engine. Times are in milliseconds."""

    release: str = ""
    """The version of this program: runs that another one could not decide are offered to it."""
    lease_ms: int = 30_000
    """30 s: short enough to notice a crash soon, long enough to survive a pause of a few seconds."""
    concurrency: int = 64
    """Concurrent executions: handlers mostly wait for other systems."""
    held_max: int = 10_000
    """Instances in memory: some kilobytes each."""
    held_per_tenant_max: int | None = None
    """Of these, instances of one tenant; None: no separate limit."""
    crashes_max: int = CRASHES_MAX
    """Crashes of its process after which a run that was the only suspect there is suspended."""
    batch_transitions_max: int = BATCH_TRANSITIONS_MAX
    """Transitions in one commit."""
    evaluations_max: int = EVALUATIONS_MAX
    """Pure nodes that one transition evaluates; 0: they are executed as jobs."""
    log_limit: LogLimit = LOG_LIMIT
    """The size limit of one log; a run whose log is full ends."""
    poll_ms: int = POLL_MS
    """The interval of polling for due work and for external changes; hints shorten it."""
    sweep_interval_ms: int = 300_000
    """5 min between two sweeps; retention is counted in days."""
    audit_retention_days: int = 400
    """A year, plus some weeks to review it."""
    blocked_max_ms: int = 60_000
    """60 s: how long leases are extended while a handler blocks the event loop. After that the process counts as
    hanging."""
    watches_loop: bool = True
    """False: a blocked event loop is not detected; for loops with simulated time."""
    works: bool = True
    """False: accepts starts, signals and cancels, but executes nothing."""
    leads: bool = True
    """False: never polls for the other workers."""
    only: Sequence[str] | None = None
    """Adopt only these instances."""
    pools: Sequence[str] = (DEFAULT_POOL,)
    """The pools whose runs it takes."""

    @property
    def tenant_max(self) -> int:
        """How many instances of one tenant may be in memory."""
        return self.held_max if self.held_per_tenant_max is None else self.held_per_tenant_max
