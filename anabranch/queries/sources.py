"""The URL of a data source: valid forms, and databases that may never be reached.

Called when a source is saved and each time a query runs, because a link may point elsewhere by then. URL options can be
dangerous, so all are refused except the few that are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from anabranch.dataclass import dataclass
from anabranch.errors import NodeFailure
from anabranch.queries.lexing import SourceKind
from anabranch.queries.query_faults import MASKED, Mask, source_refused

# 2,048 characters: a URL that a person writes is far shorter.
URL_CHARACTERS_MAX = 2_048

PORT_MAX = 65_535

_KINDS = {
    "sqlite": SourceKind.SQLITE,
    "postgresql": SourceKind.POSTGRESQL,
    "postgres": SourceKind.POSTGRESQL,
    "postgresql+psycopg": SourceKind.POSTGRESQL,
    "mysql": SourceKind.MYSQL,
    "mysql+pymysql": SourceKind.MYSQL,
}
_PORTS = {SourceKind.POSTGRESQL: 5_432, SourceKind.MYSQL: 3_306}

# `host` only names the directory of a local socket; hosts of the network stand before the path.
_OPTIONS = {
    SourceKind.SQLITE: frozenset[str](),
    SourceKind.POSTGRESQL: frozenset({"sslmode", "host"}),
    SourceKind.MYSQL: frozenset({"sslmode"}),
}
_TLS_MODES = frozenset({"disable", "prefer", "require", "verify-full"})

FORMS = (
    "Write sqlite:////absolute/path, postgresql://user:password@host:5432/database"
    " or mysql://user:password@host:3306/database."
)


@dataclass(frozen=True, slots=True)
class LocalPaths:
    """The paths on this machine that an operator allows, and the engine's own database."""

    data_directories: Sequence[Path] = ()
    """SQLite files are sources only below these."""
    socket_directories: Sequence[str] = ()
    """Local sockets of PostgreSQL are used only in these."""
    own_file: Path | None = None
    """The engine's own database, if that is a file."""


@dataclass(frozen=True, slots=True)
class ReadyUrl:
    """The URL of a data source with its secrets in place: to connect with, never to show."""

    text: str = field(repr=False)
    secrets: Sequence[str] = field(default=(), repr=False)
    is_secret: bool = False
    """The URL as a whole is a secret: of where it leads nothing is shown but the kind."""

    def address_of(self, source: SqliteSource | ServerSource) -> str:
        """The address of the source in this URL, for people."""
        return f"{source.kind}://{MASKED}" if self.is_secret else source.address

    def mask_of(self, source: SqliteSource | ServerSource, addresses: Sequence[str] = ()) -> Mask:
        """The mask for messages about the source; `addresses` are those of its host."""
        if self.is_secret:
            return Mask([*self.secrets, *source.parts, *addresses])
        return Mask([*self.secrets, source.password] if isinstance(source, ServerSource) else self.secrets)


@dataclass(frozen=True, slots=True)
class SqliteSource:
    """A SQLite file that was found, by its real path."""

    path: Path
    kind: SourceKind = SourceKind.SQLITE

    @property
    def address(self) -> str:
        """For people."""
        return f"sqlite:///{self.path}"

    @property
    def parts(self) -> Sequence[str]:
        """The parts of the URL."""
        return [str(self.path)]


@dataclass(frozen=True, slots=True)
class ServerSource:
    """A database on a server; `socket_directory` instead of `host` for a local socket."""

    kind: SourceKind
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    socket_directory: str | None
    tls: str

    @property
    def address(self) -> str:
        """For people: no user, no password."""
        return f"{self.kind}://{self.socket_directory or f'{self.host}:{self.port}'}/{self.database}"

    @property
    def parts(self) -> Sequence[str]:
        """The parts of the URL except kind, port and options."""
        # The host also as it is looked up: without the dot at its end, in lower case.
        hosts = [self.host, self.host.lower().removesuffix(".")]
        return [*hosts, self.user, self.password, self.database, self.socket_directory or ""]


