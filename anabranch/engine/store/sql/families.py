"""Effects of a transition on other runs: the parent and the children of its instance, and the handling of its failure.

Pure. Called by the dialects and by the memory store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

from anabranch.engine.ports import Transition
from anabranch.engine.rules.events import Status

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_FAILED = Status.FAILED

REASON_BEGINS = "its parent, run "
REASON_ENDS = ", does not wait for it any more"


# The reason as JSON, with quotation marks around it, and an id of 36 characters in it.
REASON_BYTES = len(REASON_BEGINS) + 36 + len(REASON_ENDS) + 2


def cancel_reason(parent_id: str | None) -> str:
    """The reason of a cancelled child whose parent no longer awaits it."""
    return f"{REASON_BEGINS}{parent_id}{REASON_ENDS}"


def created_children(transitions: Iterable[Transition]) -> list[tuple[Transition, str]]:
    """The creations that have a parent, with it."""
    new_runs = (
        (transition, transition.new_run.parent_id) for transition in transitions if transition.new_run is not None
    )
    return [(transition, parent_id) for transition, parent_id in new_runs if parent_id is not None]


def woken_parents(transitions: Iterable[Transition], won: Set[str]) -> list[str]:
    """The parents that await runs ended by the winning transitions, in id order."""
    return sorted(
        {
            transition.wakes
            for transition in transitions
            if transition.wakes is not None and transition.instance_id in won
        }
    )


def cancelled_children(transitions: Iterable[Transition], won: Set[str]) -> list[str]:
    """The children that the winning transitions no longer await; they need not exist."""
    return [
        child
        for transition in transitions
        if transition.cancels and transition.instance_id in won
        for child in transition.cancels
    ]


def failures(transitions: Iterable[Transition]) -> dict[str, Any]:
    """The errors of the runs that fail with these transitions, by their ids."""
    return {
        transition.instance_id: transition.events[-1].payload.value
        for transition in transitions
        if transition.status is _FAILED and transition.events
    }


def touches_family(transitions: Sequence[Transition]) -> bool:
    """Whether this batch concerns more than its own instances; rare."""
    return any(transition.concerns_family for transition in transitions)
