"""The activations of a run for a person: failures first, then every node with its iterations folded into one line.

Called by `runs show`. Reads the `nodes` of a run's document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.cli.output import print_line, print_table

# 20 failures: of more than that the first ones explain the rest.
FAILURES_SHOWN = 20

# 120 characters of an error's message fit beside its place.
MESSAGE_CHARACTERS_SHOWN = 120

# `each[3]/inner[0]` is an iteration, `ask#3` a pass, `#3` and `@2` repeats of a coded step.
_NUMBERS = re.compile(r"\[[0-9]+\]|[#@][0-9]+")

Activation = Mapping[str, Any]


def print_activations(activations: Sequence[Activation]) -> None:
    """The failures of a run with their errors, then a line for each node and kind of scope."""
    failures = [each for each in activations if each["status"] == "error"]
    if failures:
        print_line(f"\n{len(failures)} failed:")
        rows = [[each["nodeID"], each["scope"] or None, each["attempt"], *_error(each)] for each in failures]
        print_table(("nodeID", "scope", "attempt", "code", "message"), rows[:FAILURES_SHOWN])
        if len(failures) > FAILURES_SHOWN:
            print_line(f"and {len(failures) - FAILURES_SHOWN} more; `runs log` has them all")
    if activations:
        print_line("")
        columns = ("nodeID", "scope", "status", "attempt", "startedAt", "endedAt")
        print_table(columns, [_row(group) for group in _groups(activations)])


def _groups(activations: Sequence[Activation]) -> list[list[Activation]]:
    """Activations of one node in scopes that differ by their numbers alone, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Activation]] = {}
    for each in activations:
        groups.setdefault((each["nodeID"], _kind_of_scope(each["scope"])), []).append(each)
    return list(groups.values())


def _kind_of_scope(scope: str) -> str:
    """The scope without its numbers."""
    return _NUMBERS.sub(_without_number, scope)


def _without_number(number: re.Match[str]) -> str:
    return "[*]" if number[0].startswith("[") else f"{number[0][0]}*"


def _row(group: Sequence[Activation]) -> list[Any]:
    first = group[0]
    if len(group) == 1:
        return [first[column] or None for column in ("nodeID", "scope", "status", "attempt", "startedAt", "endedAt")]
    counts = Counter(each["status"] for each in group)
    begins = [each["startedAt"] for each in group if each["startedAt"]]
    ends = [each["endedAt"] for each in group]
    return [
        first["nodeID"],
        _kind_of_scope(first["scope"]),
        ", ".join(f"{count} {status}" for status, count in counts.items()),
        max(each["attempt"] for each in group),
        min(begins, default=None),
        max(ends) if all(ends) else None,
    ]


def _error(activation: Activation) -> tuple[str | None, str | None]:
    error = activation["error"]
    if not isinstance(error, Mapping):
        return None, None
    return error.get("code"), " ".join(str(error.get("message", "")).split())[:MESSAGE_CHARACTERS_SHOWN]
