"""DataService: save, list, run and delete data sources and saved queries.

Called by the APIs and the command line; knows no HTTP. Every verb takes the tenant; what belongs to another tenant
reads as absent. All problems of something that is to be saved are reported at once, with JSON pointers. What an `actor`
(the id of a key, or `cli`) saves and deletes is in the audit trail.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.deferred import deferred
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.values import is_storable
from anabranch.errors import NodeFailure, NotFound, QueryFailed, SourceTooPowerful
from anabranch.queries.lexing import SourceKind
from anabranch.queries.limits import STATEMENT_TIMEOUT_MS, STATEMENT_TIMEOUT_MS_MAX
from anabranch.queries.query_engine import QueryEngine
from anabranch.queries.query_faults import RoleTooPowerful
from anabranch.queries.saved.saved_queries import DataQuery, DataSource, SavedQueries, SavedSource
from anabranch.queries.sources import LocalPaths, ReadyUrl, ServerSource, SqliteSource, read_source
from anabranch.queries.urls import SourceUrls
from anabranch.service.documents import Problem, check_fields, check_name, refused

# Needed only to save a query:
if TYPE_CHECKING:
    from anabranch.queries import parameters as declared
    from anabranch.queries import statement as sql
else:
    declared = deferred("anabranch.queries.parameters")
    sql = deferred("anabranch.queries.statement")

_SOURCE_FIELDS = frozenset({"name", "url"})
_QUERY_FIELDS = frozenset({"name", "dataSourceID", "sql", "params", "writes", "timeout"})


class DataService:
    """Data sources and queries of one database."""

    def __init__(self, *, saved: SavedQueries, urls: SourceUrls, queries: QueryEngine, local_paths: LocalPaths) -> None:
        self.saved = saved
        """Where sources and queries are kept."""
        self._urls = urls
        self._local_paths = local_paths
        self.queries = queries
        """Runs them: what the `dataQuery` node type is given."""

    # -- sources --------------------------------------------------------------------------
    async def create_source(self, document: Any, *, tenant_id: str, actor: str | None = None) -> SavedSource:
        """Connect to `{"name", "url"}`, and save it.

        A source that cannot be reached now is saved with a warning; its privileges are checked whenever a query
        connects. Raises InvalidRequest, SourceTooPowerful, NameTaken, SettingsError (no key for a password).
        """
        return await self._save_source(document, tenant_id=tenant_id, data_source_id=str(uuid.uuid4()), actor=actor)

    async def update_source(self, key: str, document: Any, *, tenant_id: str, actor: str | None = None) -> SavedSource:
        """Replace name and URL. Its queries run on the new URL from their next execution on. Raises NotFound too."""
        known = await self.get_source(key, tenant_id=tenant_id)
        return await self._save_source(document, tenant_id=tenant_id, data_source_id=known.data_source_id, actor=actor)

    async def list_sources(self, *, tenant_id: str) -> Sequence[DataSource]:
        """All of them, by name."""
        return await self.saved.list_sources(tenant_id=tenant_id)

    async def get_source(self, key: str, *, tenant_id: str) -> DataSource:
        """One by id or name. Raises NotFound."""
        found = await self.saved.find_source(key, tenant_id=tenant_id) if is_storable(key) else None
        if found is None:
            raise NotFound(f"there is no data source {key!r}", hint="`anabranch sources list` shows the sources.")
        return found

    async def delete_source(self, key: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove one that no query names. Raises NotFound, DataSourceInUse."""
        known = await self.get_source(key, tenant_id=tenant_id)
        await self.saved.delete_source(known.data_source_id, tenant_id=tenant_id, actor=actor)

    # -- queries --------------------------------------------------------------------------
    async def create_query(self, document: Any, *, tenant_id: str, actor: str | None = None) -> DataQuery:
        """Save `{"name", "dataSourceID", "sql", "params"?, "writes"?, "timeout"?}`.

        Raises InvalidRequest, NameTaken.
        """
        return await self._save_query(document, tenant_id=tenant_id, data_query_id=str(uuid.uuid4()), actor=actor)

    async def update_query(self, key: str, document: Any, *, tenant_id: str, actor: str | None = None) -> DataQuery:
        """Replace a query as a whole. Raises NotFound too."""
        known = await self.get_query(key, tenant_id=tenant_id)
        return await self._save_query(document, tenant_id=tenant_id, data_query_id=known.data_query_id, actor=actor)

    async def list_queries(self, *, tenant_id: str) -> Sequence[DataQuery]:
        """All of them, by name."""
        return await self.saved.list_queries(tenant_id=tenant_id)

    async def get_query(self, key: str, *, tenant_id: str) -> DataQuery:
        """One by id or name. Raises NotFound."""
        found = await self.saved.find_query(key, tenant_id=tenant_id) if is_storable(key) else None
        if found is None:
            raise NotFound(f"there is no data query {key!r}", hint="`anabranch queries list` shows the queries.")
        return found[0]

    async def delete_query(self, key: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove one; workflows that name it fail with QUERY_NOT_FOUND. Raises NotFound."""
        known = await self.get_query(key, tenant_id=tenant_id)
        await self.saved.delete_query(known.data_query_id, tenant_id=tenant_id, actor=actor)

    async def run_query(self, key: str, args: Mapping[str, Any], *, tenant_id: str) -> Mapping[str, Any]:
        """`{"rows", "rowCount"}`, as a node would get it. Raises NotFound, QueryFailed."""
        known = await self.get_query(key, tenant_id=tenant_id)
        try:
            return await self.queries.run_query(tenant_id=tenant_id, data_query_id=known.data_query_id, args=args)
        except NodeFailure as failure:
            raise QueryFailed(str(failure), details={"code": failure.code}) from None

    async def _save_source(
        self, document: Any, *, tenant_id: str, data_source_id: str, actor: str | None
    ) -> SavedSource:
        name = _name_of(document, _SOURCE_FIELDS, ("url",))
        try:
            url = await self._urls.resolve(document["url"], tenant_id=tenant_id)
            source = await asyncio.to_thread(read_source, url, self._local_paths)
        except NodeFailure as refusal:
            raise refused([(refusal.code, "/url", str(refusal))]) from None
        stored, sealed = self._urls.encrypt_url(document["url"], tenant_id=tenant_id, data_source_id=data_source_id)
        warnings = await self._check_source(url, source)
        wanted = DataSource(data_source_id, tenant_id, name, source.kind, url.address_of(source), stored, sealed, 0, 0)
        return SavedSource(await self.saved.save_source(wanted, actor=actor), warnings)

    async def _check_source(self, url: ReadyUrl, source: SqliteSource | ServerSource) -> Sequence[Problem]:
        """Check a source; returns what is not known. Raises SourceTooPowerful, InvalidRequest for our own database."""
        try:
            await self.queries.check_source(url, source)
        except RoleTooPowerful as refusal:
            detail = {"code": refusal.code, "pointer": "/url", "message": refusal.what}
            raise SourceTooPowerful(refusal.what, hint=refusal.hint, details=[detail]) from None
        except NodeFailure as failure:
            if failure.code == "SOURCE_REFUSED":
                raise refused([(failure.code, "/url", str(failure))]) from None
            return [(failure.code, "/url", f"the source was not checked: {failure}")]
        return []

    async def _save_query(self, document: Any, *, tenant_id: str, data_query_id: str, actor: str | None) -> DataQuery:
        name = _name_of(document, _QUERY_FIELDS, ("dataSourceID", "sql"))
        writes = document.get("writes", False)
        if not isinstance(writes, bool):
            raise refused([("WRONG_TYPE", "/writes", "writes is true or false")])
        timeout_ms = _timeout_of(document)
        try:
            source = await self.get_source(document["dataSourceID"], tenant_id=tenant_id)
        except NotFound as absent:
            raise refused([("NOT_FOUND", "/dataSourceID", absent.message)]) from None
        try:
            statement = sql.read_statement(document["sql"], SourceKind(source.kind), writes=writes)
            parameters = declared.read_parameters(document.get("params"), statement.parameters)
        except sql.StatementRefused as refusal:
            raise refused([(each.code, "/sql", each.message) for each in refusal.refusals]) from None
        except declared.ParametersRefused as refusal:
            problems = [("CONFIG_INVALID", f"/params{pointer}", message) for pointer, message in refusal.problems]
            raise refused(problems) from None
        return await self.saved.save_query(
            DataQuery(
                data_query_id,
                tenant_id,
                name,
                source.data_source_id,
                document["sql"],
                declared.declaration_of(parameters),
                writes,
                timeout_ms,
                0,
                0,
            ),
            actor=actor,
        )


def _name_of(document: Any, known: frozenset[str], required: Sequence[str]) -> str:
    """The name, once the document has the fields it must, and no others. Raises InvalidRequest."""
    check_fields(document, known=known, texts=("name", *required))
    return check_name(document["name"])


def _timeout_of(document: Mapping[str, Any]) -> int:
    given = document.get("timeout")
    try:
        timeout_ms = STATEMENT_TIMEOUT_MS if given is None else parse_duration(given)
    except ValueError as misfit:
        raise refused([("BAD_TIMEOUT", "/timeout", str(misfit))]) from None
    if not 1 <= timeout_ms <= STATEMENT_TIMEOUT_MS_MAX:
        text = f"a timeout is 1 ms to {STATEMENT_TIMEOUT_MS_MAX // 60_000} minutes"
        raise refused([("BAD_TIMEOUT", "/timeout", text)])
    return timeout_ms
