"""Target: the database or server that a command works on. Commands need not know which it is.

Called by every command about runs and workflows. `--url` beats `--database-url` from anywhere but the
command line; both on it are a contradiction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.cli.options import (
    CLI_ACTOR,
    DEFAULT_TENANT,
    AsJson,
    DatabaseOptions,
    DatabaseUrl,
    Tenant,
    Token,
    Url,
)
from anabranch.cli.session import CommandSession, open_session
from anabranch.cli.user_code import import_user_code
from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.errors import InvalidRequest
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch import app
    from anabranch.client import local, remote
    from anabranch.client.gateway import Gateway
    from anabranch.engine.rules.graph import validate
    from anabranch.engine.rules.graph.node_types import NodeTypes
else:
    app = deferred("anabranch.app")
    remote = deferred("anabranch.client.remote")
    local = deferred("anabranch.client.local")
    validate = deferred("anabranch.engine.rules.graph.validate")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """A database or a server."""

    opened: Callable[[], AbstractAsyncContextManager[Gateway]]
    flags: Sequence[str]
    """With which a further command finds the same place."""

    def ask(self, verb: Callable[[Gateway], Awaitable[T]]) -> T:
        """Run one query or command; no nodes run here."""

        async def asked() -> T:
            async with self.opened() as gateway:
                return await verb(gateway)

        return asyncio.run(asked())


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Options for the server or database, the tenant and the output format."""

    url: Url = None
    token: Token = None
    database_url: DatabaseUrl = None
    tenant: Tenant = DEFAULT_TENANT
    as_json: AsJson = False


def open_target(at: TargetOptions, *, creates: bool = False, imports: Sequence[str] | None = None) -> Target:
    """Open the server named on the command line or in the settings, or else the database:

    waits for it, creates it only with `creates`, and imports `imports`. Raises SettingsError, InvalidRequest, and for a
    database DatabaseMissing, StoreUnavailable and SchemaMismatch.
    """
    server = _server(at, imports=imports)
    if server is not None:
        return server
    database = DatabaseOptions(at.database_url, at.tenant, at.as_json)
    session = open_session(database, creates=creates, imports=imports)
    return Target(lambda: _opened(session), database.flags)


def find_validator(
    *, url: str | None, token: str | None, imports: Sequence[str] | None
) -> Callable[[Any], dict[str, Any]]:
    """The validator: a server, or the local rules, which need no database."""
    server = _server(TargetOptions(url, token), imports=imports)
    if server is not None:
        return lambda document: server.ask(lambda gateway: gateway.validate(document))
    node_types = local_node_types(imports)
    return lambda document: validate.validate(document, node_types).as_json()


def local_node_types(imports: Sequence[str] | None) -> NodeTypes:
    """Built-in node types, those of installed packages, and those that the named modules declare."""
    for name in imports or ():
        import_user_code(name)
    return app.build(Settings()).node_types


def _server(at: TargetOptions, *, imports: Sequence[str] | None) -> Target | None:
    """The server, if one is given; rejects contradictory options. Raises SettingsError, InvalidRequest."""
    if at.url is not None and at.database_url is not None:
        raise InvalidRequest(
            "--url and --database-url exclude each other", hint="Name the server, or the database that it works on."
        )
    settings = Settings.load(url=at.url, token=at.token)
    if at.database_url is not None or settings.url is None:
        if at.token is not None:
            raise InvalidRequest("--token needs a server", hint="Name the server with --url or ANABRANCH_URL.")
        return None
    if at.tenant != DEFAULT_TENANT:
        raise InvalidRequest("--tenant is for a database", hint="On a server the key decides the tenant.")
    if imports:
        raise InvalidRequest(
            "--import is for a database", hint="A server knows the node types that it was started with."
        )
    if settings.token is None:
        raise InvalidRequest(
            "a server needs an API key",
            hint="Give it as --token, ANABRANCH_TOKEN or ANABRANCH_TOKEN_FILE; `anabranch keys create` makes one.",
        )
    gateway = remote.RemoteGateway(settings.url, settings.token.get_secret_value())
    return Target(lambda: gateway, [] if at.url is None else ["--url", at.url])


@asynccontextmanager
async def _opened(session: CommandSession) -> AsyncIterator[Gateway]:
    async with app.build(session.settings).open_services(works=False) as services:
        yield local.LocalGateway(services, session.tenant, actor=CLI_ACTOR)
