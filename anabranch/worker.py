"""`Worker`: embeds a worker in a program, for coded and drawn workflows, like `anabranch worker`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.durable.definition import DECLARED, Workflow, WorkflowRegistry
from anabranch.grace import Grace
from anabranch.settings import Settings


class Worker:
    """Runs workflows of one database while it is open.

    `async with Worker(url, workflows=[onboard], concurrency=64):` `workflows` are the coded workflows that it runs
    (default: all that imported modules declare); it also runs drawn ones. `concurrency` limits the functions and nodes
    that it executes at once. Other settings are given by name, such as `lease="30s"`.
    """

    def __init__(
        self, url: str, *, workflows: Iterable[Workflow] | None = None, concurrency: int | None = None, **settings: Any
    ) -> None:
        self._url = url
        self._code = DECLARED if workflows is None else WorkflowRegistry(workflows)
        self._chosen = {"concurrency": concurrency, **settings}
        self._opened = AsyncExitStack()
        self.services: AppServices | None = None
        """What the process has open, while it is open."""

    async def __aenter__(self) -> Self:
        """Start the worker; returns when the database is open and the workflows are registered. Raises
        StoreUnavailable, SchemaMismatch, SettingsError.
        """
        settings = Settings.load(database_url=self._url, **self._chosen)
        opening = build(settings).open_services(works=True, code=self._code, grace=Grace(settings.grace_ms / 1000))
        self.services = await self._opened.enter_async_context(opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let what executes end, within the grace; hand everything else over to other workers."""
        self.services = None
        await self._opened.aclose()
