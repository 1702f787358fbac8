"""What a turn means for the parent and the children of its instance: words that every store shares.

Pure. Called by the dialects and by the memory database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.engine.ports import Turn
from anabranch.engine.rules.turn import concerns_family

REASON_BEGINS = "its parent, run "
REASON_ENDS = ", does not wait for it any more"


# The reason as JSON, with quotation marks around it, and an id of 36 characters in it.
REASON_BYTES = len(REASON_BEGINS) + 36 + len(REASON_ENDS) + 2


def cancel_reason(parent_id: str | None) -> str:
    """Why a child is cancelled that nobody cancelled by itself."""
    return f"{REASON_BEGINS}{parent_id}{REASON_ENDS}"


def born_children(turns: Iterable[Turn]) -> list[tuple[Turn, str]]:
    """The births that have a parent, with it."""
    births = ((turn, turn.birth.parent_id) for turn in turns if turn.birth is not None)
    return [(turn, parent_id) for turn, parent_id in births if parent_id is not None]


def woken_parents(turns: Iterable[Turn], won: set[str]) -> list[str]:
    """The parents that await what has ended with the turns that won, in id order."""
    return sorted({turn.wakes for turn in turns if turn.wakes is not None and turn.instance_id in won})


def cancelled_children(turns: Iterable[Turn], won: set[str]) -> list[str]:
    """The children that the turns that won do not wait for any more; they need not exist."""
    return [child for turn in turns if turn.cancels and turn.instance_id in won for child in turn.cancels]


def touches_family(turns: Sequence[Turn]) -> bool:
    """Is there more to do for this batch than to write its own instances? Nearly never."""
    return any(map(concerns_family, turns))
