"""A log with a row that cannot be read, or a run: commands name the run, the row and what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from anabranch.engine.store.sql.rows import EVENT_NOTE_COLUMNS, PAYLOAD_SEPARATOR, events_from
from anabranch.errors import LogUnreadable, RunUnreadable
from anabranch.rest.error_responses import status_of
from tests.cli.conftest import GREETING, Command, Write


@pytest.fixture
def unreadable(anabranch: Command, write: Write) -> str:
    """A run whose third row somebody has damaged."""
    ran = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}', "--json")
    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        connection.execute("UPDATE workflow_instance_logs SET payload = '{' WHERE seq = 3")
    connection.close()
    return str(ran.document["instanceID"])


@pytest.mark.parametrize("command", [("runs", "log"), ("runs", "export"), ("explain",), ("runs", "fork")], ids=" ".join)
def test_a_command_that_reads_the_row_says_which_it_is_and_what_to_do(
    anabranch: Command, unreadable: str, command: tuple[str, ...]
) -> None:
    told, error = anabranch(*command, unreadable), anabranch(*command, unreadable, "--json").document["error"]

    assert (told.code, error["code"], error["details"]) == (
        1,
        "LOG_UNREADABLE",
        {"instanceID": unreadable, "seq": 3},
    )
    assert f"error LOG_UNREADABLE: row 3 of the log of run {unreadable} cannot be read: JSONDecodeError" in told.err
    assert "hint: Restore the database from a backup; `anabranch doctor --data` names all such runs." in told.err


def test_doctor_names_the_row_and_does_not_say_to_export_what_cannot_be_read(
    anabranch: Command, unreadable: str
) -> None:
    printed = anabranch("doctor", "--data")

    assert printed.code == 1
    assert f"LOG_UNREADABLE run {unreadable} row 3: row 3 of the log of run {unreadable} cannot be read" in printed.out
    assert "hint for LOG_UNREADABLE: Restore the database from a backup; or keep a copy" in printed.out
    assert "runs export" not in printed.out
    assert anabranch("backup", "copy.db").code == 0
    assert Path("copy.db").exists()


@pytest.mark.parametrize(
    ("changed", "payloads", "why"),
    [
        ({"event_type": "NODE_EXPLODED"}, "{}", "KeyError: 'NODE_EXPLODED'"),
        ({}, "[", "JSONDecodeError"),
        ({}, f"{{}}{PAYLOAD_SEPARATOR}{{}}", "ValueError"),
        ({"output_variable": 7}, "{}", "TypeError"),
    ],
    ids=["type", "payload", "payloads", "variable"],
)
def test_whatever_is_wrong_with_a_row_is_told_with_its_seq(changed: dict[str, object], payloads: str, why: str) -> None:
    fields = {"seq": 9, "event_type": "NODE_COMPLETED", "node_id": "a", "scope": "", "node_attempt": 1, **changed}
    note = [fields.get(column) for column in EVENT_NOTE_COLUMNS]

    with pytest.raises(LogUnreadable) as caught:
        events_from("run", [note], payloads)

    assert caught.value.message.startswith(f"row 9 of the log of run run cannot be read: {why}")
    assert status_of(caught.value) == 500


@pytest.mark.parametrize("change", ["status = 'BANANA'", "suspended_for = 'BANANA'", "left_out = '{'", "needs = '7'"])
@pytest.mark.parametrize("command", ["runs list", "runs show {}", "verify {}", "verify --all", "explain {}"])
def test_a_command_that_reads_the_row_of_a_run_says_which_it_is_and_what_to_do(
    anabranch: Command, write: Write, change: str, command: str
) -> None:
    ran = anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}', "--json")
    run_id = str(ran.document["instanceID"])
    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        connection.execute(f"UPDATE workflow_instances SET {change}")
    connection.close()

    told = anabranch(*command.format(run_id).split())
    error = anabranch(*command.format(run_id).split(), "--json").document["error"]

    assert (told.code, error["code"], error["details"]) == (1, "RUN_UNREADABLE", {"instanceID": run_id})
    assert f"error RUN_UNREADABLE: the row of run {run_id} cannot be read: " in told.err
    assert "hint: Restore the row from a backup; `anabranch doctor --data` names all such runs." in told.err
    assert status_of(RunUnreadable("")) == 500


@pytest.mark.parametrize("command", ["workflows list", "workflows show greeting"])
def test_a_command_that_counts_runs_says_that_one_has_an_unknown_status(
    anabranch: Command, write: Write, command: str
) -> None:
    anabranch("run", write("greeting.json", GREETING), "--input", '{"name": "Ada"}')
    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        connection.execute("UPDATE workflow_instances SET status = 'BANANA'")
    connection.close()

    told = anabranch(*command.split())

    assert (told.code, told.err.splitlines()[0]) == (
        1,
        "error RUN_UNREADABLE: a run has the status 'BANANA', which no version writes",
    )
