"""How steps are called: their names, their scopes, and what their rows say about them beside their outcome.

Pure. Known to the journal, the context of coded workflows and the views of runs.

The scope of a step says which call of its name it is: "" the first, "#2" the second. Where the
workflow's own retry runs a failed step again, "@3" is appended: in its third attempt.
"""

from __future__ import annotations

import re
from enum import StrEnum

BODY_NODE_ID = ""
BODY_SCOPE = ""
BODY_PLACE = (BODY_NODE_ID, BODY_SCOPE)
"""Where the body is: it is no node, and has a row only where it is dispatched, suspended or tried again."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,128}")


class StepKind(StrEnum):
    """What a step does; the same name must always be the same kind."""

    RUN = "run"
    SLEEP = "sleep"
    EVENT = "event"
    CHILD = "child"
    SIGNAL = "signal"


def is_step_name(name: object) -> bool:
    """1 to 128 letters, digits, `.`, `_`, `-`."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def scope_of_call(number: int) -> str:
    """The scope of the first, second, … call of a name."""
    return "" if number == 1 else f"#{number}"


def scope_of_attempt(scope: str, attempt: int) -> str:
    """The scope in which a step that had failed runs again in this attempt of the workflow."""
    return f"{scope}@{attempt}"


def mark(kind: StepKind, after: int) -> str:
    """What every row of a step says in `output_variable`: its kind, and the last row known when it was asked for."""
    return f"{kind.value}:{after}"


def read_mark(text: str | None) -> tuple[StepKind, int]:
    """Kind and row of a mark; rows without one are those of a plain step."""
    kind, _, after = (text or "run:0").partition(":")
    return StepKind(kind), int(after)
