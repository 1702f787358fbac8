"""Findings of a check of a log."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from anabranch.dataclass import dataclass


class FindingCode(StrEnum):
    """A code for what is wrong with a row, or for a missing one."""

    SEQ_BROKEN = "SEQ_BROKEN"
    ROW_UNREADABLE = "ROW_UNREADABLE"
    ROW_UNEXPECTED = "ROW_UNEXPECTED"
    ROW_AFTER_END = "ROW_AFTER_END"
    ENDED_TWICE = "ENDED_TWICE"
    DISPATCHED_TWICE = "DISPATCHED_TWICE"
    DISPATCH_EARLY = "DISPATCH_EARLY"
    DISPATCH_UNEXPECTED = "DISPATCH_UNEXPECTED"
    DISPATCH_MISSING = "DISPATCH_MISSING"
    SKIP_UNEXPECTED = "SKIP_UNEXPECTED"
    SKIP_MISSING = "SKIP_MISSING"
    ITERATION_UNEXPECTED = "ITERATION_UNEXPECTED"
    RESULT_UNEXPECTED = "RESULT_UNEXPECTED"
    RESULT_DIFFERS = "RESULT_DIFFERS"
    HANDLE_DIFFERS = "HANDLE_DIFFERS"
    RETRY_UNEXPECTED = "RETRY_UNEXPECTED"
    TIMER_EARLY = "TIMER_EARLY"
    FIRED_WHILE_SUSPENDED = "FIRED_WHILE_SUSPENDED"
    SIGNAL_DIFFERS = "SIGNAL_DIFFERS"
    SIGNAL_TWICE = "SIGNAL_TWICE"
    CHILD_DIFFERS = "CHILD_DIFFERS"
    STEP_DIFFERS = "STEP_DIFFERS"
    END_UNEXPECTED = "END_UNEXPECTED"
    END_MISSING = "END_MISSING"
    OUTPUT_DIFFERS = "OUTPUT_DIFFERS"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault in a log."""

    code: FindingCode
    seq: int
    """The row that shows it: the one that is wrong, or the last one before the missing one."""
    node_id: str
    scope: str
    message: str

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "code": self.code.value,
            "seq": self.seq,
            "nodeID": self.node_id,
            "scope": self.scope,
            "message": self.message,
        }


# 20 findings: more are mostly consequences of the first fault.
FINDINGS_MAX = 20
