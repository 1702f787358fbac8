"""`anabranch backup` and `anabranch restore-check` as a person types them."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from tests.cli.conftest import Command, Write, chain

# Started and due long ago, as the runs of a database are that was restored.
DOZING = chain("dozing", {"id": "doze", "type": "delay", "config": {"duration": "1h"}})


def test_a_person_backs_up_restores_and_reads_what_would_happen(anabranch: Command, write: Write, folder: Path) -> None:
    assert anabranch("workflows", "import", write("dozing.json", DOZING)).code == 0
    run_id = anabranch("runs", "start", "dozing", "--key", "order-7", "--json").document["instanceID"]
    saved = anabranch("backup", "monday.db", "--json")
    assert (saved.code, saved.document["file"]) == (0, "monday.db")
    assert saved.document["bytes"] == (folder / "monday.db").stat().st_size
    for each in (folder / ".anabranch").glob("anabranch.db*"):
        each.unlink()
    shutil.copy("monday.db", folder / ".anabranch" / "anabranch.db")
    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        connection.execute(
            "INSERT INTO triggers (trigger_id, tenant_id, kind, name, workflow, config, enabled, next_at, created_at,"
            " updated_at) VALUES ('t', 'default', 'schedule', 'nightly', 'dozing', '{}', 1, 7, 1, 1)"
        )
    connection.close()

    told = anabranch("restore-check")

    assert told.code == 1
    assert f"run {run_id} dozing version 1, tenant default, PENDING, started with the key order-7\n" in told.out
    assert "  fires at once: the start, due " in told.out
    assert "schedule nightly starts dozing again: due 1970-01-01" in told.out
    assert "1 run is open, 0 suspended" in told.out
    assert "1 run goes on as soon as a worker runs; `anabranch restore-check --suspend` sets all open runs" in told.out
    assert anabranch("restore-check", "--suspend", "--json").document["suspended"] == 1
    again = anabranch("restore-check")
    assert again.code == 1, "the schedule is due all the same"
    assert "1 run is open, 1 suspended" in again.out and "restore-check --suspend" not in again.out


def test_what_is_missing_is_said(anabranch: Command, folder: Path) -> None:
    for command in (("backup", "copy.db"), ("restore-check",)):
        printed = anabranch(*command)
        assert (printed.code, "DATABASE_NOT_FOUND" in printed.err) == (2, True), printed
    assert list(folder.iterdir()) == []
