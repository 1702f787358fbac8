"""The activations of a run for a person: failures first, then every node with its iterations folded into one line.

Called by `runs show`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any

from anabranch.cli.event_lines import shown_name
from anabranch.cli.outcome import traceback_text
from anabranch.cli.output import print_line, print_table
from anabranch.dataclass import dataclass

# 20 failures: of more than that the first ones explain the rest.
FAILURES_SHOWN = 20

# 5 different tracebacks: further failures of the same nodes mostly repeat them.
TRACEBACKS_SHOWN = 5

# 120 characters of an error's message fit beside its node and scope.
MESSAGE_CHARACTERS_SHOWN = 120

# `each[3]/inner[0]` is an iteration, `ask#3` a pass, `#3` and `@2` repeats of a coded step.
_NUMBERS = re.compile(r"\[[0-9]+\]|[#@][0-9]+")

Activation = Mapping[str, Any]


@dataclass(slots=True)
class _Group:
    """Activations of one node in scopes that differ by their numbers alone."""

    first: Activation
    counts: Counter[str] = field(default_factory=Counter)
    attempt: int = 0
    began_at: str | None = None
    ended_at: str | None = None
    is_open: bool = False

    def add(self, activation: Activation) -> None:
        self.counts[activation["status"]] += 1
        self.attempt = max(self.attempt, activation["attempt"])
        self.began_at = min(filter(None, (self.began_at, activation["startedAt"])), default=None)
        self.ended_at = max(filter(None, (self.ended_at, activation["endedAt"])), default=None)
        self.is_open |= activation["endedAt"] is None


class ActivationTable:
    """A table of the activations of one run, filled page by page."""

    def __init__(self) -> None:
        """A table without rows."""
        self._failures: list[Activation] = []
        self._failed = 0
        self._groups: dict[tuple[str, str], _Group] = {}

    def add(self, activations: Iterable[Activation]) -> None:
        """Count further activations, in the order of their first events."""
        for each in activations:
            kind = each["nodeID"], _kind_of_scope(each["scope"])
            self._groups.setdefault(kind, _Group(each)).add(each)
            if each["status"] == "error":
                self._failed += 1
                if len(self._failures) < FAILURES_SHOWN:
                    self._failures.append(each)

    def print_out(self) -> None:
        """The failures with their errors, then a line for each node and kind of scope."""
        if self._failures:
            print_line(f"\n{self._failed} failed:")
            rows = [[each["nodeID"], each["scope"] or None, each["attempt"], *_error(each)] for each in self._failures]
            print_table(("nodeID", "scope", "attempt", "code", "message"), rows)
            if self._failed > FAILURES_SHOWN:
                print_line(f"and {self._failed - FAILURES_SHOWN} more; `runs log` has them all")
            self._print_tracebacks()
        if self._groups:
            print_line("")
            columns = ("nodeID", "scope", "status", "attempt", "startedAt", "endedAt", "waitsFor")
            print_table(columns, [_row(group) for group in self._groups.values()])

    def _print_tracebacks(self) -> None:
        by_traceback = {
            (each["nodeID"], each["error"]["traceback"]): each
            for each in reversed(self._failures)
            if isinstance(each["error"], Mapping) and each["error"].get("traceback")
        }
        for each in list(reversed(by_traceback.values()))[:TRACEBACKS_SHOWN]:
            print_line(f"\n{shown_name(each['nodeID'], each['scope'])}: {traceback_text(each['error'])}")


def _kind_of_scope(scope: str) -> str:
    """The scope without its numbers."""
    return _NUMBERS.sub(_without_number, scope)


def _without_number(number: re.Match[str]) -> str:
    return "[*]" if number[0].startswith("[") else f"{number[0][0]}*"


def _row(group: _Group) -> list[Any]:
    is_one = group.counts.total() == 1
    scope = group.first["scope"] if is_one else _kind_of_scope(group.first["scope"])
    shown_status = (
        _status(group.first) if is_one else ", ".join(f"{count} {status}" for status, count in group.counts.items())
    )
    ended_at = None if group.is_open else group.ended_at
    waits = wait_text(group.first.get("waitsFor")) if is_one else None
    return [group.first["nodeID"], scope or None, shown_status, group.attempt, group.began_at, ended_at, waits]


def _status(activation: Activation) -> str:
    """The status, with the progress that was reported last unless it completed."""
    status, progress = str(activation["status"]), activation.get("progress")
    if progress is None or status == "success":
        return status
    total = "" if progress["total"] is None else f"/{_number(progress['total'])}"
    return f"{status} ({_number(progress['done'])}{total}{' ' if progress['text'] else ''}{progress['text']})"


def _number(value: float) -> str:
    """Whole numbers in full, others with up to 12 significant digits; never with an exponent."""
    return str(int(value)) if value == int(value) else format(Decimal(f"{value:.12g}"), "f")


def wait_text(wait: Mapping[str, Any] | None) -> str | None:
    """The text for what an activation waits for, and until when."""
    if wait is None:
        return None
    if wait.get("url") is not None:
        return f"a call of {wait['url']} until {wait['dueAt']}"
    what = {
        "signal": lambda: "signal " + " or ".join(wait.get("events") or [wait.get("event")]),
        "child": lambda: f"run {wait['childID']}",
    }.get(wait["kind"], lambda: "timer")()
    return what if wait.get("dueAt") is None else f"{what} until {wait['dueAt']}"


def _error(activation: Activation) -> tuple[str | None, str | None]:
    error = activation["error"]
    if not isinstance(error, Mapping):
        return None, None
    return error.get("code"), " ".join(str(error.get("message", "")).split())[:MESSAGE_CHARACTERS_SHOWN]
