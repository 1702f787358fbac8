"""Translate database errors: what an error means for the caller.

Called by the database threads for every error of a driver; no other module looks at driver exceptions. The dialects
classify, this module names the classes and what each one promises.
"""

from __future__ import annotations

from enum import Enum

from anabranch.errors import DatabaseUnreachable, ValueNotStorable


class DatabaseErrorKind(Enum):
    """The kind of a database error."""

    TRY_AGAIN = "try again"
    """A deadlock, a serialisation error: nothing was written, the same call may win now."""
    LOCKED = "locked"
    """Another session holds a lock: nothing was written, the same call may win later."""
    STALE = "stale"
    """A prepared statement is no longer valid: nothing was written, a new connection may win."""
    REFUSED = "refused"
    """The database refuses this data: nothing was written, and a retry cannot help."""
    UNAVAILABLE = "unavailable"
    """The connection, the disk or the server failed: the outcome is unknown."""
    BUG = "bug"
    """An invalid statement: a programming error, raised unchanged."""


class DataRefused(ValueNotStorable):
    """The database refuses this data: nothing of the transaction was written."""


class DuplicateRefused(DataRefused):
    """A unique index refused a row: nothing of the transaction was written."""


class LocksHeld(DatabaseUnreachable):
    """Another session holds a required lock: nothing of the transaction was written."""
