"""One invocation on the database: the settings in force, the tenant, and the way to what is there.

Called by every command that opens the database, and by `place`, which may ask a server instead.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from anabranch.app import build
from anabranch.errors import InvalidRequest
from anabranch.migrations import ensure_schema
from anabranch.service import DataService, House
from anabranch.settings import Settings

# 64 characters, as for names: a tenant stands in every key of the database.
TENANT_CHARACTERS_MAX = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """What a command knows about its surroundings."""

    settings: Settings
    tenant: str

    def ask_house(self, verb: Callable[[House], Awaitable[T]]) -> T:
        """The answer to one question, or the deed of one verb, on an open database; no nodes run here."""

        async def asked() -> T:
            async with build(self.settings).opened_house(works=False) as house:
                return await verb(house)

        return asyncio.run(asked())

    def ask_data(self, verb: Callable[[DataService], Awaitable[T]], *, makes_key: bool = False) -> T:
        """The answer to one question, or the deed of one verb, about data sources and queries.

        With `makes_key` a key for passwords is made where that may be.
        """

        async def asked() -> T:
            async with build(self.settings).opened_data(makes_key=makes_key) as service:
                return await verb(service)

        return asyncio.run(asked())


def open_session(
    *, database_url: str | None, tenant: str, imports: Sequence[str] | None = None, **flags: Any
) -> Session:
    """Read the settings (`flags` are further ones), import what declares node types, and wait for the database.

    Raises SettingsError, InvalidRequest, StoreUnavailable, SchemaMismatch.
    """
    if not 1 <= len(tenant) <= TENANT_CHARACTERS_MAX or not tenant.isprintable():
        raise InvalidRequest(f"--tenant has 1 to {TENANT_CHARACTERS_MAX} printable characters")
    settings = Settings.load(database_url=database_url, **flags)
    for name in imports or ():
        import_user_module(name)
    # The app looks at the schema too, but in a thread that nothing can interrupt: while an absent
    # database is waited for, Ctrl-C must work.
    ensure_schema(
        settings.database_url,
        auto_migrate=settings.auto_migrate,
        connect_wait_s=settings.database_wait_ms / 1000,
    )
    return Session(settings, tenant)


def import_user_module(name: str) -> None:
    """Import a module, or a file by its path. Raises InvalidRequest, naming what went wrong in it."""
    path = Path(name)
    try:
        if path.suffix == ".py":
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{path} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[path.stem] = module  # before it runs: dataclasses and pydantic look their module up
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
            importlib.import_module(name)
    except (Exception, SystemExit) as refusal:  # a module that calls sys.exit must not choose our exit code
        raise InvalidRequest(
            f"--import {name}: {type(refusal).__name__}: {refusal}",
            hint="Name a module that Python finds from here, or a .py file.",
        ) from refusal
