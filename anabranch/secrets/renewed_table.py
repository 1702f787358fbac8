"""The rows of rotated refresh tokens: encrypted bytes by tenant and grant, and which process is renewing one.

Shares the database threads of the store that it is built on.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.database_errors import DuplicateRefused
from anabranch.secrets.renewed_schema import renewed_tokens

# 1,000 grants of a tenant: each is a refresh token that somebody entered. A workflow that computes them would fill the
# table; then the one that was renewed longest ago is forgotten.
GRANTS_MAX = 1_000


class RenewedTable:
    """The rows of `renewed_tokens` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def find(self, tenant_id: str, grant_id: str) -> bytes | None:
        """The sealed tokens; None before the first renewal."""
        query = select(renewed_tokens.c.sealed).where(*_of_grant(tenant_id, grant_id))
        return await self._store.read(lambda connection: connection.execute(query).scalar())

    async def hold(self, tenant_id: str, grant_id: str, holder: str, *, hold_ms: int) -> int | None:
        """Let this holder renew, unless another one does: the version that it renews, or None."""

        def take(connection: Connection) -> int | None:
            """Lock the row, or make it, and write the holder unless another one still holds it."""
            now = self._store.dialect.now(connection)
            conditions = _of_grant(tenant_id, grant_id)
            columns = renewed_tokens.c
            query = select(columns.version, columns.holder, columns.held_until).where(*conditions).with_for_update()
            found = connection.execute(query).first()
            held = {"holder": holder, "held_until": now + hold_ms, "updated_at": now}
            if found is None:
                _remove_oldest(connection, tenant_id, now)
                connection.execute(
                    insert(renewed_tokens).values(tenant_id=tenant_id, grant_id=grant_id, version=0, **held)
                )
                return 0
            if found.holder is not None and found.held_until > now:
                return None
            connection.execute(update(renewed_tokens).where(*conditions).values(**held))
            version: int = found.version
            return version

        try:
            return await self._store.transact(take)
        except DuplicateRefused:
            return None  # somebody else was first

    async def keep(self, tenant_id: str, grant_id: str, version: int, sealed: bytes) -> None:
        """Store what a renewal of this version gave, and let others renew. Nothing if one was stored meanwhile."""
        conditions = (*_of_grant(tenant_id, grant_id), renewed_tokens.c.version == version)

        def put(connection: Connection) -> None:
            values = {"version": version + 1, "sealed": sealed, "holder": None, "held_until": 0,
                      "updated_at": self._store.dialect.now(connection)}  # fmt: skip
            connection.execute(update(renewed_tokens).where(*conditions).values(**values))

        await self._store.transact(put)

    async def drop(self, tenant_id: str, grant_id: str, holder: str) -> None:
        """Let others renew: this holder could not."""
        conditions = (*_of_grant(tenant_id, grant_id), renewed_tokens.c.holder == holder)
        statement = update(renewed_tokens).where(*conditions).values(holder=None, held_until=0)
        await self._store.transact(lambda connection: connection.execute(statement))


def _of_grant(tenant_id: str, grant_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return renewed_tokens.c.tenant_id == tenant_id, renewed_tokens.c.grant_id == grant_id


def _remove_oldest(connection: Connection, tenant_id: str, now: int) -> None:
    columns = renewed_tokens.c
    count = select(func.count()).select_from(renewed_tokens).where(columns.tenant_id == tenant_id)
    if (connection.execute(count).scalar() or 0) < GRANTS_MAX:
        return
    free = select(columns.grant_id).where(columns.tenant_id == tenant_id, columns.held_until <= now)
    oldest = connection.execute(free.order_by(columns.updated_at).limit(1)).scalar()
    if oldest is not None:
        connection.execute(delete(renewed_tokens).where(*_of_grant(tenant_id, oldest)))
