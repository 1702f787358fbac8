"""`ctx`: the context of a workflow function: steps, waits, time and randomness, the same on every replay."""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import UTC, datetime
from functools import cached_property
from random import Random

from anabranch.durable.function_run import FunctionRun
from anabranch.durable.steps import Steps
from anabranch.durable.workflow_loop import WorkflowLoop


class Cancelled:
    """Becomes true when the run is cancelled or no longer owned here. Threads may test it, tasks may wait for it."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def __bool__(self) -> bool:
        return self._event.is_set()

    def is_set(self) -> bool:
        """The same, by the name that events have."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait in a step until it is true. The workflow function itself is unwound instead."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, WorkflowLoop):
            await loop.create_future()
        await self._event.wait()


class Context:
    """One call of a workflow function: its run, and `step` for everything that must not happen twice."""

    def __init__(
        self,
        *,
        run_id: str,
        version: int,
        function_run: FunctionRun,
        steps: Steps,
        cancelled: asyncio.Event,
        log: logging.Logger,
    ) -> None:
        self.run_id = run_id
        self.version = version
        self.attempt = function_run.attempt
        """Of the workflow: 1, and more if it has a `retry` of its own."""
        self.step = steps
        self.cancelled = Cancelled(cancelled)
        self.log = log
        """A logger whose lines are kept with the run, or with the step that it is used in; silent on replay."""
        self._function_run = function_run

    def now(self) -> datetime:
        """The time (UTC) of the latest event delivered to this function: it advances when a step ends. The same on
        every replay."""
        return datetime.fromtimestamp(self._function_run.now_ms / 1000, UTC)

    def random(self) -> float:
        """The next number from 0 to 1 of a series that belongs to the run. No source of secrets."""
        return self._numbers.random()

    def uuid4(self) -> uuid.UUID:
        """The next UUID of a series that belongs to the run. No source of secrets."""
        return uuid.UUID(int=self._ids.getrandbits(128), version=4)

    # Seeded by the run, so that a replay draws the same numbers. Few functions use them.
    @cached_property
    def _numbers(self) -> Random:
        return Random(f"{self._function_run.seed}/numbers")  # noqa: S311

    @cached_property
    def _ids(self) -> Random:
        return Random(f"{self._function_run.seed}/ids")  # noqa: S311
