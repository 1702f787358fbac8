"""Limits of one query: each number with its reason.

Used by all modules of this package; `QueryEngine` takes a `Limits`, and tests pass smaller ones.
"""

from __future__ import annotations

from anabranch.dataclass import dataclass

# 10,000 rows: more is a report, not a step of a workflow; the list has to fit into one output anyway.
ROWS_MAX = 10_000

# 10 MiB of result: ten times the limit of an output, so a query that returns too much fails with a clear error before
# it fills the memory.
BYTES_MAX = 10 * 1024 * 1024

# 32 MiB for the values of an answer in the service's memory: text of 10 MiB fits, also in an alphabet
# that takes three bytes a character; ten million empty lists, which are as much text, do not.
MEMORY_MAX = 32 * 1024 * 1024

# 25 s: five less than a node's default timeout, so that the database's own answer ("it took too
# long") comes before the engine's.
STATEMENT_TIMEOUT_MS = 25_000

# 10 minutes: run longer queries elsewhere.
STATEMENT_TIMEOUT_MS_MAX = 600_000

# 10 s to connect: a server that takes longer is down for this attempt.
CONNECT_TIMEOUT_MS = 10_000

# 5 s to test a source at save: a user waits for the response, and it is saved in any case.
CHECK_TIMEOUT_MS = 5_000

# 2 addresses of a host are tried, and share the time to connect: a name may have dozens, and a
# driver waits as long for each of them.
ADDRESSES_TRIED_MAX = 2

# 4 connections to one source from one process: enough for a loop with some concurrency, few
# enough that a small server is not filled by one workflow.
CONNECTIONS_PER_SOURCE = 4

# 60 s without a query, then connections are closed: a source that is used once a day holds nothing.
IDLE_CLOSE_MS = 60_000

# 16 connections without a query in one process: each is a process of up to 35 MB.
CONNECTIONS_IDLE_MAX = 16

# 5 s for queries to notice that they were interrupted, when the process stops.
STOP_WAIT_MS = 5_000

# 64 KiB of SQL and 100 parameters: texts that people write stay far below.
SQL_BYTES_MAX = 65_536
PARAMETERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one query and of one source."""

    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    memory_max: int = MEMORY_MAX
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS
    check_timeout_ms: int = CHECK_TIMEOUT_MS
    connections_per_source: int = CONNECTIONS_PER_SOURCE
    idle_close_ms: int = IDLE_CLOSE_MS
    connections_idle_max: int = CONNECTIONS_IDLE_MAX
    stop_wait_ms: int = STOP_WAIT_MS
