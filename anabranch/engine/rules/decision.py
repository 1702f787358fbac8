"""What a decision comes to: the events to append, and what to do once they are committed.

Made by `decide`, for drawn and coded runs alike; read by `transition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.engine.rules.commands import Command, Dispatch
from anabranch.engine.rules.events import Event


@dataclass(slots=True, eq=False)
class Decision:
    """What follows from one stimulus. Never changed once it is made (not `frozen`: see `Event`)."""

    events: Sequence[Event] = ()
    commands: Sequence[Command] = ()
    """To perform once the events are committed: what this decision added to `outstanding`."""
    stops: Sequence[Dispatch] = ()
    """Attempts that nobody awaits any more: their handlers are told to stop."""
    cancels: Sequence[str] = ()
    """Children that nobody awaits any more, if there are any of these ids: they end with the same commit."""
    not_before: int | None = None
    """The latest due time that fired: the commit must find it passed by the store's own clock."""
    delivered: bool | None = None
    """For a signal: was a fitting wait open when it (or the first one with its key) arrived?"""
    refused: str | None = None
    """For a signal: the code of why it was not taken."""
    worked: int = 0
    """What running loops has cost, in the units of `template_work`."""


NOTHING = Decision()
