"""Commands: what the shell must perform once the events that ask for it are committed.

Commands are derived, never stored: `decide` returns them with its events and
`outstanding(state)` computes the same ones from a folded log. Performing one twice is harmless.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

# Named tuples: they are keys of sets and dicts on the hot path, and tuples hash in C.


class Dispatch(NamedTuple):
    """Run the handler of this attempt."""

    node_id: str
    scope: str
    attempt: int


class Wake(NamedTuple):
    """Offer the instance a `TimersDue` stimulus at this time (ms): a delay, retry, wait or deadline is due then.

    A loop that a decision left unfinished uses a time in the past, so that it continues at once.
    """

    node_id: str
    scope: str
    attempt: int
    due_at: int


class AwaitChild(NamedTuple):
    """Offer the instance a `ChildEnded` stimulus once this run, which the node has started, has ended."""

    node_id: str
    scope: str
    child_id: str


Command: TypeAlias = Dispatch | Wake | AwaitChild
