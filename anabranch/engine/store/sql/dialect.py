"""The differences between PostgreSQL and SQLite, by name.

`store`, `reads` and `definitions` use this protocol; `sqlite_dialect` and `postgresql_dialect` implement it. A method
that takes a connection runs in the thread that owns it, is one whole transaction, and leaves nothing behind when it
raises: it may be called again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, TextClause

from anabranch.engine.ports import ClaimRequest, InstanceRow, Loaded, Transition
from anabranch.engine.rules.events import Event, Status, SuspendReason
from anabranch.engine.rules.run_filter import WantedInput
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.values import Payload
from anabranch.engine.store.sql.faults import Fault

# 10 s: more than a clock is set back by in one step, and than lies between the begin of a transaction and its
# report of it; little enough that what ended since is counted at every look.
ENDS_SETTLE_MS = 10_000

# Companies are counts of runs in one process: the databases' 32-bit integers end there.
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Written:
    """What one commit did: who won, when by the database's clock, and the rest of `transition.Outcome`."""

    won: set[str]
    now: int
    existing: dict[str, str]
    rejected: set[str]
    woken: dict[str, int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Taken:
    """One row that a claim has found. All of them are taken, unless the worker of one was lost: then none is."""

    instance_id: str
    lost_by: str | None = None
    """The worker that let its lease run out; the row is to be judged before any is taken."""
    company: int | None = None
    """Of a suspect: see `blame.Blame`."""


@dataclass(slots=True)
class Outages:
    """How often connections that fail together have failed: one that is older than the last time is replaced."""

    count: int = 0


class SmallCommits(Protocol):
    """Commits of few transitions without a thread."""

    def takes(self, transitions: Sequence[Transition]) -> bool:
        """May these be committed here now? They concern no family."""

    async def commit(self, transitions: Sequence[Transition]) -> Written:
        """As `Dialect.commit`. Raises StoreUnavailable, LocksHeld or DataRefused, as the threads do."""

    async def close(self, *, patience_s: float | None = None) -> None:
        """Finish what is under way and disconnect; what takes longer than `patience_s` is cut off."""


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """An event that is appended whether the instance is held or not; `ends` closes it in that status.

    A signal that is `awaited` will be consumed at once: the limit of unconsumed ones does not hold it off.
    """

    tenant_id: str
    instance_id: str
    event_type: str
    payload: Payload
    key: str | None = None
    ends: Status | None = None
    suspends: SuspendReason | None = None
    """Suspends an instance that is not suspended, for this reason."""
    resumes: bool = False
    """Lets a suspended instance go on."""
    message: str | None = None
    """The error's, where it ends with one."""
    awaited: bool = False
    log_limit: LogLimit = LOG_LIMIT

    @property
    def parameters(self) -> dict[str, Any]:
        """What every statement that appends one takes, and what its condition asks for."""
        parameters: dict[str, Any] = {
            "instance_id": self.instance_id,
            "tenant_id": self.tenant_id,
            "bytes": self.payload.weight,
        }
        if self.ends is None:
            parameters |= {"bytes_max": self.log_limit.bytes_max, "rows_max": self.log_limit.rows_max}
        if self.suspends is not None:
            parameters["suspended_for"] = self.suspends.value
        return parameters

    @property
    def row(self) -> dict[str, Any]:
        """What the statements that write the row of the log take."""
        division = self.payload.division
        return {
            "event_type": self.event_type,
            "payload": (self.payload.raw if division is None else division.shell).decode(),
            "message": self.message,
            "parts": None if division is None else division.references,
        }

    @property
    def is_about_unfit(self) -> bool:
        """Does it suspend a run that nobody has who could run it?"""
        return self.suspends is not None and self.suspends.ends_by_itself

    @property
    def is_signal(self) -> bool:
        """Is it neither an end nor about a suspension?"""
        return self.ends is None and self.suspends is None and not self.resumes


class Dialect(Protocol):
    """One kind of database."""

    commits_in_flight_max: int
    """How many commits may be under way at once. With more than one, the next is planned while one is written."""

    commit_threads: int
    """How many of them are written at once, each on its own connection."""

    reading_threads: int
    """How many connections there are for what reads, and for what writes without ever waiting for a lock."""

    writing_threads: int
    """How many connections there are for what writes, is no commit and may wait for a lock; 0: the database has one
    writer at a time, so whatever writes must use the commit threads."""

    among_ids: str
    """The condition that `instance_id` is one of the parameter `ids`."""

    ended_children: TextClause
    """Selects id, status and last payload of those of the parameter `ids` that are not open; of what is not there
    only the id."""

    given_rows: str
    """What to select from to have the rows of the parameter `given`, a JSON list of lists: each is `p.value`."""

    payload_size: str
    """How many bytes the payload of a log row `l` has."""
    parts_size: str
    """How many bytes the large parts of the payload of a log row `l` have."""
    payload_without_output: str
    """The payload of a log row `l`, an object, without its field `output`."""

    is_effective: str
    """The condition that no reopening has left out the log row `l`."""

    index_names: str
    """Selects the names of all indexes of the schema that we use."""

    row_lock: str
    """The words that make a SELECT lock what it finds and leave out what others have locked; empty where only
    one connection writes at a time."""

    is_remote: bool
    """True: an absent database may come up by itself, so a start waits for it."""

    place: str
    """Where the database is, for messages: never with a password."""

    def engine(self, *, commits: bool) -> Engine:
        """Opens connections; those for commits have what the commit statement needs."""

    def small_commits(self, outages: Outages) -> SmallCommits | None:
        """What commits few transitions on the event loop, beside threads with these `outages`; None: threads do."""

    def apply_outcome(self, connection: Connection) -> bool:
        """Find out about the database what the URL does not say; called once, before anything else.

        True: from now on connections are made in another way, so those that there are should be replaced.
        """

    def whole(self, connection: Connection, *, commits: bool) -> AbstractContextManager[None]:
        """Around each call of a thread: what every transaction needs and its connection may not have kept."""

    def migration(self, connection: Connection) -> AbstractContextManager[None]:
        """A transaction for a migration, as long as it may take; keeps other migrators out until it ends."""

    def sever(self, connection: Connection) -> None:
        """Wake the thread that waits on this connection, with an error. Callable from any thread; does not wait."""

    def check_writable(self, connection: Connection) -> None:
        """Return if a commit on this connection would get through; raises DatabaseAway or the driver's error."""

    def transaction(self, connection: Connection) -> AbstractContextManager[None]:
        """A transaction around several statements that write; within one, nothing more."""

    def snapshot(self, connection: Connection) -> AbstractContextManager[None]:
        """A transaction in which several statements read the same moment."""

    def ids(self, instance_ids: Sequence[str]) -> str:
        """The parameter for `among_ids`; what is no id of this database is left out."""

    def now(self, connection: Connection) -> int:
        """The database's clock (ms)."""

    def settled_until(self, connection: Connection) -> int:
        """Until when (ms) everything has ended that ever will: no later commit brings an earlier `completed_at`.

        Asked within `transaction`.
        """

    def input_condition(self, wanted: WantedInput, number: int) -> TextClause:
        """That the input of a run has one of these values at this path; `number` tells several filters apart."""

    def commit(self, connection: Connection, transitions: Sequence[Transition]) -> Written:
        """Advance and give creation, in one transaction; `transitions` come in id order."""

    def claim(self, connection: Connection, wanted: ClaimRequest) -> list[Taken]:
        """Raise the version of due instances and give them to the worker, unless one of them was a lost worker's."""

    def append_external(self, connection: Connection, event: ExternalEvent, *, signals_max: int) -> InstanceRow | None:
        """Append to an open instance; the row after it, or None if nothing was written, for whatever reason."""

    def load(self, connection: Connection, instance_ids: Sequence[str], *, after_seq: int) -> dict[str, Loaded]:
        """Rows and their events, each pair from one snapshot."""

    def read_log(
        self, connection: Connection, instance_id: str, *, after_seq: int, limit: int, bytes_max: int
    ) -> list[Event]:
        """A page of one log: no further event once their payloads have `bytes_max`."""

    def give_back_space(self, connection: Connection) -> bool:
        """Give some free pages back to the file system, in a short transaction; True if there are more."""

    def compact(self, connection: Connection) -> None:
        """Give all of them back, however long that takes, while others wait."""

    def disk_bytes(self, connection: Connection) -> int:
        """How much of the disk the database takes."""

    def event_list(self, rows: str) -> str:
        """The statement that answers with the log rows of a SELECT as `rows.events_from` takes them, in seq order."""

    def number_list(self, rows: str) -> str:
        """The statement that answers with the rows (seq, number) of a SELECT as one JSON list."""

    def locked_transitions(self, connection: Connection, transitions: Sequence[Transition]) -> set[str]:
        """Which of these transitions need a row that somebody else has locked at this moment; locks nothing."""

    def external_changes_possible(self, connection: Connection) -> bool:
        """False if certainly no other connection wrote since this was last asked, on the same connection."""

    def fault_of(self, error: Exception) -> Fault:
        """What an error of the driver means."""

    def is_duplicate(self, error: Exception) -> bool:
        """True if it is a unique index that refused."""

    def describe(self, error: Exception) -> str:
        """One line: which database, where, and its own words for what is wrong."""


def claim_parameters(wanted: ClaimRequest) -> dict[str, Any]:
    """What the statements of every claim take."""
    room = wanted.suspects
    return {
        "worker_id": wanted.worker_id,
        "limit": wanted.limit,
        "weight_max": wanted.weight_max,
        "held": room.held,
        "company_min": _NO_LIMIT if room.company_min is None else room.company_min,
        "away_until": 0 if wanted.away_until is None else wanted.away_until,
    }


def code_keys(known_code: Sequence[tuple[str, int]]) -> list[str]:
    """Names and versions of code, as one text each, as the statements of a claim compare them."""
    return [f"{name}:{version}" for name, version in known_code]
