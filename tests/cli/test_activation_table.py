"""The table of activations of `runs show`."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.cli.activation_table import ActivationTable


def activation(status: str, **fields: Any) -> dict[str, Any]:
    return {"nodeID": "fit", "scope": "", "status": status, "attempt": 1, "startedAt": None, "endedAt": None, **fields}


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ({"done": 3, "total": 10, "text": "part 3"}, "running (3/10 part 3)"),
        ({"done": 0.5, "total": None, "text": ""}, "running (0.5)"),
        ({"done": 1_234_567, "total": 2_000_000.0, "text": ""}, "running (1234567/2000000)"),
        ({"done": 1_234_567.25, "total": None, "text": ""}, "running (1234567.25)"),
        ({"done": 0.0000001, "total": 0.1 + 0.2, "text": ""}, "running (0.0000001/0.3)"),
        (None, "running"),
    ],
)
def test_a_running_node_shows_its_progress(progress: Any, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = ActivationTable()
    table.add([activation("running", progress=progress)])
    table.print_out()
    assert f"fit     -      {shown} " in capsys.readouterr().out


def test_what_has_completed_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    table = ActivationTable()
    table.add([activation("success", progress={"done": 1, "total": 2, "text": "half"})])
    table.print_out()
    assert "half" not in capsys.readouterr().out
