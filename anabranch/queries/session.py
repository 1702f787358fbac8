"""What every driver's file offers: a connection that runs one query at a time, in a thread.

Implemented by `sqlite`, `postgresql` and `mysql`; called by `execution` from a worker thread, but
for `interrupt`, which any thread may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from anabranch.queries.answers import Answer
from anabranch.queries.limits import Limits
from anabranch.queries.parameters import Bound
from anabranch.queries.statement import Statement


@dataclass(frozen=True, slots=True)
class Work:
    """One execution of one query."""

    statement: Statement
    values: Mapping[str, Bound]
    writes: bool
    timeout_ms: int
    limits: Limits


class Session(Protocol):
    """A connection to a data source."""

    def run(self, work: Work) -> Answer:
        """The answer, in a transaction of its own. Raises NodeFailure; the transaction is then undone."""

    def reset(self) -> bool:
        """Make it as new for the next query; False if it cannot be used again."""

    def interrupt(self) -> None:
        """End whatever runs, from any thread; the session is closed afterwards."""

    def close(self) -> None:
        """Disconnect; never raises."""


# The tables by which a database is known as one of anabranch's: whatever name it was reached by.
OWN_TABLES = ("workflow_instances", "workflow_instance_logs")

OWN_DATABASE = "this database holds anabranch's own tables; such a database is never a data source"
