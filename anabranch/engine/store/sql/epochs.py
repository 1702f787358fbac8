"""Epochs: which line of history the database is on, and how far runs are stored on it.

Called by `store`. A standby that is promoted without the last commits of its primary, and a backup that is restored,
begin another line. The first process that meets it enters it as the next epoch. A look costs a statement on a new
connection, and behind a pooler; otherwise none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache

import orjson
from sqlalchemy import Connection, TextClause, text

from anabranch.engine.ports import Epoch, Position
from anabranch.engine.rules.events import Status
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.errors import DatabaseUnreachable

log = logging.getLogger("anabranch.store")

_LAST = text("SELECT epoch, line, began_at FROM database_epochs ORDER BY epoch DESC LIMIT 1")

_ENTER = text("""
    INSERT INTO database_epochs (epoch, line, began_at) VALUES (:epoch, :line, :now) ON CONFLICT DO NOTHING
""")
"""Of two processes that enter the same one at once, one does."""


@cache
def _positions(given_rows: str, identifier: str) -> TextClause:
    """By the primary keys."""
    return text(f"""
        SELECT i.instance_id, i.tenant_id, i.status, i.last_seq, l.created_at
        FROM {given_rows} JOIN workflow_instances AS i ON i.instance_id = CAST(p.value ->> 0 AS {identifier})
        LEFT JOIN workflow_instance_logs AS l
            ON l.instance_id = i.instance_id AND l.seq = CAST(p.value ->> 1 AS integer)
    """)  # noqa: S608 -- our own words


class Epochs:
    """The epoch that one process knows. Its methods run in the threads of the store."""

    def __init__(
        self, dialect: Dialect, line_of_history: Callable[[Connection], str | None], *, changed: Callable[[], None]
    ) -> None:
        """`line_of_history` is that of the dialect. `changed` is called when the line has changed, to replace
        connections to what is past."""
        self._dialect = dialect
        self._line_of_history = line_of_history
        self._changed = changed
        self._known: tuple[str, Epoch] | None = None
        self._lines: set[str] = set()
        """The lines of history that it has worked on."""
        self._settled: Epoch | None = None
        """The epoch that began a lease ago or earlier."""

    def look(self, connection: Connection) -> Epoch | None:
        """The present epoch, entered if it is new; None: the database does not tell. Raises DatabaseUnreachable."""
        line = self._line_of_history(connection)
        known = self._known
        if line is None or (known is not None and known[0] == line):
            return None if known is None else known[1]
        epoch = self._enter(connection, line, at_least=1 if known is None else known[1].number + 1)
        self._lines.add(line)
        if known is not None and epoch.number < known[1].number:
            raise DatabaseUnreachable(
                f"{self._dialect.target}: it is in epoch {epoch.number}, and this process has already worked in epoch"
                f" {known[1].number}: a server that was replaced answers"
            )
        self._known = (line, epoch)
        if known is not None:
            log.warning("%s: it was failed over or restored; this is epoch %d", self._dialect.target, epoch.number)
            self._changed()
        return epoch

    def is_settled(self, connection: Connection, *, lease_ms: int) -> bool:
        """Whether runs may be taken over: not for a lease after a failover or a restore. Raises DatabaseUnreachable."""
        epoch = self.look(connection)
        if epoch is None or epoch.number == 1 or epoch == self._settled:
            return True
        if self._dialect.now(connection) < epoch.began_at + lease_ms:
            return False
        self._settled = epoch
        return True

    def _enter(self, connection: Connection, line: str, *, at_least: int) -> Epoch:
        last = connection.execute(_LAST).one_or_none()
        is_behind = last is not None and last[0] < at_least and line not in self._lines  # the table was set back
        if last is None or last[1] != line or is_behind:
            number = at_least if last is None else max(at_least, last[0] + 1)
            connection.execute(_ENTER, {"epoch": number, "line": line, "now": self._dialect.now(connection)})
            last = connection.execute(_LAST).one()
        return Epoch(last[0], last[2])


def positions_of(connection: Connection, dialect: Dialect, seqs: Mapping[str, int]) -> dict[str, Position]:
    """How far these runs are stored, and when the given row of each was written."""
    statement = _positions(dialect.given_rows, "uuid" if dialect.is_remote else "text")
    rows = connection.execute(statement, {"given": orjson.dumps(list(seqs.items())).decode()})
    return {row[0]: Position(row[1], Status(row[2]), row[3], row[4]) for row in rows}
