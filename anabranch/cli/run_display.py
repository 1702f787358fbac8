"""Show the progress of a run: a live table on a terminal, plain lines elsewhere.

An observer of the engine: it receives committed events in log order and knows no stores.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anabranch.cli.event_lines import event_line, shown_name
from anabranch.cli.outcome import seconds
from anabranch.cli.output import shown
from anabranch.cli.program import command
from anabranch.engine.rules.event_payloads import SignalAwaited, SignalReceived
from anabranch.engine.rules.events import ActivationKey, Event, Status
from anabranch.engine.rules.history import ActivationStatus, ActivationView, History
from anabranch.service.runs.run_view import log_entry

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
    "cancelled": "dim",
}


class RunDisplay:
    """Shows one run: the given one, or the first whose events are committed here."""

    def __init__(self, *, stderr: bool, instance_id: str | None = None, target_flags: Sequence[str] = ()) -> None:
        """`target_flags` are the flags with which a command finds the run."""
        self._console = Console(stderr=stderr)
        # A terminal that cannot move its cursor (TERM=dumb: an editor's shell, a CI log) gets plain lines.
        self._is_drawn = self._console.is_terminal and not self._console.is_dumb_terminal
        self._instance_id = instance_id
        self._target_flags = target_flags
        self._awaited: set[str] = set()
        self._history = History()
        self._activations: dict[ActivationKey, ActivationView] = {}
        self._status = Status.PENDING
        self._live: Live | None = None

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Take in what is in the log now."""
        if self._instance_id is None:
            self._instance_id = instance_id
            self._print(f"run {instance_id} has begun")
        if instance_id == self._instance_id:
            self._status = status
            changes = [self._take(event) for event in events]
            self._print_how_to_go_on([change for change in changes if change is not None])

    def on_screen(self) -> AbstractContextManager[object]:
        """A context in which the table is shown, if the terminal can draw it."""
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

    def _take(self, event: Event) -> ActivationView | SignalReceived | None:
        change = self._history.take(event)
        if isinstance(change, ActivationView):
            self._activations[change.key] = change
            if not self._is_drawn:
                text = event_line(log_entry(event))
                if text is not None:
                    self._print(text)
        return change if isinstance(change, ActivationView | SignalReceived) else None

    def _print_how_to_go_on(self, changes: Sequence[ActivationView | SignalReceived]) -> None:
        """The commands that end the waits among these; one for each signal: a loop may wait a thousand times."""
        arrived = {change.event for change in changes if isinstance(change, SignalReceived)}
        for change in changes:
            if isinstance(change, SignalReceived) or change.status is not ActivationStatus.WAITING:
                continue
            wait = change.waits_for
            if not isinstance(wait, SignalAwaited) or wait.taken is not None or arrived & wait.events.keys():
                continue
            for name in wait.events:
                if name not in self._awaited and self._instance_id is not None:
                    self._awaited.add(name)
                    how = command(["runs", "signal", self._instance_id, name, *self._target_flags])
                    what = "a signal; to send it" if len(wait.events) == 1 else f"several signals; to send {name}"
                    self._print(f"{shown_name(*change.key)} waits for {what}: {how}")

    def _print(self, text: str) -> None:
        """Print a line above the table, never wrapped, so that it can be copied."""
        self._console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        now = time.time() * 1000
        table = Table(box=None, pad_edge=False, show_header=False)
        rows_max = max(self._console.height - LINES_BESIDES_NODES, 1)
        # Open activations matter most; of the ended ones, the latest.
        shown_last = sorted(
            self._activations.values(), key=lambda each: (each.ended_at is None, each.ended_at or each.at)
        )
        for each in shown_last[-rows_max:]:
            began_at = each.at if each.began_at is None else each.began_at
            took = seconds(max(int((each.ended_at or now) - began_at), 0))
            attempt = f"attempt {each.attempt}" if each.attempt > 1 else ""
            table.add_row(Text(shown_name(*each.key)), Text(each.status, style=_STYLES[each.status]), took, attempt)
        counts = Counter(each.status.value for each in self._activations.values())
        summary = ", ".join(f"{count} {state}" for state, count in counts.items())
        table.add_row(Text(f"{self._status}", style="bold"), summary)
        return table
