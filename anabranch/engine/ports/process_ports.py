"""Ports of the engine to its process: clock, observers, gates, signers of addresses, hints from other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from anabranch.engine.rules.events import Event, Status


class Clock(Protocol):
    """The engine's time. Tests and the simulator use their own."""

    def now(self) -> int:
        """Milliseconds since the epoch: monotonic time plus an offset kept by `adjust`."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def adjust(self, store_now: int, *, asked_at: float | None = None) -> None:
        """Update the clock offset from a store response that has just arrived, to what was asked at `asked_at` (by
        `monotonic`; None: now)."""

    async def sleep(self, milliseconds: int) -> None:
        """Sleep by `monotonic`, whatever `adjust` does to `now` meanwhile."""


class Observer(Protocol):
    """Receives committed events, in log order, after the commit. Must not block or raise."""

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """These events are in the log."""


class Gate(Protocol):
    """A scarce resource of some node types: their jobs stay queued, without a slot, until the gate admits them."""

    def is_open(self) -> bool:
        """Whether any job may begin now. Starts to prepare the resource if necessary."""

    def admits(self, tenant_id: str) -> bool:
        """Whether a job of this tenant may start now."""

    def subscribe(self, opened: Callable[[], None]) -> None:
        """Call `opened` whenever a waiting job may be able to start; it must not block or raise."""


class ChangeSubscriber(Protocol):
    """Receives hints about watched runs that may have changed in another process. Must not block or raise."""

    def changed(self, instance_id: str, *, ended: bool) -> None:
        """This run may have changed, and may have `ended` by that."""

    def moved(self, *, ends_are_known: bool) -> None:
        """Some process has committed: any watched run may have changed.

        It may also have ended, unless `ends_are_known`: then `changed` was called for each awaited run that has ended.
        """


class CallbackSigner(Protocol):
    """Makes the one-time addresses that runs can be called by."""

    def address(self, instance_id: str, event: str, *, tenant_id: str, expires_at: int) -> str:
        """The address that sends this signal to the run, until `expires_at` (ms). Raises SecretKeyMissing."""


class ChangeHints(Protocol):
    """Hints that a run has changed in another process, so that watchers can look before their next poll. Hints may be
    lost, repeated, late or wrong, and may be unavailable (a pooler in front of PostgreSQL), so watchers also poll.

    Commits of this process come through its Observer.
    """

    def watch(self, instance_id: str, *, end_only: bool = False) -> None:
        """Request hints about this run, or about nothing but its end, until an `unwatch` like it for each `watch`."""

    def unwatch(self, instance_id: str, *, end_only: bool = False) -> None:
        """Undo one `watch`."""

    def subscribe(self, subscriber: ChangeSubscriber) -> None:
        """Add a subscriber for hints about watched runs."""
