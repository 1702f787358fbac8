"""Resources of a process for its engine and services: database, spans, secrets, data sources, keys, sandbox.

Called by `composition` and `trigger_services`. Each function opens one resource for the time of an `async with`, and
closes it within the grace.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.dataclass import dataclass
from anabranch.dead_letters.dead_letter_table import DeadLetterTable
from anabranch.dead_letters.dead_letters import DeadLetterRows
from anabranch.deferred import deferred
from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.engine.store.opening import open_store as make_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.engine.store.sqlite.sqlite_dialect import SqliteDialect
from anabranch.errors import SettingsError
from anabranch.grace import Grace
from anabranch.handlers import Services
from anabranch.handlers.sandbox import Sandbox
from anabranch.migrations import ensure_schema
from anabranch.queries.query_engine import QueryEngine
from anabranch.queries.saved.data_service import DataService
from anabranch.queries.saved.query_tables import DataQueries
from anabranch.queries.sources import LocalPaths
from anabranch.queries.urls import SourceUrls
from anabranch.secrets.cipher import SecretCipher
from anabranch.secrets.job_seals import JobSeals
from anabranch.secrets.key import find_key
from anabranch.secrets.renewed_table import RenewedTable
from anabranch.secrets.renewed_tokens import RenewedTokens
from anabranch.secrets.secret_store import SecretStore
from anabranch.secrets.secret_table import SecretTable
from anabranch.service import ChildRuns
from anabranch.settings import EMBEDDED_DATABASE_URL, Settings
from anabranch.telemetry import SpanSink
from anabranch.triggers.webhooks.callback_addresses import CallbackAddresses
from anabranch.triggers.webhooks.test_addresses import TestAddresses
from anabranch.variables.saved_variables import VariableRows
from anabranch.variables.variable_table import VariableTable

# Only the APIs need these; `anabranch run` does not import them.
if TYPE_CHECKING:
    from anabranch.audit import audit_table, counted_entries
    from anabranch.keys import access as key_access
    from anabranch.keys import key_table
else:
    audit_table = deferred("anabranch.audit.audit_table")
    counted_entries = deferred("anabranch.audit.counted_entries")
    key_access = deferred("anabranch.keys.access")
    key_table = deferred("anabranch.keys.key_table")

# The SDK of OpenTelemetry is an extra and takes half a second to import, so it is only imported to export spans.
_OTLP = "anabranch.telemetry.otlp"

# 500 ms for the database to finish statements whose results are not needed; longer ones are abandoned.
CLOSING_S = 0.5

# 1 s for the last spans: what a collector does not take by then is lost.
EXPORT_S = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Services beside the engine."""

    services: Services
    data: DataService
    secrets: SecretStore
    sandbox: Sandbox
    children: ChildRuns
    callbacks: CallbackAddresses
    test_addresses: TestAddresses
    job_seals: JobSeals
    dead_letters: DeadLetterRows
    variables: VariableRows


@asynccontextmanager
async def open_store(settings: Settings, grace: Grace) -> AsyncIterator[SqlStore]:
    """The database with its schema checked or migrated. Raises StoreUnavailable, SchemaMismatch."""
    wait_s = settings.database_wait_ms / 1000
    await asyncio.to_thread(
        ensure_schema, settings.database_url, auto_migrate=settings.auto_migrate, connect_wait_s=wait_s
    )
    store = make_store(
        settings.database_url,
        connect_wait_s=wait_s,
        lease_ms=settings.lease_ms,
        pooled=None if settings.database_pooled == "auto" else settings.database_pooled == "true",
    )
    await store.start()
    try:
        yield store
    finally:
        await store.stop(patience_s=grace.closing_s(CLOSING_S))


@asynccontextmanager
async def open_spans(settings: Settings, grace: Grace) -> AsyncIterator[SpanSink | None]:
    """The exporter of spans, if configured; remaining spans are exported at the end. Raises SettingsError."""
    endpoint = settings.spans_endpoint
    if endpoint is None:
        yield None
        return
    try:
        otlp = import_module(_OTLP)
    except ModuleNotFoundError as absent:
        if absent.name is None or not absent.name.startswith("opentelemetry"):
            raise
        message = f"spans are to be exported to {endpoint}, and the SDK of OpenTelemetry is not installed"
        raise SettingsError(message, hint="pip install 'anabranch[otel]', or set OTLP_ENABLED=false.") from None
    sink: SpanSink = otlp.OtlpSpans(endpoint)
    try:
        yield sink
    finally:
        await sink.stop(patience_s=grace.closing_s(EXPORT_S))


