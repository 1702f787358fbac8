"""Events: the immutable rows of an instance's log.

An event is stored; it happened; it is never changed. `decide` makes them, `evolve` folds them, stores write and read
them. The names and payloads of the types are stable: stored logs contain them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.names import Mark
from anabranch.engine.rules.values import Payload

ActivationKey: TypeAlias = tuple[str, str]
"""Which activation of a run: (node id, scope). Of a coded run (step name, scope), and ("", "") for its function."""


class EventType(StrEnum):
    """The name of an event, as the log column `event_type` holds it."""

    INPUT_SET = "INPUT_SET"
    SYSTEM_SET = "SYSTEM_SET"
    NODE_DISPATCHED = "NODE_DISPATCHED"
    NODE_WAITING = "NODE_WAITING"
    NODE_ATTEMPT_FAILED = "NODE_ATTEMPT_FAILED"
    NODE_COMPLETED = "NODE_COMPLETED"
    NODE_FAILED = "NODE_FAILED"
    NODE_SKIPPED = "NODE_SKIPPED"
    LOOP_OPENED = "LOOP_OPENED"
    SIGNAL_RECEIVED = "SIGNAL_RECEIVED"
    INSTANCE_RECOVERED = "INSTANCE_RECOVERED"
    INSTANCE_SUSPENDED = "INSTANCE_SUSPENDED"
    INSTANCE_RESUMED = "INSTANCE_RESUMED"
    INSTANCE_REOPENED = "INSTANCE_REOPENED"
    FORKED_FROM = "FORKED_FROM"
    INSTANCE_COMPLETED = "INSTANCE_COMPLETED"
    INSTANCE_FAILED = "INSTANCE_FAILED"
    INSTANCE_CANCELLED = "INSTANCE_CANCELLED"


ENDINGS = frozenset({EventType.NODE_COMPLETED, EventType.NODE_FAILED, EventType.NODE_SKIPPED})
"""How an activation ends: one of these at most once per (instance, node, scope) and generation of the run."""

TERMINALS = frozenset({EventType.INSTANCE_COMPLETED, EventType.INSTANCE_FAILED, EventType.INSTANCE_CANCELLED})
"""How an instance ends: exactly one of these, and it is the last event, unless the run is reopened."""


class Status(StrEnum):
    """The status of an instance, as the column `status` holds it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    is_terminal: bool
    """Whether it is final."""


# Set once: it is asked for every run and every row.
for _status in Status:
    _status.is_terminal = _status in {Status.COMPLETED, Status.FAILED, Status.CANCELLED}


class SuspendReason(StrEnum):
    """Why a run is SUSPENDED, as the column `suspended_for` holds it."""

    CRASHED = "CRASHED"
    DEFINITION_ERROR = "DEFINITION_ERROR"
    ENGINE_DEFECT = "ENGINE_DEFECT"
    FUNCTION_ERROR = "FUNCTION_ERROR"
    HISTORY_LOST = "HISTORY_LOST"
    NONDETERMINISM = "NONDETERMINISM"
    PAUSED = "PAUSED"
    UNKNOWN_NODE_TYPE = "UNKNOWN_NODE_TYPE"
    UNKNOWN_WORKFLOW = "UNKNOWN_WORKFLOW"
    UNSERVED_POOL = "UNSERVED_POOL"

    @property
    def ends_by_itself(self) -> bool:
        """Whether the run resumes by itself as soon as a suitable worker claims it."""
        return self in _ENDS_BY_ITSELF

    @property
    def releases(self) -> bool:
        """Whether nobody owns the run any more, whatever executes."""
        return self in _RELEASES

    @property
    def is_offered_again(self) -> bool:
        """Whether workers try the run again and again, without a row in its log until one can continue it."""
        return self in _OFFERED_AGAIN

    def replaces(self, other: SuspendReason) -> bool:
        """Whether a run that is suspended for the other reason is then suspended for this one: lost rows are told
        anyway, and after a pause nothing but a resume lets the run continue."""
        if self is SuspendReason.PAUSED:
            return other.ends_by_itself or other.is_offered_again or other is SuspendReason.ENGINE_DEFECT
        return self is SuspendReason.HISTORY_LOST and other is not self


_ENDS_BY_ITSELF = frozenset(
    {SuspendReason.UNKNOWN_NODE_TYPE, SuspendReason.UNKNOWN_WORKFLOW, SuspendReason.UNSERVED_POOL}
)

_RELEASES = frozenset({SuspendReason.ENGINE_DEFECT, SuspendReason.HISTORY_LOST})

_OFFERED_AGAIN = frozenset({SuspendReason.NONDETERMINISM, SuspendReason.DEFINITION_ERROR})


DEFAULT_HANDLE = "default"
ERROR_HANDLE = "error"
LOOP_HANDLE = "loop"
DONE_HANDLE = "done"
ELSE_HANDLE = "else"
TIMEOUT_HANDLE = "timeout"


NODE_STATUS = {
    EventType.NODE_COMPLETED.value: "success",
    EventType.NODE_FAILED.value: "error",
    EventType.NODE_ATTEMPT_FAILED.value: "error",
}
"""What the column `node_status` says of a row of this type; of others nothing."""


@dataclass(slots=True, eq=False)
class Event:
    """One row of the log. Never changed once created.

    (Not `frozen`: that would triple the cost of creating one, and every node needs two.) `seq` counts 1, 2, 3… per
    instance. `node_id` and `scope` are "" where the event is not about a node or is at the root; `attempt` is 0 where
    there is none. `created_at` is in milliseconds since the epoch, by the store-adjusted clock of the deciding process.
    """

    seq: int
    type: EventType
    node_id: str
    scope: str
    attempt: int
    payload: Payload
    created_at: int
    next_handle: str | None = None
    output_variable: str | None = None
    error_message: str | None = None
    arguments: str | None = None
    """The first row of a coded step: what it was asked for with (`coded.arguments`)."""
    mark: Mark | None = None
    """Of each row of a coded step: its kind, and what it followed."""

    @property
    def stored_variable(self) -> str | None:
        """The column `output_variable`: the variable of a node, or the mark of a step (`names.variable_and_mark`)."""
        return self.output_variable if self.mark is None else self.mark.text

    @property
    def node_status(self) -> str | None:
        """`success`, `error` or None: the seeds' short answer to "how did it go"."""
        return NODE_STATUS.get(self.type.value)
