"""Do tenants take turns? Watches the job queue of one process: who waits in it, and who is served meanwhile.

Put around the queue's jobs by `machines`; the queue itself is the engine's.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from anabranch.engine.queues import Job
from anabranch.engine.queues.task_queue import FairJobs

PROMISE = "a tenant's ready job is not overtaken by more than one round of another tenant's"


@dataclass(slots=True)
class _Waiting:
    """A tenant of which jobs wait."""

    arrivals: deque[int] = field(default_factory=deque)
    """When its jobs came, as numbers that only grow."""
    overtaken_by: Counter[str] = field(default_factory=Counter)
    """How many jobs of each other tenant were begun since it was served last, or since the oldest one came."""


class WatchedJobs:
    """Jobs that wait for a slot, as `FairJobs` keeps them."""

    def __init__(self, jobs: FairJobs, *, accuse: Callable[[str, str, str], None], rarities: Counter[str]) -> None:
        self._jobs = jobs
        self._accuse = accuse
        self._rarities = rarities
        self._count = 0
        self._waiting: dict[str, _Waiting] = {}

    @property
    def waiting(self) -> int:
        """See `FairJobs.waiting`."""
        return self._jobs.waiting

    def clear(self) -> None:
        """See `FairJobs.clear`."""
        self._jobs.clear()
        self._waiting.clear()

    def take_all(self) -> list[Job]:
        """See `FairJobs.take_all`."""
        self._waiting.clear()
        return self._jobs.take_all()

    def add(self, job: Job) -> None:
        """See `FairJobs.add`."""
        self._jobs.add(job)
        self._count += 1
        self._waiting.setdefault(job.tenant_id, _Waiting()).arrivals.append(self._count)

    def pop(self) -> Job | None:
        """See `FairJobs.pop`; who waits on is looked at."""
        job = self._jobs.pop()
        if job is not None:
            self._served(job)
        return job

    def _served(self, job: Job) -> None:
        of = self._waiting.pop(job.tenant_id)
        arrived = of.arrivals.popleft()
        for tenant_id, other in self._waiting.items():
            self._rarities["job begun before an older one of another tenant"] += other.arrivals[0] < arrived
            other.overtaken_by[job.tenant_id] += 1
            overtaken = other.overtaken_by[job.tenant_id]
            if overtaken > 1:
                what = f"{overtaken} jobs of {job.tenant_id} were begun while one of {tenant_id} was ready"
                self._accuse(PROMISE, what, job.instance_id)
        if of.arrivals:
            self._waiting[job.tenant_id] = _Waiting(of.arrivals)
