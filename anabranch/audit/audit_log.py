"""Read the audit trail, newest first, and verify its chain of hashes.

Called by the command line and the APIs. Rows are written together with the change they record (`audit_recording`);
this module only reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.audit.audit_trail import NO_HASH, AuditHead, AuditRow, AuditRows, cut_at, hash_of
from anabranch.dataclass import dataclass
from anabranch.errors import InvalidRequest

# 1,000 rows in one response: some 300 KB. Use `before` to read more.
LIMIT_MAX = 1_000
LIMIT_DEFAULT = 50

_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class TrailVerification:
    """The result of a check of the whole chain."""

    rows: int
    """How many rows were found as they were written."""
    broken_at: int | None
    """The position of the first row that is missing or not as it was written; None: all is well."""
    cut: AuditRow | None = None
    """The row that records the removal of older rows after their retention; None if none were removed."""


class AuditLog:
    """The trail of one database."""

    def __init__(self, rows: AuditRows) -> None:
        self._rows = rows

    async def list(
        self, tenant_id: str | None, *, limit: int = LIMIT_DEFAULT, before: int | None = None
    ) -> Sequence[AuditRow]:
        """The newest rows of a tenant, or (None) of everybody, below the position `before`.

        Raises InvalidRequest for a limit that is not 1 to 1,000.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise InvalidRequest(f"a limit is 1 to {LIMIT_MAX}, not {limit}")
        return await self._rows.list_rows(tenant_id=tenant_id, limit=limit, before=before)

    async def verify(self) -> TrailVerification:
        """Read the whole trail, and recompute its hashes up to the row that was the newest when this began.

        If its oldest rows were removed, the chain begins with the hash in the record of the removal; a trail that
        begins later without such a record is broken.

        An attacker who can write to the database can write a whole new chain: to detect that, compare the newest hash
        with a copy that is kept elsewhere.
        """
        head, cut = await self._rows.head(), await self._rows.last_cut()
        begin = AuditHead(0, NO_HASH) if cut is None else cut_at(cut)
        if any(row.position <= begin.position for row in await self._rows.rows_after(0, limit=1)):
            return TrailVerification(0, broken_at=1, cut=cut)  # rows exist that were recorded as removed
        position, hash_before = begin.position, begin.hash
        while position < head.position:
            page = [row for row in await self._rows.rows_after(position, limit=_PAGE) if row.position <= head.position]
            for row in page:
                if row.position != position + 1 or row.hash != hash_of(row, hash_before):
                    return TrailVerification(position - begin.position, broken_at=position + 1, cut=cut)
                position, hash_before = row.position, row.hash
            if not page:
                return TrailVerification(position - begin.position, broken_at=position + 1, cut=cut)
        broken_at = None if hash_before == head.hash else max(position, 1)
        return TrailVerification(position - begin.position, broken_at=broken_at, cut=cut)
