"""The rows of dead letters: the newest 10,000. Shares the threads of the store that it is built on.

What removes runs removes their letters (`engine.store.sql.run_dead_letters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from anabranch.dead_letters.dead_letter_schema import dead_letters
from anabranch.dead_letters.dead_letters import LETTERS_MAX, LISTED_MAX, DeadLetter
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.run_dead_letters import locks_run

_COLUMNS = list(dead_letters.c)

NO_TENANT = ""
"""No tenant has this name."""


class DeadLetterTable:
    """`dead_letters.DeadLetterRows` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def add_letter(self, letter: DeadLetter) -> None:
        """One transaction; two processes that add the same letter at once: one of them tries again."""
        dialect, columns = self._store.dialect, dead_letters.c

        def add(connection: Connection) -> None:
            """Count the letter if it is known, else insert it and remove the oldest ones beyond `LETTERS_MAX`."""
            now = dialect.now(connection)
            is_known = locks_run(connection, dialect, letter.instance_id, tenant_id=letter.tenant_id)
            kept = letter if is_known else _of_no_tenant(letter)
            again = {"count": columns.count + 1, "last_at": now, "reason": kept.reason}
            known = update(dead_letters).where(columns.letter_id == kept.letter_id).values(again)
            if connection.execute(known).rowcount:
                return
            connection.execute(insert(dead_letters).values(asdict(replace(kept, first_at=now, last_at=now))))
            old = select(columns.letter_id).order_by(columns.last_at.desc()).offset(LETTERS_MAX)
            connection.execute(delete(dead_letters).where(columns.letter_id.in_(old.limit(LETTERS_MAX))))

        await self._store.transact(add)

    async def list_letters(self, *, tenant_id: str | None) -> Sequence[DeadLetter]:
        """Uses ix_dead_letter_time."""
        return await self._select(*(() if tenant_id is None else (dead_letters.c.tenant_id == tenant_id,)))

    async def letters_of_run(self, instance_id: str) -> Sequence[DeadLetter]:
        """Uses ix_dead_letter_run."""
        return await self._select(dead_letters.c.instance_id == instance_id, dead_letters.c.tenant_id != NO_TENANT)

    async def count_letters(self) -> int:
        """At most LETTERS_MAX rows."""
        query = select(func.count()).select_from(dead_letters)
        return await self._store.read(lambda connection: int(connection.execute(query).scalar_one()))

    async def _select(self, *which: ColumnElement[bool]) -> Sequence[DeadLetter]:
        query = select(*_COLUMNS).where(*which).order_by(dead_letters.c.last_at.desc(), dead_letters.c.letter_id)
        query = query.limit(LISTED_MAX)
        return await self._store.read(lambda connection: [DeadLetter(*row) for row in connection.execute(query)])


def _of_no_tenant(letter: DeadLetter) -> DeadLetter:
    """With an id that no letter of a tenant has, so that none is counted for it."""
    return replace(letter, tenant_id=NO_TENANT, letter_id=f"unknown:{letter.letter_id}")
