"""Peers of an engine: the other engines of this process on the same store. A worker and a client in one program are two
engines.

Called by `hints`. Hints go from one to the others without the database, at the next turn of their event loops, which
may run in other threads. Like every hint, they only cause a read.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from anabranch.engine.hints.hint_line import Channel, HintLine, Receive


class Watches(Protocol):
    """Whether this run is watched here, or, if it has `ended`, awaited."""

    def __call__(self, instance_id: str, *, ended: bool) -> bool: ...


class LocalPeers:
    """The peers of one engine."""

    def __init__(self, target: str | None, *, receive: Receive, watches: Watches, line: HintLine | None = None) -> None:
        """`target` identifies the store; None: no peers. `watches` tells whether a run is watched here, or its end.

        `line` sends the same hints to other processes.
        """
        self._target = target
        self._line = line
        self._deliver = receive
        self._watches = watches
        self._loop: asyncio.AbstractEventLoop | None = None
        self.present = False
        """Whether there are peers. Stored, not computed: it is read for every commit."""

    def join(self) -> None:
        """Begin to exchange hints, on the running loop."""
        if self._target is not None:
            self._loop = asyncio.get_running_loop()
            with _changing:
                _change(self._target, (*_by_target.get(self._target, ()), self))

    def leave(self) -> None:
        """Stop receiving hints; may be called twice, or before `join`."""
        if self._target is not None:
            with _changing:
                _change(self._target, tuple(each for each in _by_target.get(self._target, ()) if each is not self))
                self.present = False

    def send(self, channel: Channel, instance_ids: Collection[str]) -> None:
        """Send a hint to all others."""
        for other in self._others():
            other._receive(channel, list(instance_ids))

    def send_to_watchers(self, channel: Channel, instance_ids: Collection[str]) -> None:
        """Send hints to the others about runs that they watch."""
        for other in self._others():
            if watched := [each for each in instance_ids if other._watches(each, ended=channel is Channel.ENDED)]:
                other._receive(channel, watched)

    def watch(self, instance_id: str) -> bool:
        """Whether one of the others watches this run."""
        return self.present and any(other._watches(instance_id, ended=False) for other in self._others())

    def is_speaker(self, speaker: int) -> bool:
        """Whether a peer uses this name on the line between processes: its hints have arrived already."""
        return any(other._line is not None and other._line.speaker == speaker for other in self._others())

    def _others(self) -> tuple[LocalPeers, ...]:
        present = _by_target.get(self._target, ()) if self._target is not None else ()
        return tuple(each for each in present if each is not self) if len(present) > 1 else ()

    def _receive(self, channel: Channel, instance_ids: list[str]) -> None:
        assert self._loop is not None, "only peers that have joined are listed"
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._deliver, channel, instance_ids)


_by_target: dict[str, tuple[LocalPeers, ...]] = {}
"""By store. A tuple is replaced as a whole, so that it can be read without the lock."""
_changing = threading.Lock()


def _change(target: str, members: tuple[LocalPeers, ...]) -> None:
    """Replace the engines of a store; under the lock."""
    if members:
        _by_target[target] = members
    else:
        _by_target.pop(target, None)
    for each in members:
        each.present = len(members) > 1
