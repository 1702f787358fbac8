"""Reads: instances, pages of logs, lists, counts. Nothing here writes.

The part of a store that REST, sockets and the command line use; `store.SqlStore` inherits it. Each result is
consistent: it is one statement, or pages of a log, which only grows.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from itertools import accumulate

from sqlalchemy import Connection

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.event_payloads import RunCancelledPayload
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.run_filter import ALL_RUNS, RunFilter, read_filters
from anabranch.engine.rules.stimuli import ChildEnded
from anabranch.engine.store.sql import statements
from anabranch.engine.store.sql.reading import run_listing
from anabranch.engine.store.sql.rows import instance_row, payload_from
from anabranch.engine.store.value_table import StoredValues

# 1,024 events or 4 MB of payloads per statement: they are joined into one value, which databases limit to 1 GB, and
# which takes several times that in memory. Most logs are one page.
LOG_PAGE_EVENTS = 1_024
LOG_PAGE_BYTES = 4 * 1_048_576

REMOVED = RunCancelledPayload("its rows were removed").payload


class Reads(StoredValues):
    """The reading part of `ports.Store`."""

    async def now(self) -> int:
        """The database's clock (ms)."""
        return await self.read(self.dialect.now)

    async def get_instance(self, instance_id: str, *, tenant_id: str | None = None) -> InstanceRow | None:
        """The row alone; None if absent, or if a tenant is given and it belongs to another."""
        if not is_uuid(instance_id):
            return None
        row = await self.read(lambda connection: find_instance(connection, instance_id))
        return None if row is None or tenant_id not in (None, row.head.tenant_id) else row

    async def find_start(self, *, tenant_id: str, workflow_name: str, idempotency_key: str) -> InstanceRow | None:
        """The run that a start with this key created, if it is stored."""
        key = {"tenant_id": tenant_id, "workflow_name": workflow_name, "idempotency_key": idempotency_key}
        values = await self.read(lambda connection: connection.execute(statements.INSTANCE_OF_KEY, key).one_or_none())
        return None if values is None else instance_row(tuple(values))

    async def ended_children(self, instance_ids: Sequence[str]) -> list[ChildEnded]:
        """The ends of those of these runs that have ended; a removed run reads as cancelled."""
        rows = await self.read(
            lambda connection: connection.execute(
                self.dialect.ended_children, {"ids": self.dialect.ids(instance_ids)}
            ).all()
        )
        ended = [
            ChildEnded(child_id, Status.CANCELLED, REMOVED)
            if status is None
            else ChildEnded(child_id, Status(status), payload_from(payload.encode(), parts))
            for child_id, status, payload, parts in rows
        ]
        await self.fetch_values(each.outcome for each in ended)
        return ended

    async def awaited_children(self, instance_id: str) -> list[InstanceRow]:
        """The open runs that an instance has started and awaits, by id."""
        if not is_uuid(instance_id):
            return []
        parameters = {"instance_id": instance_id}
        rows = await self.read(lambda connection: connection.execute(statements.AWAITED_CHILDREN, parameters).all())
        return [instance_row(tuple(row)) for row in rows]

    async def descendants(self, root_id: str, *, limit: int) -> list[InstanceRow]:
        """All runs below a root, open or ended, by id; none if it is not a root."""
        if not is_uuid(root_id):
            return []
        parameters = {"root_id": root_id, "limit": limit}
        rows = await self.read(lambda connection: connection.execute(statements.DESCENDANTS, parameters).all())
        return [instance_row(tuple(row)) for row in rows]

    async def read_log(
        self,
        instance_id: str,
        *,
        after_seq: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        inline: bool = True,
    ) -> list[Event]:
        """At most `limit` events in seq order; stops once their payloads have `bytes_max`."""
        if not is_uuid(instance_id):
            return []
        events: list[Event] = []
        left = math.inf if bytes_max is None else bytes_max
        while len(events) < limit and left > 0:
            rows, size = min(LOG_PAGE_EVENTS, limit - len(events)), int(min(LOG_PAGE_BYTES, left))
            found = await self._read_page(instance_id, after_seq=after_seq, limit=rows, bytes_max=size)
            if not found:
                break
            if inline:
                found = _first(found, size)
                await self.fetch_values(event.payload for event in found)
            events += found
            left -= sum(event.payload.size if inline else event.payload.weight for event in found)
            after_seq = found[-1].seq
        return events

    async def list_instances(
        self, wanted: RunFilter = ALL_RUNS, *, tenant_id: str, limit: int, before: tuple[int, str] | None = None
    ) -> list[InstanceRow]:
        """By (created_at, instance_id) descending, strictly before the cursor."""
        filters = read_filters(wanted.input_filters)
        if not all(one.values for one in filters) or (wanted.workflow is not None and not is_uuid(wanted.workflow)):
            return []
        inputs = [self.dialect.input_condition(one, number) for number, one in enumerate(filters)]
        query = run_listing.list_instances(wanted, inputs, tenant_id=tenant_id, limit=limit, before=before)
        rows = await self.read(lambda connection: connection.execute(query).all())
        return [instance_row(tuple(row)) for row in rows]

    async def count_pending(self, *, up_to: int) -> dict[str, int]:
        """PENDING instances by tenant, due now or later; counting stops when there are `up_to` in all."""
        limit = {"up_to": up_to}
        rows = await self.read(lambda connection: connection.execute(statements.COUNT_PENDING, limit).all())
        return {row[0]: row[1] for row in rows}

    async def _read_page(self, instance_id: str, *, after_seq: int, limit: int, bytes_max: int) -> list[Event]:
        return await self.read(
            lambda connection: self.dialect.read_log(
                connection, instance_id, after_seq=after_seq, limit=limit, bytes_max=bytes_max
            )
        )


def _first(events: list[Event], bytes_max: int) -> list[Event]:
    """The first events up to this many bytes, including their large parts."""
    before = accumulate((event.payload.size for event in events), initial=0)
    return [event for event, size in zip(events, before, strict=False) if size < bytes_max]


def is_uuid(text: str) -> bool:
    """Whether this text can be an id; other text matches no row."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def find_instance(connection: Connection, instance_id: str) -> InstanceRow | None:
    """The row of this id, which must be a UUID."""
    values = connection.execute(statements.INSTANCE, {"instance_id": instance_id}).one_or_none()
    return None if values is None else instance_row(tuple(values))
