"""Translate database errors: what an error means for the caller.

Called by the database threads for every error of a driver; no other module looks at driver exceptions. The dialects
classify, this module names the classes and what each one promises.
"""

from __future__ import annotations

from enum import Enum

from anabranch.errors import DatabaseAway, ValueNotStorable


class Fault(Enum):
    """What an error of the database means."""

    TRY_AGAIN = "try again"
    """A deadlock, a serialisation error: nothing was written, the same call may win now."""
    LOCKED = "locked"
    """Somebody else holds a lock for long: nothing was written, the same call may win later."""
    STALE = "stale"
    """What was prepared on this connection is not good any more: nothing was written, a new connection may win."""
    REFUSED = "refused"
    """The database does not take this data; nothing was written, and trying again cannot help."""
    UNAVAILABLE = "unavailable"
    """The connection, the disk or the server: whether something was written is not known."""
    BUG = "bug"
    """A statement that makes no sense: ours to mend, passed on untouched."""


class DataRefused(ValueNotStorable):
    """The database does not take this data: nothing of the transaction was written."""


class DuplicateRefused(DataRefused):
    """A row that a unique index forbids: nothing of the transaction was written."""


class LocksHeld(DatabaseAway):
    """Somebody else holds a lock that this needs: nothing of the transaction was written."""
