"""What `runs bulk` prints."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.cli.commands import repair_commands
from tests.cli.conftest import Command

CANCELLED = {
    "bulkID": "b1",
    "action": "cancel",
    "status": "CANCELLED",
    "total": 5,
    "succeeded": 2,
    "counts": {"DONE": 2},
    "error": None,
}


@pytest.mark.parametrize(("of_server", "shown"), [({"underWay": 2}, True), ({"underWay": 0}, False), ({}, False)])
def test_runs_that_may_have_been_changed_are_shown_if_the_server_counts_them(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, of_server: dict[str, int], shown: bool
) -> None:
    class Target:
        def ask(self, do: Any) -> dict[str, Any]:
            return {**CANCELLED, **of_server}

    monkeypatch.setattr(repair_commands, "open_target", lambda at: Target())
    printed = anabranch("runs", "bulk", "cancel")
    assert (printed.code, printed.err, "the bulk run is CANCELLED" in printed.out) == (1, "", True)
    assert ("up to 2 more may have been done" in printed.out) is shown


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("retry", "retry: 2 of 5 runs would be retried (b1)"),
        ("CANCEL", "cancel: 2 of 5 runs would be cancelled (b1)"),
        ("rerun", "rerun: 2 of 5 runs would be run again (b1)"),
        ("resume", "resume: 2 of 5 runs would be resumed (b1)"),
        ("signal", "signal: 2 of 5 runs would be signalled (b1)"),
    ],
)
def test_a_dry_run_says_what_would_be_done(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, action: str, said: str
) -> None:
    class Target:
        def ask(self, do: Any) -> dict[str, Any]:
            return {**CANCELLED, "action": action.lower(), "status": "COMPLETED"}

    monkeypatch.setattr(repair_commands, "open_target", lambda at: Target())
    assert anabranch("runs", "bulk", action, "--dry-run").out.splitlines()[0] == said
