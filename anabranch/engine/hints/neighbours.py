"""Engines of one process on one store: they tell each other at once, without the database.

A worker and a client in one program are two engines. What one says the others hear at the next turn of their event
loops, which may be those of other threads. As with every hint, nothing but a look follows from it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from contextlib import suppress

from anabranch.engine.hints.hint_line import Channel, Heard


class Neighbours:
    """The other engines of this process on one store, as one of them sees them."""

    def __init__(self, place: str | None, *, heard: Heard, watches: Callable[[str], bool]) -> None:
        """`place` names the store; None: it has no neighbours. `watches`: is this run watched here?"""
        self._place = place
        self._heard = heard
        self._watches = watches
        self._loop: asyncio.AbstractEventLoop | None = None
        self.present = False
        """Are there any others? Kept, not computed: it is read for every commit."""

    def join(self) -> None:
        """Hear the others from now on, on the loop that runs, and be heard."""
        if self._place is not None:
            self._loop = asyncio.get_running_loop()
            with _changing:
                _change(self._place, (*_of_place.get(self._place, ()), self))

    def leave(self) -> None:
        """Hear nothing more; may be called twice, or before `join`."""
        if self._place is not None:
            with _changing:
                _change(self._place, tuple(each for each in _of_place.get(self._place, ()) if each is not self))
                self.present = False

    def say(self, channel: Channel, instance_ids: Collection[str]) -> None:
        """Tell all others."""
        for other in self._others():
            other._hear(channel, list(instance_ids))

    def say_to_watchers(self, channel: Channel, instance_ids: Collection[str]) -> None:
        """Tell the others of those runs that they watch."""
        for other in self._others():
            if watched := [each for each in instance_ids if other._watches(each)]:
                other._hear(channel, watched)

    def _others(self) -> tuple[Neighbours, ...]:
        present = _of_place.get(self._place, ()) if self._place is not None else ()
        return tuple(each for each in present if each is not self) if len(present) > 1 else ()

    def _hear(self, channel: Channel, instance_ids: list[str]) -> None:
        assert self._loop is not None, "who is present has joined"
        with suppress(RuntimeError):  # its loop has been closed: it hears nothing more
            self._loop.call_soon_threadsafe(self._heard, channel, instance_ids)


_of_place: dict[str, tuple[Neighbours, ...]] = {}
"""By store. Replaced as a whole, so that it can be read without waiting."""
_changing = threading.Lock()


def _change(place: str, members: tuple[Neighbours, ...]) -> None:
    """Replace the engines of a store; under the lock."""
    if members:
        _of_place[place] = members
    else:
        _of_place.pop(place, None)
    for each in members:
        each.present = len(members) > 1
