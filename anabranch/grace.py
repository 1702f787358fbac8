"""The grace of a stopping process: one countdown for all parts of the stop.

Created by `app` and `process.process_lifecycle`, started by the stop signal. No part takes longer than the remaining
time, so all parts together end within the grace.
"""

from __future__ import annotations

import time

# 1 s at least, also with a shorter grace: executions have none of it, and handing over takes milliseconds on a
# database that answers.
STOP_S_MIN = 1.0

# A quarter of the grace, but 1 s at least and 3 s at most, is kept for what follows the executions: stopping those that
# did not end, the last commits, the handover, answers under way, closing.
ENDING_SHARE = 0.25
ENDING_S_MIN = 1.0
ENDING_S_MAX = 3.0

# Three tenths of that are for requests under way and connections to be closed, the rest is the engine's.
CLOSING_SHARE = 0.3

# 0.2 s for the interpreter and the operating system to end a process, its memory and its threads.
EXIT_S = 0.2

# 10 s for commands, which give executions no grace: the last commits and the handover take milliseconds, and a
# longer wait means a database that does not answer.
COMMAND_S = 10.0


class Grace:
    """A countdown; nothing runs down before `begin`."""

    def __init__(self, seconds: float, *, for_executions: bool = True) -> None:
        total_s = max(seconds, STOP_S_MIN)
        self._ending_s = min(max(ENDING_SHARE * total_s, ENDING_S_MIN), ENDING_S_MAX) if for_executions else total_s
        self.stop_s = total_s - EXIT_S
        """In all, from `begin` to the last statement."""
        self.executions_s = total_s - self._ending_s
        """For executions under way, from `begin`."""
        self.requests_s = CLOSING_SHARE * self._ending_s / 2
        """For requests under way, once the engine is stopped."""
        self._begun_at: float | None = None

    @classmethod
    def of_command(cls) -> Grace:
        """That of a command: executions have none."""
        return cls(COMMAND_S, for_executions=False)

    def begin(self) -> None:
        """Start the countdown; only the first call counts."""
        if self._begun_at is None:
            self._begun_at = time.monotonic()

    def left_s(self) -> float:
        """Until everything has to be over; 0 if it has."""
        return max(0.0, self.stop_s - self._passed_s)

    def engine_left_s(self) -> float:
        """Until the engine has to be stopped; 0 if it has."""
        return max(0.0, self.stop_s - CLOSING_SHARE * self._ending_s - self._passed_s)

    def executions_left_s(self) -> float:
        """Until executions are cancelled; 0 if they are."""
        return max(0.0, self.executions_s - self._passed_s)

    def closing_s(self, at_most: float) -> float:
        """The patience with one connection, or one thread, that is to be closed: half of what is left at most."""
        return min(at_most, self.left_s() / 2)

    @property
    def _passed_s(self) -> float:
        return 0.0 if self._begun_at is None else time.monotonic() - self._begun_at
