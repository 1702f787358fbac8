"""Session: the settings, tenant and database of one invocation of the command line.

Called by every command that opens the database, and by `target`, which may use a server instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.cli import nearby_databases, program
from anabranch.cli.options import DatabaseOptions
from anabranch.cli.user_code import import_user_code
from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.errors import InvalidRequest
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch import app, migrations
    from anabranch.app import App
    from anabranch.app_services import AppServices
    from anabranch.queries.saved.data_service import DataService
else:
    app = deferred("anabranch.app")
    migrations = deferred("anabranch.migrations")

# 64 characters, as for names: a tenant is part of every key in the database.
TENANT_CHARACTERS_MAX = 64

T = TypeVar("T")
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class CommandSession:
    """The environment of a command: settings, application, tenant."""

    settings: Settings
    tenant: str

    def ask(
        self, opened: Callable[[App], AbstractAsyncContextManager[Part]], verb: Callable[[Part], Awaitable[T]]
    ) -> T:
        """Open a part of the application, and run one query or command on it; no nodes run here."""

        async def asked() -> T:
            async with opened(app.build(self.settings)) as part:
                return await verb(part)

        return asyncio.run(asked())

    def ask_services(self, verb: Callable[[AppServices], Awaitable[T]]) -> T:
        """Run one query or command on all services."""
        return self.ask(lambda app: app.open_services(works=False), verb)

    def ask_data(self, verb: Callable[[DataService], Awaitable[T]], *, makes_key: bool = False) -> T:
        """Run one query or command on data sources and saved queries.

        With `makes_key` a missing key for passwords is created for an embedded database.
        """
        return self.ask(lambda app: app.open_data(makes_key=makes_key), verb)


def open_session(
    at: DatabaseOptions, *, creates: bool = False, imports: Sequence[str] | None = None, **settings_given: Any
) -> CommandSession:
    """Read the settings (given ones take precedence), import user code, and wait for the database.

    A missing database is only created with `creates`. Raises SettingsError, InvalidRequest, DatabaseMissing,
    StoreUnavailable, SchemaMismatch.
    """
    if not 1 <= len(at.tenant) <= TENANT_CHARACTERS_MAX or not at.tenant.isprintable():
        raise InvalidRequest(f"--tenant has 1 to {TENANT_CHARACTERS_MAX} printable characters")
    settings = Settings.load(database_url=at.database_url, **settings_given)
    for name in imports or ():
        import_user_code(name)
    # The app looks at the schema too, but in a thread that nothing can interrupt: while an absent
    # database is waited for, Ctrl-C must work.
    with nearby_databases.named_in_hints(settings.database_url):
        migrations.ensure_schema(
            settings.database_url,
            auto_migrate=settings.auto_migrate,
            creates=creates,
            connect_wait_s=settings.database_wait_ms / 1000,
        )
    program.freeze_imports()
    return CommandSession(settings, at.tenant)
