"""What a run is doing, while it does it: a live table on a terminal, plain lines elsewhere.

An observer of the engine: told what is committed, in log order. Knows events, no stores.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anabranch.cli.event_lines import event_line, shown_name
from anabranch.cli.outcome import seconds
from anabranch.cli.output import shown
from anabranch.cli.own_name import command
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.service.runs.run_view import ENDED, log_entry, shown_status

# Ten times a second looks alive; more is only work.
REFRESH_S = 0.1

# The heading, the line of counts, and room for the prompt that scrolls up.
LINES_BESIDES_NODES = 4

_STYLES = {
    "running": "cyan",
    "waiting": "blue",
    "retrying": "yellow",
    "success": "green",
    "error": "red",
    "skipped": "dim",
}


@dataclass(slots=True)
class _Line:
    """One activation on the screen. Times in milliseconds since the epoch."""

    name: str
    state: str
    attempt: int
    began_at: int
    ended_at: int | None = None


class Progress:
    """Shows one run: the first whose events are committed here, or the one it was given."""

    def __init__(self, *, stderr: bool, instance_id: str | None = None, place: Sequence[str] = ()) -> None:
        """`place` are the flags with which a command finds the run."""
        self._console = Console(stderr=stderr)
        # A terminal that cannot move its cursor (TERM=dumb: an editor's shell, a CI log) gets plain lines.
        self._is_drawn = self._console.is_terminal and not self._console.is_dumb_terminal
        self._instance_id = instance_id
        self._place = place
        self._awaited: set[str] = set()
        self._lines: dict[tuple[str, str], _Line] = {}
        self._status = Status.PENDING
        self._live: Live | None = None

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Take in what is in the log now."""
        if self._instance_id is None:
            self._instance_id = instance_id
            self._say(f"run {instance_id} has begun")
        if instance_id == self._instance_id:
            self._status = status
            for event in events:
                self._take(event)
            self._tell_how_to_go_on(events)

    def on_screen(self) -> AbstractContextManager[object]:
        """While this is entered the table is on the screen; on what cannot draw one there is none."""
        if not self._is_drawn:
            return nullcontext()
        # Drawn by `keep_drawing`, in the thread that takes events in: a table that changes
        # while another thread draws it would have to be locked.
        self._live = Live(self._table(), console=self._console, auto_refresh=False)
        return self._live

    async def keep_drawing(self) -> None:
        """Redraw until cancelled; the last state stays on the screen."""
        try:
            while self._live is not None:
                self._live.update(self._table(), refresh=True)
                await asyncio.sleep(REFRESH_S)
        finally:
            if self._live is not None:
                self._live.update(self._table(), refresh=True)

    def _take(self, event: Event) -> None:
        state = shown_status(event)
        if state is None:
            return
        place = (event.node_id, event.scope)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = _Line(
                shown_name(event.node_id, event.scope), state, event.attempt, event.created_at
            )
        line.state, line.attempt = state, event.attempt
        line.ended_at = event.created_at if state in ENDED else None
        if not self._is_drawn:
            text = event_line(log_entry(event))
            if text is not None:
                self._say(text)

    def _tell_how_to_go_on(self, events: Sequence[Event]) -> None:
        """The commands that end the waits among these events; one for each signal: a loop may wait a thousand times."""
        arrived = {_signal_of(event) for event in events if event.type is EventType.SIGNAL_RECEIVED}
        for event in events:
            place = (event.node_id, event.scope)
            if event.type is not EventType.NODE_WAITING or self._lines[place].state != "waiting":
                continue
            name = _signal_of(event)
            if name is not None and name not in arrived | self._awaited and self._instance_id is not None:
                self._awaited.add(name)
                how = command(["runs", "signal", self._instance_id, name, *self._place])
                self._say(f"{shown_name(*place)} waits for a signal; to send it: {how}")

    def _say(self, text: str) -> None:
        """A line of its own, above the table where there is one; never wrapped, so that it can be copied."""
        self._console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        now = time.time() * 1000
        table = Table(box=None, pad_edge=False, show_header=False)
        room = max(self._console.height - LINES_BESIDES_NODES, 1)
        # What is still open is most worth seeing; of what has ended, the latest.
        lines = sorted(self._lines.values(), key=lambda line: (line.ended_at is None, line.ended_at or line.began_at))
        for line in lines[-room:]:
            took = seconds(max(int((line.ended_at or now) - line.began_at), 0))
            attempt = f"attempt {line.attempt}" if line.attempt > 1 else ""
            table.add_row(Text(line.name), Text(line.state, style=_STYLES[line.state]), took, attempt)
        counts = Counter(line.state for line in self._lines.values())
        summary = ", ".join(f"{count} {state}" for state, count in counts.items())
        table.add_row(Text(f"{self._status}", style="bold"), summary)
        return table


def _signal_of(event: Event) -> str | None:
    """The signal that an event is about, if one alone: a wait that has taken its signal already is about none."""
    note = event.payload.value
    name = note.get("event") if isinstance(note, dict) and note.get("signalSeq") is None else None
    return name if isinstance(name, str) else None
