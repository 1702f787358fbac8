"""A session on a data source as the service sees it: runs one query at a time, in a thread.

Implemented by `driver_process`; called by `query_execution` from a worker thread, except `interrupt`, which any thread
may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from anabranch.dataclass import dataclass
from anabranch.queries.limits import Limits
from anabranch.queries.parameters import Bound
from anabranch.queries.query_results import QueryResult
from anabranch.queries.statement import Statement


@dataclass(frozen=True, slots=True)
class QueryExecution:
    """One execution of one query."""

    statement: Statement
    values: Mapping[str, Bound]
    writes: bool
    timeout_ms: int
    limits: Limits
    as_in_node: bool = False
    """PostgreSQL's values are those that the driver of Node.js gives to JSON."""


class QuerySession(Protocol):
    """A connection to a data source; made without connecting, which its first use does."""

    @property
    def is_reusable(self) -> bool:
        """Whether it can run another query; it is reset then."""

    def run(self, work: QueryExecution) -> QueryResult:
        """Run the query in its own transaction and return the result. Raises NodeFailure after a rollback."""

    def check(self) -> None:
        """Connect, and refuse a role or a database that is not for queries. Raises NodeFailure."""

    def interrupt(self) -> None:
        """End the running query; thread-safe. The session is closed afterwards."""

    def close(self) -> None:
        """Disconnect; never raises."""
