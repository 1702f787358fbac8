"""Is this process fit to take work? What `/readyz` says, and what refuses new work while the process stops.

Called by the APIs; the process that runs them calls `stop_intake` when it was told to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.engine.ports import Store
from anabranch.errors import ShuttingDown, StoreUnavailable

logger = logging.getLogger("anabranch.readiness")

# 2 s: a database that answers `now` later than that does not answer starts either, and whoever
# asks (a load balancer) gives up after a few seconds.
STORE_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Fitness:
    """The answer of a look: may work be sent here, and how each part is."""

    ready: bool
    parts: Mapping[str, Any]
    """By part (`intake`, `store`, `commits`, `sandbox`), `{"ok": bool, …}`."""


class Readiness:
    """Tells how the parts are, and refuses new work once the process stops."""

    def __init__(self, *, store: Store, sandbox: Callable[[], Mapping[str, Any]]) -> None:
        self._store = store
        self._sandbox = sandbox
        self.stopping = False
        """True once the process was told to end: what is under way is finished, nothing new is taken."""
        self.is_asked = False
        """Does anybody ask at all? A balancer that does sends work here until it was told."""
        self.refusal_told = asyncio.Event()
        """Set once somebody was told that the process is stopping."""
        self._when_stopping: list[Callable[[], None]] = []

    def when_stopping(self, call: Callable[[], None]) -> None:
        """Call this when the process is told to stop."""
        self._when_stopping.append(call)

    def stop_intake(self) -> None:
        """Take no new work from now on."""
        self.stopping = True
        for call in self._when_stopping:
            call()

    def refuse_if_stopping(self) -> None:
        """Raise ShuttingDown once the process takes no new work."""
        if self.stopping:
            raise ShuttingDown("this process is stopping and takes no new work")

    async def look(self) -> Fitness:
        """Ask every part; takes about `STORE_PATIENCE_S` at most.

        The sandbox being degraded does not make a process unfit: only code nodes need it, and they
        are retried.
        """
        self.is_asked = True
        store, commits = await asyncio.gather(
            self._look_at_store("the database", self._store.now),
            self._look_at_store("commits", self._store.check_commits),
        )
        health = self._sandbox()
        sandbox = {"ok": health["state"] in ("idle", "ready"), **health}
        intake = {"ok": not self.stopping}
        if self.stopping:
            self.refusal_told.set()
        parts = {"intake": intake, "store": store, "commits": commits, "sandbox": sandbox}
        return Fitness(all(part["ok"] for part in (intake, store, commits)), parts)

    async def _look_at_store(self, what: str, ask: Callable[[], Awaitable[object]]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(STORE_PATIENCE_S):
                await ask()
        except TimeoutError:
            return {"ok": False, "reason": f"no answer within {STORE_PATIENCE_S:.0f} s"}
        except StoreUnavailable as failure:
            logger.warning("not ready: %s: %s", what, failure.message)
            return {"ok": False, "reason": failure.as_answer()["message"]}
        return {"ok": True}
