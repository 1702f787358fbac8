"""Dead letters as they are stored, and the port to the store.

The transport of a worker takes them from the broker and adds them; routes, commands and explanations list them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.rules.instants import to_iso

# 10,000 letters: each is another job, and a fault that makes more is visible by then. The oldest go first.
LETTERS_MAX = 10_000

LISTED_MAX = 2_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that the broker has set aside, without what it contains. What the message does not say is empty, or 0."""

    letter_id: str
    """The job's id; of a message without one its hash."""
    tenant_id: str
    """As stored: empty if the tenant has no such run, since anybody who may publish can name one."""
    instance_id: str
    node_id: str
    scope: str
    attempt: int
    queue: str
    """Where it came from."""
    reason: str
    count: int = 1
    first_at: int = 0
    last_at: int = 0


class DeadLetterRows(Protocol):
    """Keeps the letters: as long as their run, and no longer than the audit trail."""

    async def add_letter(self, letter: DeadLetter) -> None:
        """Add it, or count it again; its times are those of the store. Raises StoreUnavailable."""

    async def list_letters(self, *, tenant_id: str | None) -> Sequence[DeadLetter]:
        """The newest first; of one tenant, or (None) all, with those of no tenant."""

    async def letters_of_run(self, instance_id: str) -> Sequence[DeadLetter]:
        """Those about a run, without those that name another tenant."""

    async def count_letters(self) -> int:
        """The number of dead letters."""


def letter_as_json(letter: DeadLetter) -> dict[str, Any]:
    """The public form."""
    return {
        "letterID": letter.letter_id,
        "tenant": letter.tenant_id,
        "runID": letter.instance_id or None,
        "nodeID": letter.node_id,
        "scope": letter.scope,
        "attempt": letter.attempt,
        "queue": letter.queue,
        "reason": letter.reason,
        "count": letter.count,
        "firstAt": to_iso(letter.first_at),
        "lastAt": to_iso(letter.last_at),
    }
