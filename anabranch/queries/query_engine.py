"""The query engine: runs a saved query of a tenant with arguments and returns rows.

Called by the `dataQuery` node type and by the service. It finds the query, checks its SQL and its source again, binds
the arguments, and runs it in a driver process.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.deferred import deferred
from anabranch.errors import EgressRefused, HttpUnreachable, NodeFailure
from anabranch.queries.lexing import SourceKind
from anabranch.queries.limits import ADDRESSES_TRIED_MAX, Limits
from anabranch.queries.query_faults import egress_refused, not_allowed, not_found, unreachable
from anabranch.queries.query_ports import HostGuard
from anabranch.queries.saved.saved_queries import DataQuery, DataSource, SavedQueries
from anabranch.queries.sources import LocalPaths, ReadyUrl, ServerSource, SqliteSource, read_source
from anabranch.queries.urls import SourceUrls

# Needed only to run a query:
if TYPE_CHECKING:
    from anabranch.queries import driver_process, parameters, query_execution, query_session, statement
    from anabranch.queries.drivers import driver_requests
else:
    driver_process = deferred("anabranch.queries.driver_process")
    driver_requests = deferred("anabranch.queries.drivers.driver_requests")
    parameters = deferred("anabranch.queries.parameters")
    query_execution = deferred("anabranch.queries.query_execution")
    query_session = deferred("anabranch.queries.query_session")
    statement = deferred("anabranch.queries.statement")


class QueryEngine:
    """Runs saved queries on data sources."""

    def __init__(
        self,
        *,
        saved: SavedQueries,
        urls: SourceUrls,
        hosts: HostGuard,
        local_paths: LocalPaths,
        limits: Limits | None = None,
    ) -> None:
        self._saved = saved
        self._urls = urls
        self._hosts = hosts
        self._local_paths = local_paths
        self._limits = limits or Limits()
        self._is_stopped = False

    @cached_property
    def _executions(self) -> query_execution.Executions:
        """Made for the first query."""
        if self._is_stopped:
            raise RuntimeError("queries have been stopped")
        return query_execution.Executions(self._limits)

    async def run_query(
        self, *, tenant_id: str, data_query_id: str, args: Mapping[str, Any], as_in_node: bool = False
    ) -> Mapping[str, Any]:
        """`{"rows", "rowCount"}` of a tenant's query, given its id or its name; `as_in_node`: PostgreSQL's values as
        the driver of Node.js gives them to JSON.

        Raises NodeFailure: QUERY_NOT_FOUND, QUERY_ARGS_INVALID, QUERY_FAILED, QUERY_TIMEOUT,
        QUERY_TOO_LARGE, SOURCE_REFUSED, SOURCE_TOO_POWERFUL, EGRESS_REFUSED. No message holds a
        secret of the source.
        """
        found = await self._saved.find_query(data_query_id, tenant_id=tenant_id)
        if found is None:
            raise not_found(f"there is no data query {data_query_id!r}")
        query, saved_source = found
        if saved_source is None:
            raise not_found(f"the data source of query {query.name!r} no longer exists")
        values = parameters.bind(parameters.read_parameters(query.params, list(query.params)), args)
        url = await self._urls.decrypt_url(saved_source)
        # Names are resolved and paths followed here, which may take its time: not on the event loop.
        source = await asyncio.to_thread(read_source, url, self._local_paths)
        prepared = _statement(query, source.kind)
        work = query_session.QueryExecution(prepared, values, query.writes, query.timeout_ms, self._limits, as_in_node)
        try:
            opening = self._opening(source, url, self._limits.connect_timeout_ms)
            answer = await self._executions.run(_pool_key(saved_source, url), opening, work)
        except NodeFailure as failure:
            raise url.mask_of(source).failure(failure) from None
        return answer.as_json()

    async def check_source(self, url: ReadyUrl, source: SqliteSource | ServerSource) -> None:
        """Connect to a source once.

        Raises NodeFailure: SOURCE_TOO_POWERFUL or SOURCE_REFUSED if queries may not run there; another code
        (EGRESS_REFUSED, QUERY_FAILED, QUERY_TIMEOUT) if that cannot be found out now.
        """
        try:
            await self._executions.check(self._opening(source, url, self._limits.check_timeout_ms))
        except NodeFailure as failure:
            raise url.mask_of(source).failure(failure) from None

    async def stop(self, *, patience_s: float = math.inf) -> None:
        """Interrupt what runs and disconnect; may be called twice. Queries have that long to notice, and a limit."""
        self._is_stopped = True
        if "_executions" in vars(self):  # else there was no query
            await self._executions.stop(patience_s=patience_s)

    def _opening(
        self, source: SqliteSource | ServerSource, url: ReadyUrl, timeout_ms: int
    ) -> Callable[[], query_session.QuerySession]:
        """Makes the process that connects; called in a thread, where names are resolved. Raises NodeFailure."""

        def open_file(file: SqliteSource) -> query_session.QuerySession:
            """Start the process that opens the file."""
            return driver_process.DriverProcess(
                file.kind,
                driver_requests.DatabaseTarget(path=str(file.path), connect_timeout_ms=timeout_ms),
                url.mask_of(file),
            )

        def open_server(server: ServerSource) -> query_session.QuerySession:
            """Resolve the host and start the process that connects to it."""
            addresses = [] if server.socket_directory is not None else self._addresses(server)
            target = driver_requests.DatabaseTarget(
                host=server.host,
                addresses=addresses,
                port=server.port,
                user=server.user,
                password=server.password,
                database=server.database,
                socket_directory=server.socket_directory,
                tls=server.tls,
                connect_timeout_ms=timeout_ms,
            )
            return driver_process.DriverProcess(server.kind, target, url.mask_of(server, addresses))

        return lambda: open_file(source) if isinstance(source, SqliteSource) else open_server(source)

    def _addresses(self, server: ServerSource) -> Sequence[str]:
        try:
            return self._hosts.check(server.host, server.port)[:ADDRESSES_TRIED_MAX]
        except EgressRefused as refusal:
            raise egress_refused(refusal.message) from None
        except HttpUnreachable as absent:
            raise unreachable(absent.message) from None


def _statement(query: DataQuery, kind: SourceKind) -> statement.Statement:
    try:
        return statement.read_statement(query.sql, kind, writes=query.writes)
    except statement.StatementRefused as refusal:  # saved by another release, or the source has become another kind
        raise not_allowed(f"query {query.name!r}: {refusal}") from None


def _pool_key(source: DataSource, url: ReadyUrl) -> str:
    """The key of a tenant's source with this URL; hashed, because keys get to places where URLs must not."""
    text = "\x00".join((source.tenant_id, source.data_source_id, url.text))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
