"""Open a store by its database URL.

Called by the composition root and by tests. Defines which URLs are valid; opens no connection yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from anabranch.deferred import deferred
from anabranch.engine.hints.hint_line import HintLine, LeaderRows, VersionWatch
from anabranch.engine.store.postgresql.timeouts import Timeouts
from anabranch.engine.store.sql.store import CONNECT_WAIT_S, SqlStore
from anabranch.engine.store.sqlite.data_version import SqliteDataVersion
from anabranch.engine.store.sqlite.sqlite_dialect import SqliteDialect
from anabranch.errors import SettingsError

# The driver of PostgreSQL takes a tenth of a second to import.
if TYPE_CHECKING:
    from anabranch.engine.store.postgresql import leader_rows as postgresql_leaders
    from anabranch.engine.store.postgresql import notify_line as postgresql_hints
    from anabranch.engine.store.postgresql import postgresql_dialect as postgresql
else:
    postgresql = deferred("anabranch.engine.store.postgresql.postgresql_dialect")
    postgresql_hints = deferred("anabranch.engine.store.postgresql.notify_line")
    postgresql_leaders = deferred("anabranch.engine.store.postgresql.leader_rows")

# 30 s, as the setting has it: for opening a store without holding any runs.
LEASE_MS_DEFAULT = 30_000

# Of several hosts the one that takes writes: the engine can do nothing at a standby.
TARGET_OF_SEVERAL_HOSTS = "read-write"

# The largest TCP port. Without this check the store would wait for a server that cannot exist.
PORT_MAX = 65_535

_FORMS = (
    "Write sqlite:///relative/path, sqlite:////absolute/path, postgresql://user@host:port/database,"
    " or several hosts: postgresql://user@host1:port,host2:port/database."
)

# `user:password@host1:port,host2:port`, as libpq has it.
_SEVERAL_HOSTS = re.compile(
    r"(?P<begin>postgres(?:ql)?://(?:[^@/?]*@)?)(?P<hosts>[^@/?,]+(?:,[^@/?,]+)+)(?P<end>[/?].*|$)"
)
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?")


def open_store(
    url: str,
    *,
    connect_wait_s: float = CONNECT_WAIT_S,
    lease_ms: int = LEASE_MS_DEFAULT,
    pooled: bool | None = None,
) -> SqlStore:
    """A store for `sqlite:///path`, `sqlite:////absolute/path` or `postgresql://…`; not started yet.

    If the database is unavailable at start, the store waits up to `connect_wait_s` seconds. Timeouts of statements and
    locks are short enough to keep a lease of `lease_ms`. `pooled` tells whether a pooler works per transaction; None:
    detected at start. Raises SettingsError for any other URL. The schema must be there: see
    `anabranch.migrations.ensure_schema`.
    """
    return SqlStore(dialect_of(url, lease_ms=lease_ms, pooled=pooled), connect_wait_s=connect_wait_s)


def open_hint_line(store: SqlStore) -> HintLine | None:
    """The hint line of a started store; None if its database has none. Connects on first use."""
    dialect = store.dialect
    if isinstance(dialect, SqliteDialect):
        return None
    assert isinstance(dialect, postgresql.PostgresqlDialect), "there are two kinds"
    return postgresql_hints.PostgresqlHintLine(dialect)


def open_leader_rows(store: SqlStore) -> LeaderRows | None:
    """The rows that say which worker leads; None if the database has no hint line."""
    return None if isinstance(store.dialect, SqliteDialect) else postgresql_leaders.PostgresqlLeaderRows(store)


def open_version_watch(store: SqlStore) -> VersionWatch | None:
    """The version watch of a started store without a hint line; None if it has a line."""
    dialect = store.dialect
    if not isinstance(dialect, SqliteDialect):
        return None
    return SqliteDataVersion(dialect.path, others_wrote=lambda: store.others_wrote(dialect.others_wrote))


def dialect_of(
    url: str, *, lease_ms: int = LEASE_MS_DEFAULT, pooled: bool | None = None
) -> SqliteDialect | postgresql.PostgresqlDialect:
    """The dialect for a URL. Raises SettingsError that does not repeat a password."""
    try:
        parsed = make_url(_with_host_parameters(url))
    except (ArgumentError, ValueError):  # ValueError: a port that is not a number
        raise SettingsError("the database URL has an unknown form", hint=_FORMS) from None
    if parsed.drivername == "sqlite":
        return _sqlite(parsed)
    if parsed.drivername in ("postgresql", "postgres"):
        hosts, ports = _hosts_and_ports(parsed)
        for port in ports:
            if not (port.isdecimal() and 1 <= int(port) <= PORT_MAX):
                raise SettingsError(f"the database URL names port {port}; ports are 1 to {PORT_MAX}", hint=_FORMS)
        if len(hosts) > 1 and "target_session_attrs" not in parsed.query:
            parsed = parsed.update_query_dict({"target_session_attrs": TARGET_OF_SEVERAL_HOSTS})
        return postgresql.PostgresqlDialect(parsed, timeouts=Timeouts.below(lease_ms), pooled=pooled)
    raise SettingsError(f"there is no store for {parsed.drivername}:// databases", hint=_FORMS)


def _with_host_parameters(url: str) -> str:
    """A URL that names several hosts before the path, in the form that SQLAlchemy reads: `?host=a,b&port=1,2`."""
    found = _SEVERAL_HOSTS.fullmatch(url)
    if found is None:
        return url
    path, _, query = found["end"].partition("?")
    addresses = [_HOST_AND_PORT.fullmatch(address) for address in found["hosts"].split(",")]
    hosts = ",".join(address["host"].strip("[]") for address in addresses if address is not None)
    ports = ",".join(address["port"] or "" for address in addresses if address is not None)
    return f"{found['begin']}{path or '/'}?host={hosts}&port={ports}{'&' * bool(query)}{query}"


def _hosts_and_ports(url: URL) -> tuple[Sequence[str], Sequence[str]]:
    """Hosts and ports in a URL of PostgreSQL, in either of the forms that SQLAlchemy has for several hosts."""
    hosts, ports = url.query.get("host", ""), url.query.get("port", "")
    if isinstance(hosts, tuple):
        return hosts, [host.rpartition(":")[2] for host in hosts if ":" in host]
    named = [str(url.port)] if url.port is not None else []
    return hosts.split(","), [*named, *(port for port in str(ports).split(",") if port)]


def _sqlite(url: URL) -> SqliteDialect:
    if not url.database or url.database == ":memory:" or url.query:
        raise SettingsError(
            f"{url.render_as_string()} names no file; a database in memory could not outlive a crash", hint=_FORMS
        )
    return SqliteDialect(url)
