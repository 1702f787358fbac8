"""One decision in the making: the events so far, and the commands that follow from them.

Called by the rooms that think, about drawn runs (through `DrawnDecisionBuilder`) and coded ones. Whatever they
write here is folded into the state at once, so the next line sees it. What to write is theirs;
that a row is numbered, stamped and folded is settled here.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.events import TERMINALS, Event, EventType
from anabranch.engine.rules.evolve import evolve
from anabranch.engine.rules.log_limit import ROWS_ALWAYS_TAKEN, LogFull
from anabranch.engine.rules.run_state import OpenActivation
from anabranch.engine.rules.states import AnyState
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

State = TypeVar("State", bound=AnyState)


class Notes(Generic[State]):
    """What one decision about one state writes, which each of its rows evolves."""

    def __init__(self, state: State, now: int) -> None:
        self.state = state
        self.now = now
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.stops: list[Dispatch] = []
        self.cancels: list[str] = []
        """Children that nobody awaits any more, if they were started at all."""
        self.not_before: int | None = None

    def append(
        self,
        event_type: EventType,
        node_id: str,
        scope: str,
        attempt: int,
        payload: Payload,
        *,
        next_handle: str | None = None,
        output_variable: str | None = None,
        error_message: str | None = None,
        arguments: str | None = None,
    ) -> None:
        """Append an event, numbered and stamped; it is folded into the state at once.

        Raises LogFull for a row that the log has no room for; the row that ends the run always has.
        """
        state = self.state
        seq, limit = state.last_seq + 1, state.log_limit
        if (
            (state.log_bytes + len(payload.raw) > limit.bytes_max or seq > limit.rows_max)
            and seq > ROWS_ALWAYS_TAKEN
            and event_type not in TERMINALS
        ):
            raise LogFull
        event = Event(
            seq,
            event_type,
            node_id,
            scope,
            attempt,
            payload,
            self.now,
            next_handle,
            output_variable,
            error_message,
            arguments,
        )
        evolve(state, event)
        self.events.append(event)

    def fail_instance(self, error: RunError) -> None:
        """The instance ends FAILED, with everything in flight told to stop."""
        self.end_instance(EventType.INSTANCE_FAILED, Payload.trusted(error.as_json()), error.message)

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        for (node_id, scope), activation in self.state.running.items():
            self.stops.append(Dispatch(node_id, scope, activation.attempt))
        self.append(event_type, "", "", 0, payload, error_message=message)

    def wake(self, activation: OpenActivation) -> None:
        """Ask to be woken when the activation is due, if it ever is."""
        if activation.due_at is not None:
            self.commands.append(Wake(*activation.place, activation.attempt, activation.due_at))

    def fired(self, due_at: int) -> None:
        """Remember the latest due time that this decision rests on."""
        self.not_before = due_at if self.not_before is None else max(self.not_before, due_at)
