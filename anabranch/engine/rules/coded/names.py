"""Names of steps, their scopes, and the mark that each row of a step carries.

Pure. Used by the journal, the context of coded workflows and the views of runs.

The scope counts calls of a name: "" is the first, "#2" the second. When the workflow's own retry runs a failed step
again, "@3" is appended: in its third attempt.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple, TypeAlias

FUNCTION_NODE_ID = ""
FUNCTION_SCOPE = ""
FUNCTION_KEY = (FUNCTION_NODE_ID, FUNCTION_SCOPE)
"""Where the function is: it is not a node, and has a row only where it is dispatched, suspended or tried again."""

Rows: TypeAlias = frozenset[int]
"""Rows of a log, by their seq."""

# 16 rows: every row of a step repeats its mark.
ROWS_LISTED_MAX = 16

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,128}")


TIMER_NAME = "@timer"
"""Under which name timers of workflow functions are recorded, as sleeps: no step can be called so."""


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


def scope_of_timer(due_at: int, number: int) -> str:
    """The scope of the first, second, … timer of an attempt with this due time: `#1700000005000`, `#1700000005000.2`.

    Named by due time, not by order, so that a timer added elsewhere in the function renames no other.
    """
    return f"#{due_at}" if number == 1 else f"#{due_at}.{number}"


def scope_of_attempt(scope: str, attempt: int) -> str:
    """The scope in which a step that had failed runs again in this attempt of the workflow."""
    return f"{scope}@{attempt}"


def scope_of_first_attempt(scope: str) -> str:
    """The scope without the attempt of the workflow: it is the same in every attempt."""
    return scope.partition("@")[0]


# What `Mark(…)` ends in: to call the class of a named tuple takes several times as long.
_new = tuple.__new__


class Mark(NamedTuple):
    """The kind of a step, and the last rows that the function knew when it asked for the step. Part of every row of
    it."""

    kind: StepKind
    after: str
    """The rows: `7`, `7,9`, or `7-900` for a gather of too many to list."""

    @classmethod
    def of(cls, kind: StepKind, after: Rows) -> Mark:
        """The mark of a step that followed these rows."""
        if len(after) == 1:  # as for most steps
            (row,) = after
            return _new(cls, (kind, str(row)))
        if len(after) > ROWS_LISTED_MAX:
            return cls(kind, f"{min(after)}-{max(after)}")
        return cls(kind, ",".join(map(str, sorted(after))))

    @property
    def text(self) -> str:
        """The stored form: `run:7`."""
        return f"{self.kind._value_}:{self.after}"  # `value` is a descriptor, and dearer than the rest

    @property
    def rows(self) -> range | tuple[int, ...]:
        """The rows; for a range, every row in it."""
        first, dash, last = self.after.partition("-")
        if dash:
            return range(int(first), int(last) + 1)
        return tuple(int(row) for row in self.after.split(",") if row)

    @property
    def latest_row(self) -> int | None:
        """The latest row that the step followed; the function could ask for it from then on."""
        rows = self.rows
        return rows[-1] if rows else None


NO_MARK = Mark(StepKind.RUN, "")
"""Of steps of the first versions."""

_KINDS = {kind.value: kind for kind in StepKind}


def variable_and_mark(stored: str | None) -> tuple[str | None, Mark | None]:
    """The variable and the mark in the column `output_variable`: nodes store a variable there, steps a mark.

    Variables are identifiers, and every mark has a colon.
    """
    if stored is None or ":" not in stored:
        return stored, None
    kind, _, after = stored.partition(":")
    return None, Mark(_KINDS[kind], after)
