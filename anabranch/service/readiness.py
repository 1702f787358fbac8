"""Readiness of this process: the answer to `/readyz`, and whether it is stopping and refuses new work.

Called by the APIs. The process calls `stop_intake` when it receives a stop signal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.ports import Store
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.readiness")

# 2 s: a database that takes longer for `now` does not accept starts either, and a load balancer gives up after a
# few seconds.
STORE_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class ReadinessState:
    """The result of a check: ready or not, and the state of each part."""

    ready: bool
    parts: Mapping[str, Any]
    """By part (`intake`, `store`, `commits`, `sandbox`), `{"ok": bool, …}`."""


class Readiness:
    """Checks the parts, and knows whether the process stops."""

    def __init__(self, *, store: Store, sandbox: Callable[[], Mapping[str, Any]]) -> None:
        self._store = store
        self._sandbox = sandbox
        self.stopping = False
        """True once the process stops: running work is finished, new work is refused."""
        self.is_asked = False
        """Whether somebody polls `/readyz`: a load balancer sends work here until it has seen a refusal."""
        self.refusal_sent = asyncio.Event()
        """Set once a request was answered with "stopping"."""
        self._when_stopping: list[Callable[[], None]] = []

    def when_stopping(self, call: Callable[[], None]) -> None:
        """Register a callback for the beginning of the stop."""
        self._when_stopping.append(call)

    def stop_intake(self) -> None:
        """Refuse new work from now on."""
        self.stopping = True
        for call in self._when_stopping:
            call()

    async def look(self) -> ReadinessState:
        """Check every part, in about `STORE_PATIENCE_S` at most.

        A degraded sandbox does not make a process unready: only code nodes need it, and they are retried.
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
            self.refusal_sent.set()
        parts = {"intake": intake, "store": store, "commits": commits, "sandbox": sandbox}
        return ReadinessState(all(part["ok"] for part in (intake, store, commits)), parts)

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