@asynccontextmanager
async def open_components(
    settings: Settings, store: SqlStore, grace: Grace, *, makes_key: bool
) -> AsyncIterator[Components]:
    """Services for node types and APIs; closed after the engine has stopped."""
    guard = Guard(AllowList.parse(settings.egress_allow))
    client = GuardedClient(guard)
    sandbox = Sandbox(fetcher=client, unsafe=settings.sandbox_unsafe)
    try:
        secrets = secret_store(settings, store, makes_key=makes_key)
        async with open_data(settings, store, guard, grace, makes_key=makes_key) as data:
            children = ChildRuns()
            variables = VariableTable(store)
            find_cipher = cipher_finder(settings, makes_key=makes_key)
            callbacks = CallbackAddresses(find_cipher, base_url=settings.reached_at)
            test_addresses = TestAddresses(find_cipher, base_url=settings.reached_at)
            services = Services(
                http=client,
                secrets=secrets,
                tokens=RenewedTokens(RenewedTable(store), find_cipher),
                sandbox=sandbox,
                queries=data.queries,
                children=children,
                callbacks=callbacks,
                variables=variables,
            )
            yield Components(
                services,
                data,
                secrets,
                sandbox,
                children,
                callbacks,
                test_addresses,
                job_seals=JobSeals(find_cipher),
                dead_letters=DeadLetterTable(store),
                variables=variables,
            )
    finally:
        await sandbox.stop()
        guard.close()


@asynccontextmanager
async def open_access(store: SqlStore, grace: Grace) -> AsyncIterator[key_access.AccessService]:
    """The API keys; at the end their last uses and failed logins are written."""
    access = key_access.AccessService(
        key_table.KeyTable(store), counted_entries.CountedEntries(audit_table.AuditTable(store))
    )
    try:
        yield access
    finally:
        with suppress(TimeoutError):  # last use of keys and failed logins are not worth a longer wait
            async with asyncio.timeout(grace.closing_s(CLOSING_S)):
                await access.stop()


@asynccontextmanager
async def open_data(
    settings: Settings, store: SqlStore, guard: Guard, grace: Grace, *, makes_key: bool
) -> AsyncIterator[DataService]:
    """Data sources and queries. With `makes_key` a missing key for URLs with passwords is created."""
    local_paths = LocalPaths(
        data_directories=[Path(directory) for directory in settings.data_directories],
        socket_directories=[entry for entry in settings.egress_allow if entry.startswith("/")],
        own_file=store.dialect.path if isinstance(store.dialect, SqliteDialect) else None,
    )
    saved = DataQueries(store.dialect)
    find_cipher = cipher_finder(settings, makes_key=makes_key)
    urls = SourceUrls(find_box=find_cipher, secrets=SecretStore(SecretTable(store), find_cipher))
    queries = QueryEngine(saved=saved, urls=urls, hosts=guard, local_paths=local_paths)
    saved.open_threads()
    try:
        yield DataService(saved=saved, urls=urls, queries=queries, local_paths=local_paths)
    finally:
        await queries.stop(patience_s=grace.closing_s(math.inf))
        await saved.close_threads(patience_s=grace.closing_s(CLOSING_S))


def secret_store(settings: Settings, store: SqlStore, *, makes_key: bool) -> SecretStore:
    """The secrets of tenants. With `makes_key` a missing key is created for an embedded database."""
    return SecretStore(SecretTable(store), cipher_finder(settings, makes_key=makes_key))


def cipher_finder(settings: Settings, *, makes_key: bool) -> Callable[[], SecretCipher | None]:
    """A function that returns the cipher; None without a key.

    It looks for the key again while there is none: a worker may have started before the first secret created the key.
    """
    cipher = _cipher(settings, makes_key=makes_key)

    def find() -> SecretCipher | None:
        """The cipher that was found first; looks again while there is no key."""
        nonlocal cipher
        if cipher is None:
            cipher = _cipher(settings, makes_key=False)
        return cipher

    return find


def _cipher(settings: Settings, *, makes_key: bool) -> SecretCipher | None:
    setting = settings.secret_key
    key = find_key(
        None if setting is None else setting.get_secret_value(),
        embedded=settings.database_url == EMBEDDED_DATABASE_URL,
        makes=makes_key,
    )
    return None if key is None else SecretCipher(key)
