"""The interface of a database: everything in which PostgreSQL and SQLite differ.

`store`, `reads` and `definitions` use this protocol; `sqlite_dialect` and `postgresql_dialect` implement it. A method
that takes a connection runs in the thread that owns it, is one whole transaction, and has no effect if it raises, so it
may be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection, Engine, TextClause

from anabranch.dataclass import dataclass
from anabranch.engine.ports import ClaimRequest, InstanceRow, Loaded, Outcome, Transition
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.run_filter import WantedInput
from anabranch.engine.store.sql.database_errors import DatabaseErrorKind
from anabranch.engine.store.sql.rows import ExternalEvent

# 10 s: more than a clock is usually set back, and more than the delay until a transaction is visible; short enough that
# counts scan few newer runs.
ENDS_SETTLE_MS = 10_000


@dataclass(frozen=True, slots=True)
class ClaimedRow:
    """One row that a claim found. All of them are taken, unless one belongs to a lost worker: then none is."""

    instance_id: str
    lost_by: str | None = None
    """The lost worker whose lease expired; the row must be judged before any is taken."""
    company: int | None = None
    """Of a suspect: see `blame.Blame`."""


@dataclass(slots=True)
class Outages:
    """How often connections that fail together have failed: one that is older than the last time is replaced."""

    count: int = 0


class AsyncCommits(Protocol):
    """Commits without a thread."""

    def takes(self, transitions: Sequence[Transition]) -> bool:
        """Whether these may be committed here now; they concern no family."""

    async def commit(self, transitions: Sequence[Transition]) -> Outcome:
        """As `Dialect.commit`. Raises StoreUnavailable, LocksHeld or DataRefused, as the threads do."""

    async def close(self, *, patience_s: float | None = None) -> None:
        """Finish what is under way and disconnect; what takes longer than `patience_s` is cut off."""


class Dialect(Protocol):
    """One kind of database."""

    commits_in_flight_max: int
    """The number of concurrent commits. With more than one, the next is planned while one is written."""

    commit_threads: int
    """How many of them are written at once, each on its own connection."""

    reading_threads: int
    """The number of connections for reads, and for writes that never wait for a lock."""

    writing_threads: int
    """The number of connections for writes, other than commits, that may wait for a lock; 0: the database has a single
    writer, so all writes use the commit threads."""

    among_ids: str
    """The condition that `instance_id` is one of the parameter `ids`."""

    ended_children: TextClause
    """Selects id, status and last payload of those of the parameter `ids` that are not open; only the id of removed
    ones."""

    given_rows: str
    """A FROM item with the rows of the parameter `given`, a JSON list of lists: each is `p.value`."""

    payload_size: str
    """How many bytes the payload of a log row `l` has."""
    parts_size: str
    """How many bytes the large parts of the payload of a log row `l` have."""
    payload_without_output: str
    """The payload of a log row `l`, an object, without its field `output`."""

    is_effective: str
    """The condition that no reopening has left out the log row `l`."""

    index_names: str
    """Selects the names of all indexes of our schema."""

    row_lock: str
    """The clause that makes a SELECT lock its rows and skip rows locked by others; empty for a single writer."""

    clock: str
    """The database's clock (ms) in a statement, for where a statement of its own (`now`) would double the cost."""

    is_remote: bool
    """True: an unavailable database may come back by itself, so a start waits for it."""

    target: str
    """What messages call the database, without password."""

    def engine(self, *, commits: bool) -> Engine:
        """An engine for connections; `commits` for those with the settings of the commit statement."""

    def async_commits(self, outages: Outages) -> AsyncCommits | None:
        """Commits on the event loop, beside threads with these `outages`; None: the threads do all."""

    def apply_outcome(self, connection: Connection) -> bool:
        """Detect properties of the database that the URL does not tell; called once, before anything else.

        True: later connections are opened differently, so existing ones should be replaced.
        """

    def whole(self, connection: Connection, *, commits: bool) -> AbstractContextManager[None]:
        """A context around each call of a thread, with settings that the connection may have lost."""

    def migration(self, connection: Connection) -> AbstractContextManager[None]:
        """A transaction for a migration, without timeouts; excludes other migrations."""

    def sever(self, connection: Connection) -> None:
        """Wake the thread that waits on this connection, with an error. Thread-safe; does not wait."""

    def check_writable(self, connection: Connection) -> None:
        """Return if a commit on this connection would succeed; raises DatabaseUnreachable or the driver's error."""

    def transaction(self, connection: Connection) -> AbstractContextManager[None]:
        """A transaction around several writing statements; uses an open one."""

    def snapshot(self, connection: Connection) -> AbstractContextManager[None]:
        """A transaction in which several statements share a snapshot."""

    def ids(self, instance_ids: Sequence[str]) -> str:
        """The parameter for `among_ids`, without texts that are not ids of this database."""

    def now(self, connection: Connection) -> int:
        """The database's clock (ms)."""

    @property
    def line_of_history(self) -> Callable[[Connection], str | None] | None:
        """Identifies the server's line of history, which another one replaces when a standby is promoted or a backup
        restored; None, or a call that returns None: there is one line.

        Asks once per connection: it does not change within one.
        """

    def settled_until(self, connection: Connection) -> int:
        """The time (ms) before which no further run can end: no later commit brings an earlier `completed_at`.

        Called within `transaction`.
        """

    def input_condition(self, wanted: WantedInput, number: int) -> TextClause:
        """The condition that the input of a run has one of these values at this path; `number` distinguishes several
        filters."""

    def commit(self, connection: Connection, transitions: Sequence[Transition]) -> Outcome:
        """Advance and create, in one transaction; `transitions` are in id order. Data are refused and locks held by
        errors, so `refused` and `locked` are empty."""

    def claim(self, connection: Connection, wanted: ClaimRequest) -> list[ClaimedRow]:
        """Raise the version of due instances and assign them to the worker, unless one belongs to a lost worker."""

    def append_external(self, connection: Connection, event: ExternalEvent, *, signals_max: int) -> InstanceRow | None:
        """Append to an open instance; the row after it, or None if nothing was written, for whatever reason."""

    def load(self, connection: Connection, instance_ids: Sequence[str], *, after_seq: int) -> dict[str, Loaded]:
        """Rows and their events, each pair from one snapshot."""

    def read_log(
        self, connection: Connection, instance_id: str, *, after_seq: int, limit: int, bytes_max: int
    ) -> list[Event]:
        """A page of one log, which stops once its payloads have `bytes_max`."""

    def give_back_space(self, connection: Connection) -> bool:
        """Return some free pages to the file system, in a short transaction; True if there are more."""

    def compact(self, connection: Connection) -> None:
        """Return all free pages, however long that takes, while others wait."""

    def disk_bytes(self, connection: Connection) -> int:
        """How much of the disk the database takes."""

    def event_list(self, rows: str) -> str:
        """The statement that answers with the log rows of a SELECT as `rows.events_from` takes them, in seq order."""

    def number_list(self, rows: str) -> str:
        """The statement that answers with the rows (seq, number) of a SELECT as one JSON list."""

    def locked_transitions(self, connection: Connection, transitions: Sequence[Transition]) -> set[str]:
        """Which of these transitions need a row that another session has locked; locks nothing."""

    def external_changes_possible(self, connection: Connection) -> bool:
        """False if certainly no other connection wrote since the last call on the same connection."""

    def error_kind_of(self, error: Exception) -> DatabaseErrorKind:
        """Classify an error of the driver."""

    def is_duplicate(self, error: Exception) -> bool:
        """True if it is a unique index that refused."""

    def describe(self, error: Exception) -> str:
        """One line: which database, where, and its own message."""