def read_source(url: ReadyUrl, local_paths: LocalPaths) -> SqliteSource | ServerSource:
    """The source that a URL names. Raises NodeFailure SOURCE_REFUSED, which never repeats the URL or a secret."""
    try:
        return _read(url.text, local_paths)
    except NodeFailure as refusal:
        if url.is_secret:  # what is wrong with it is a part of it
            raise source_refused(f"the secret holds no URL that a data source may have here. {FORMS}") from None
        raise Mask(url.secrets).failure(refusal) from None


def is_same_file(path: Path, own: Path | None) -> bool:
    """Whether both paths lead to one file, through any links, or to a file that SQLite keeps beside it."""
    if own is None:
        return False
    for name in (own, *(own.with_name(own.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        try:
            if path.samefile(name):
                return True
        except OSError:  # one of them does not exist
            continue
    return False


def _read(url: str, local_paths: LocalPaths) -> SqliteSource | ServerSource:
    parsed = _parsed(url)
    kind = _KINDS.get(parsed.drivername)
    if kind is None:
        raise source_refused(f"unknown kind of data source {parsed.drivername[:40]!r}. {FORMS}")
    strange = sorted(set(parsed.query) - _OPTIONS[kind])
    if strange:
        raise source_refused(f"the URL has the option {strange[0][:40]!r}, which data sources do not take")
    return _file(parsed, local_paths) if kind is SourceKind.SQLITE else _server(parsed, kind, local_paths)


def _parsed(url: str) -> URL:
    if len(url) > URL_CHARACTERS_MAX or not url.isprintable():
        raise source_refused(f"the URL is longer than {URL_CHARACTERS_MAX} characters, or holds control characters")
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise source_refused(f"the URL cannot be read. {FORMS}") from None


def _file(url: URL, local_paths: LocalPaths) -> SqliteSource:
    if not url.database or url.database == ":memory:" or url.host or url.username:
        raise source_refused("the URL names no file; a database in memory has nothing to query")
    try:
        path = Path(url.database).resolve()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle
        raise source_refused(f"{url.database} is not a path") from None
    allowed = [directory.resolve() for directory in local_paths.data_directories]
    # Checked first, so that errors do not reveal whether other files exist.
    if not any(path.is_relative_to(directory) for directory in allowed):
        names = ", ".join(map(str, allowed)) or "none"
        raise source_refused(
            f"{path} is not below a directory for SQLite data sources (ANABRANCH_DATA_DIRECTORIES: {names})"
        )
    if is_same_file(path, local_paths.own_file):
        raise source_refused(f"{path} is anabranch's own database, which is never a data source")
    if not path.is_file():
        raise source_refused(f"there is no file {path}")
    return SqliteSource(path)


def _server(url: URL, kind: SourceKind, local_paths: LocalPaths) -> ServerSource:
    socket = url.query.get("host")
    if not isinstance(socket, str | None) or (socket is not None and (url.host or not socket.startswith("/"))):
        raise source_refused(f"the URL names several hosts; a host stands once, before the path. {FORMS}")
    if socket is not None and not _is_listed(socket, local_paths.socket_directories):
        raise source_refused(
            f"local sockets are data sources only in directories that ANABRANCH_EGRESS_ALLOW lists; {socket} is not"
        )
    host, port = url.host or "", url.port if url.port is not None else _PORTS[kind]
    if socket is None and (not host or "," in host or host.startswith(("/", "@"))):
        raise source_refused(f"the URL names no host, or several. {FORMS}")
    if not 1 <= port <= PORT_MAX:
        raise source_refused(f"the URL names port {port}; ports are 1 to {PORT_MAX}")
    if "@" in host or "@" in (url.database or ""):
        # An unquoted @ ends a password early, and its rest would be shown as host and database.
        raise source_refused("the URL has more than one @; write %40 for one in a user name or password")
    if not url.username or not url.database:
        raise source_refused(f"the URL has to name a user and a database. {FORMS}")
    tls = url.query.get("sslmode", "prefer")
    if not isinstance(tls, str) or tls not in _TLS_MODES:
        raise source_refused(f"sslmode is one of {', '.join(sorted(_TLS_MODES))}")
    password = str(url.password or "")
    return ServerSource(kind, host, port, url.username, password, url.database, socket, tls)


def _is_listed(socket: str, directories: Sequence[str]) -> bool:
    real = Path(socket).resolve()
    return any(real == Path(directory).resolve() for directory in directories)
