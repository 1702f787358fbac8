"""The queues between workers and executors, as ports.

`job_messages` has what they carry, `rabbitmq_transport` implements them on a broker; `tests/transport` tests each
promise below. A queue may lose, repeat, reorder and delay what it carries: senders send again, and both sides know
what they have had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.errors import AnabranchError
from anabranch.transport.job_messages import DeadMessage, JobReport, JobSearch, NodeJob


@dataclass(frozen=True, slots=True)
class JobDelivery:
    """How a job came to an executor."""

    unacknowledged: int
    """The deliveries before it that ended without an acknowledgement."""
    is_open: Callable[[], bool]
    """Whether it can still be acknowledged. If not, its connection has gone, and the broker gives the job to others."""


Accept: TypeAlias = Callable[[NodeJob, JobDelivery], Awaitable[None]]
"""Takes a job; returns when the job is done with, which acknowledges it. One that raises TransportUnavailable goes to
others when this process disconnects."""


# 10 s for the broker to answer a connection, a declaration or a confirmation: longer means that it is not well.
ANSWER_S_MAX = 10.0


class TransportUnavailable(AnabranchError):
    """The broker cannot be reached, or has not confirmed."""

    code = "BROKER_UNAVAILABLE"
    hint = "Check ANABRANCH_BROKER_URL and the broker. Runs wait until it is back."


class Transport(Protocol):
    """All queues of one process."""

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent now: all that is registered is registered with this connection."""

    def when_connected(self, act: Callable[[], None]) -> None:
        """Call this after each connection is made, also later ones."""

    async def start(self) -> None:
        """Begin to connect; returns at once. What is registered is registered again with each connection."""

    async def stop(self, *, patience_s: float = ANSWER_S_MAX) -> None:
        """Disconnect: what is not acknowledged goes to others, and reports to this process find nobody. A broker that
        does not answer is left after `patience_s`."""

    # -- jobs, to executors: for each pool one queue of each priority -----------------------
    async def add_node_job(self, job: NodeJob) -> None:
        """Returns once the job is kept. Raises TransportUnavailable if that is not known."""

    async def cancel(self, ticket: str) -> None:
        """Tell all executors that nobody awaits the job with this ticket; may be lost. Raises TransportUnavailable."""

    async def search(self, search: JobSearch) -> None:
        """Ask all executors for jobs that they have; may be lost. Raises TransportUnavailable."""

    async def register_task_worker(
        self,
        accept: Accept,
        *,
        pools: Sequence[str],
        concurrency: int,
        cancelled: Callable[[str], None],
        sought: Callable[[JobSearch], None],
    ) -> None:
        """Take jobs of these pools, at most `concurrency` unacknowledged ones of each queue; receive cancellations and
        searches."""

    async def stop_taking(self) -> None:
        """Take no further jobs; those that were taken are acknowledged as before. Returns when no more come.

        Raises TransportUnavailable if the broker does not answer: it gives what was taken to others. So it does when
        this is cancelled."""

    # -- reports, to the worker that awaits them ------------------------------------------
    async def add_result(self, reply_to: str, report: JobReport) -> bool:
        """Returns once the report is kept; False if nobody listens there any more. Raises TransportUnavailable."""

    async def register_results_worker(
        self, name: str, receive: Callable[[JobReport], None], *, missed: Callable[[], None]
    ) -> None:
        """Receive the reports to this name, each sender's in order. `missed` is called before a connection is made
        when the queue did not exist before it: until then reports found nobody."""

    # -- jobs that no executor could take, to the workers ---------------------------------
    async def register_dead_letters(self, keep: Callable[[DeadMessage], Awaitable[None]]) -> None:
        """Take them one after the other; each is acknowledged when `keep` returns, and given again if it raises."""
