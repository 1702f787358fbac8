"""The end of a run, for `run` and `runs watch`: as text, JSON and exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.cli.output import print_document, print_line, print_note
from anabranch.cli.program import command
from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.instants import from_iso

EXIT_COMPLETED = 0
EXIT_NOT_COMPLETED = 1


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The shown fields of an ended run."""

    instance_id: str
    status: Status
    output: Any
    error: dict[str, Any] | None
    note: Any
    took_ms: int

    @property
    def exit_code(self) -> int:
        """0 for COMPLETED, 1 for FAILED and CANCELLED."""
        return EXIT_COMPLETED if self.status is Status.COMPLETED else EXIT_NOT_COMPLETED


def outcome_of(run: dict[str, Any]) -> CommandOutcome:
    """The outcome in a run's document; the run must have ended."""
    return CommandOutcome(
        instance_id=run["instanceID"],
        status=Status(run["status"]),
        output=run["output"],
        error=run["error"],
        note=run["note"],
        took_ms=from_iso(run["completedAt"]) - from_iso(run["startedAt"] or run["createdAt"]),
    )


def print_outcome(outcome: CommandOutcome, *, as_json: bool, target_flags: Sequence[str]) -> None:
    """The output or what went wrong, and how to read the run again; `target_flags` are the flags that lead to it."""
    if as_json:
        print_document(
            {
                "instanceID": outcome.instance_id,
                "status": outcome.status.value,
                "output": outcome.output,
                "error": outcome.error,
            }
        )
        return
    if outcome.status is Status.COMPLETED:
        print_document(outcome.output)
    elif outcome.error is not None:
        print_note(f"error {outcome.error['code']}: {outcome.error['message']}{_origin(outcome.error)}")
        if outcome.error.get("traceback"):
            print_note(traceback_text(outcome.error))
    print_line(f"run {outcome.instance_id} is {outcome.status} after {seconds(outcome.took_ms)}")
    print_line(f"read it again: {command(['runs', 'show', outcome.instance_id, *target_flags])}")


def traceback_text(error: Mapping[str, Any]) -> str:
    """The lines of the author's code in which an error happened, as Python prints them."""
    return f"traceback (innermost call last):\n{error['traceback'].rstrip()}"


def seconds(milliseconds: int) -> str:
    """A length of time for a person: `0.4 s`, `75 s`."""
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"


def _origin(error: dict[str, Any]) -> str:
    if not error["nodeID"]:
        return ""
    scope = f" in {error['scope']}" if error["scope"] else ""
    return f" (node {error['nodeID']}{scope}, attempt {error['attempt']})"
