"""`schedules` and `topics` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import GREETING, Command

Write = Callable[[str, Any], Path]


def test_a_schedule_is_created_listed_and_deleted(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    flags = ("--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Zurich", "--input", '{"name": "Ada"}')
    created = anabranch("schedules", "create", "mornings", "greeting", *flags, "--json").document
    assert "next at" in anabranch("schedules", "create", "ticks", "greeting", "--every", "1h").out
    assert "disabled" in anabranch("schedules", "create", "off", "greeting", "--every", "1h", "--disabled").out

    listed = anabranch("schedules", "list", "--json").document["items"]
    assert created in listed and created["input"] == {"name": "Ada"}
    assert [each["name"] for each in listed] == ["mornings", "off", "ticks"]
    assert "Europe/Zurich" in anabranch("schedules", "list").out

    assert anabranch("schedules", "delete", "mornings").code == 0
    assert anabranch("schedules", "delete", "mornings").code == 2


def test_a_schedule_is_triggered_and_backfilled(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    anabranch("schedules", "create", "daily", "greeting", "--cron", "0 0 * * *", "--input", '{"name": "Ada"}')

    started = anabranch("schedules", "trigger", "daily", "--key", "k", "--json").document
    assert started["status"] == "PENDING"
    assert "was started before" in anabranch("schedules", "trigger", "daily", "--key", "k").out

    days = ("--from", "2026-05-01", "--to", "2026-05-04T00:00:00Z")
    filled = anabranch("schedules", "backfill", "daily", *days, "--json").document["items"]
    assert [each["occurrenceAt"][:10] for each in filled] == ["2026-05-01", "2026-05-02", "2026-05-03"]
    assert "0 runs are started; 3 of 3" in anabranch("schedules", "backfill", "daily", *days).out
    assert len(anabranch("runs", "list", "--json").document["items"]) == 4

    refused = anabranch("schedules", "backfill", "daily", "--from", "2026-05-01", "--to", "2999-01-01")
    assert refused.code == 2
    assert "IN_THE_FUTURE at /to" in refused.err


def test_the_keys_of_schedules_are_reserved(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    refused = anabranch("runs", "start", "greeting", "--key", "schedule:x")
    assert refused.code == 2
    assert "RESERVED_KEY at /idempotencyKey" in refused.err


def test_a_schedule_that_makes_no_sense_is_said_with_its_places(anabranch: Command, write: Write) -> None:
    anabranch("migrate")
    refused = anabranch("schedules", "create", "x", "nothing", "--cron", "61 * * * *", "--timezone", "Mars")
    assert refused.code == 2
    assert "NOT_FOUND at /workflow" in refused.err and "BAD_TIMEZONE at /timezone" in refused.err


def test_a_message_starts_the_runs_of_its_subscriptions_once(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("greeting.json", GREETING))
    subscription = anabranch("topics", "subscribe", "users.*", "greeting", "--json").document
    assert "already" in anabranch("topics", "subscribe", "users.*", "greeting").out
    message = ("topics", "publish", "users.new", '{"name": "Ada"}', "--key", "k")

    first = anabranch(*message, "--json").document
    again = anabranch(*message)

    assert len(first["runs"]) == 1 and first["runs"][0] in again.out
    assert anabranch("runs", "show", first["runs"][0], "--json").document["input"] == {"name": "Ada"}
    assert anabranch("topics", "list", "--json").document["items"] == [subscription]
    assert "users.*" in anabranch("topics", "list").out
    assert anabranch("topics", "unsubscribe", subscription["subscriptionID"]).code == 0
    again = anabranch("topics", "unsubscribe", subscription["subscriptionID"])
    assert again.err.splitlines()[1] == "hint: `anabranch topics list` shows the subscriptions."
    assert anabranch("topics", "publish", "users.new", "--json").document["runs"] == []
