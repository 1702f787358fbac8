"""The findings of a data check, and what to do about each."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from anabranch.dataclass import dataclass


class DataFault(StrEnum):
    """A broken promise about stored data."""

    RUN_UNREADABLE = "RUN_UNREADABLE"
    LOG_BROKEN = "LOG_BROKEN"
    LOG_UNREADABLE = "LOG_UNREADABLE"
    LOG_ORPHANED = "LOG_ORPHANED"
    LOG_ROW_DIFFERS = "LOG_ROW_DIFFERS"
    LOG_SIZE_DIFFERS = "LOG_SIZE_DIFFERS"
    ENDING_REPEATED = "ENDING_REPEATED"
    END_REPEATED = "END_REPEATED"
    STATUS_DIFFERS = "STATUS_DIFFERS"
    TIMES_DIFFER = "TIMES_DIFFER"
    SUSPENSION_DIFFERS = "SUSPENSION_DIFFERS"
    ENDED_RUN_HELD = "ENDED_RUN_HELD"
    LEASE_ENDLESS = "LEASE_ENDLESS"
    RUN_STUCK = "RUN_STUCK"
    SIGNAL_REPEATED = "SIGNAL_REPEATED"
    DEFINITION_MISSING = "DEFINITION_MISSING"
    CHILD_MISSING = "CHILD_MISSING"
    CHILD_ABANDONED = "CHILD_ABANDONED"
    PARENT_NOT_WOKEN = "PARENT_NOT_WOKEN"
    FAMILY_DIFFERS = "FAMILY_DIFFERS"
    COUNTS_DIFFER = "COUNTS_DIFFER"
    INDEX_MISSING = "INDEX_MISSING"
    VALUE_MISSING = "VALUE_MISSING"
    VALUE_DIFFERS = "VALUE_DIFFERS"
    VALUE_ORPHANED = "VALUE_ORPHANED"
    VALUE_REFERENCE_ORPHANED = "VALUE_REFERENCE_ORPHANED"


_RESTORE = "Restore the database from a backup, or cancel and delete the run; keep `anabranch runs export` of it first."
_COPY = "Restore the database from a backup; or keep a copy of it (`anabranch backup`), then cancel and delete the run."
_TOUCH = "Pause and resume the run: a worker looks at it then."

HINTS: dict[DataFault, str] = {
    DataFault.RUN_UNREADABLE: "Restore the row from a backup; until then lists with this run may fail, too.",
    DataFault.LOG_BROKEN: _RESTORE,
    DataFault.LOG_UNREADABLE: _COPY,
    DataFault.LOG_ORPHANED: "`anabranch purge` removes logs of runs that are not there.",
    DataFault.LOG_ROW_DIFFERS: "Restore it from a backup; views, searches and an index go by it, decisions do not.",
    DataFault.LOG_SIZE_DIFFERS: "It only decides how a log is read and when it is full. Restore it, or leave it.",
    DataFault.ENDING_REPEATED: _RESTORE,
    DataFault.END_REPEATED: _RESTORE,
    DataFault.STATUS_DIFFERS: "The log is right. Restore the row from a backup; of an open run, cancel and rerun it.",
    DataFault.TIMES_DIFFER: "The log is right. Restore the row from a backup; lists and retention go by it.",
    DataFault.SUSPENSION_DIFFERS: "Resume the run, and pause it again if it should stay paused.",
    DataFault.ENDED_RUN_HELD: "Nothing will happen to the run. Restore the row, or delete the run.",
    DataFault.LEASE_ENDLESS: "Stop the worker that is named, with SIGTERM: it gives its leases back.",
    DataFault.RUN_STUCK: _TOUCH,
    DataFault.SIGNAL_REPEATED: "Check whether its effect happened twice; the index that forbids it may be missing.",
    DataFault.DEFINITION_MISSING: "Restore the version from a backup; its runs cannot go on without it.",
    DataFault.CHILD_MISSING: "Cancel the run and rerun it: the child that it waits for is not stored.",
    DataFault.CHILD_ABANDONED: "Cancel the child: nobody waits for it any more.",
    DataFault.PARENT_NOT_WOKEN: _TOUCH,
    DataFault.FAMILY_DIFFERS: "Restore the row from a backup; trees of runs are shown by it.",
    DataFault.COUNTS_DIFFER: "Only the numbers of `runCounts` are wrong. Restore the table run_counts from a backup.",
    DataFault.VALUE_MISSING: "Store the value again, by a run with the same input or output, or restore a backup.",
    DataFault.VALUE_DIFFERS: _RESTORE,
    DataFault.VALUE_ORPHANED: "It only takes space: `anabranch purge` removes it.",
    DataFault.VALUE_REFERENCE_ORPHANED: "It only takes space: `anabranch purge` removes it.",
    DataFault.INDEX_MISSING: "Create it as a new database has it; until then nothing prevents what it forbids.",
}


@dataclass(frozen=True, slots=True)
class DataFinding:
    """One thing that is wrong."""

    fault: DataFault
    message: str
    instance_id: str | None = None
    seq: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "code": self.fault.value,
            "instanceID": self.instance_id,
            "seq": self.seq,
            "message": self.message,
            "hint": HINTS[self.fault],
        }
