"""The audit trail: its rows, their chain of hashes, and the port to the store.

The interface between the modules that record actions (service, secrets) and the table that stores them. Pure. Rows
are added at the end and, once their retention is over, removed at the beginning; each row's hash covers the row
before.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.rules.instants import to_iso

# 255 characters of an actor or target: ids and names are shorter, and a row cannot fill the table.
TEXT_CHARACTERS_MAX = 255

# 4,096 characters of details: counts, names and versions; never a document.
DETAILS_CHARACTERS_MAX = 4_096

# Some format characters reverse the direction of a line or hide text; separators break the line.
_ESCAPED_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")

NO_HASH = ""
"""What the first row has for the hash of the row before it."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An audit event before it is written."""

    tenant_id: str
    """The tenant; empty for events without one, such as a failed login."""
    actor: str
    """The id of a key, or `cli`; empty if unknown."""
    action: str
    """`key.created`, `workflow.deleted`…: the kind of object and the action."""
    target: str
    """Its id or name."""
    details: Mapping[str, Any]
    """More, as small JSON."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row of the trail: texts are escaped, details are JSON."""

    position: int
    """1, 2, 3… in the whole database, without a gap."""
    tenant_id: str
    at: int
    actor: str
    action: str
    target: str
    details: str
    hash: str
    """SHA-256 of the row before and of this one, in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest row's place and hash, kept apart: without it rows could be cut off at the end unseen."""

    position: int
    hash: str


class AuditRows(Protocol):
    """Keeps the trail."""

    async def append(self, entry: AuditEntry) -> AuditRow:
        """Write the next row. Two writers at once get different positions."""

    async def list_rows(self, *, tenant_id: str | None, limit: int, before: int | None) -> Sequence[AuditRow]:
        """The newest first, below the position `before`; of one tenant, or (None) of everybody."""

    async def rows_after(self, position: int, *, limit: int) -> Sequence[AuditRow]:
        """The rows above a position, oldest first, of everybody: to check the chain."""

    async def last_cut(self) -> AuditRow | None:
        """The newest row that records a cut; None if the trail was never cut."""

    async def head(self) -> AuditHead:
        """The end of the chain."""


CUT = "audit.cut"
"""The action of the row that records that the oldest rows were removed, because their retention was over."""


def cut_entry(last: AuditHead, *, rows: int) -> AuditEntry:
    """An entry that records the removal of the rows up to this one."""
    return AuditEntry("", "", CUT, str(last.position), {"through": last.position, "hash": last.hash, "rows": rows})


def cut_at(row: AuditRow) -> AuditHead:
    """The last row that a recorded cut removed."""
    details = json.loads(row.details)
    return AuditHead(int(details["through"]), str(details["hash"]))


def chained(entry: AuditEntry, *, head: AuditHead, at: int) -> AuditRow:
    """The row that follows `head`, escaped and hashed."""
    details = json.dumps(entry.details, sort_keys=True)  # in ASCII, with every control character escaped
    row = AuditRow(
        head.position + 1,
        escaped(entry.tenant_id, TEXT_CHARACTERS_MAX),
        at,
        escaped(entry.actor, TEXT_CHARACTERS_MAX),
        entry.action,
        escaped(entry.target, TEXT_CHARACTERS_MAX),
        details if len(details) <= DETAILS_CHARACTERS_MAX else json.dumps({"truncated": True}),
        NO_HASH,
    )
    return AuditRow(*_fields(row), hash=hash_of(row, head.hash))


def hash_of(row: AuditRow, hash_before: str) -> str:
    """The hash that a row has to have after the row with `hash_before`."""
    # As a JSON list, so that different rows have different encodings, whatever their texts contain.
    return hashlib.sha256(json.dumps([hash_before, *_fields(row)]).encode()).hexdigest()


def escaped(text: str, characters_max: int) -> str:
    """One printable line: control, format and separating characters as `\\x0a`, `\\u202e`; cut at the limit."""
    kept = text[:characters_max]
    if kept.isascii() and kept.isprintable():
        return kept
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in _ESCAPED_CATEGORIES else
        character
        for character in kept
    )[:characters_max]  # fmt: skip


def _fields(row: AuditRow) -> tuple[int, str, int, str, str, str, str]:
    return (row.position, row.tenant_id, row.at, row.actor, row.action, row.target, row.details)


def audit_row_as_json(row: AuditRow) -> dict[str, Any]:
    """A row of the audit trail."""
    return {
        "position": row.position,
        "at": to_iso(row.at),
        "tenant": row.tenant_id,
        "actor": row.actor,
        "action": row.action,
        "target": row.target,
        "details": json.loads(row.details),
        "hash": row.hash,
    }
