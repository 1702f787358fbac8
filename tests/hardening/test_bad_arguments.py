"""Command lines that make no sense: one line, a hint, and the exit code that tells a mistake from a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hardening.command_line import Command
from tests.hardening.conftest import Launch, Write
from tests.hardening.drawing import PLAIN, WAITING

UNKNOWN_ID = "00000000-0000-7000-8000-000000000000"

# What Python makes of a byte on the command line that is not UTF-8.
NO_UTF_8 = "\udcff"


@pytest.fixture
def ended(anabranch: Command, write: Write) -> str:
    """The id of a run that is COMPLETED."""
    instance_id: str = anabranch("run", write("plain.json", PLAIN), "--json").document["instanceID"]
    return instance_id


@pytest.fixture
def pending(anabranch: Command, write: Write) -> str:
    """The id of a run that nobody has begun."""
    anabranch("workflows", "import", write("waiting.json", WAITING))
    instance_id: str = anabranch("runs", "start", "waiting", "--json").document["instanceID"]
    return instance_id


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("frobnicate",), "INVALID_REQUEST", "frobnicate"),
        (("runs", "frobnicate"), "INVALID_REQUEST", "frobnicate"),
        (("run", "plain.json", "--frobnicate"), "INVALID_REQUEST", "--frobnicate"),
        (("run",), "INVALID_REQUEST", "nothing to run"),
        (("run", "plain.json", "--input", ""), "BAD_JSON", "--input"),
        (("run", "plain.json", "--input", "{nope"), "BAD_JSON", "line 1, column 2"),
        (("run", "plain.json", "--input", "@"), "INVALID_REQUEST", "is a directory"),
        (("run", "plain.json", "--input", '{"a": NaN}'), "VALUE_NOT_STORABLE", "--input has the number NaN"),
        (("run", "plain.json", "--input", f'"{NO_UTF_8}"'), "VALUE_NOT_STORABLE", "lone surrogate"),
        (("run", "plain.json", "--tenant", ""), "INVALID_REQUEST", "--tenant"),
        (("run", "plain.json", "--tenant", "x" * 65), "INVALID_REQUEST", "--tenant"),
        (("run", "plain.json", "--tenant", NO_UTF_8), "INVALID_REQUEST", "--tenant"),
        (("run", "plain.json", "--import", "absent.py"), "INVALID_REQUEST", "--import absent.py"),
        (("run", "plain.json", "--import", "absent.module"), "INVALID_REQUEST", "--import absent.module"),
        (("run", "absent"), "NOT_FOUND", "no workflow 'absent'"),
        (("run", NO_UTF_8), "NOT_FOUND", "no workflow"),
        (("run", "--resume", "garbage"), "NOT_FOUND", "no run garbage"),
        (("run", "--resume", NO_UTF_8), "NOT_FOUND", "no run"),
        (("run", "--resume", UNKNOWN_ID), "NOT_FOUND", UNKNOWN_ID),
        (("run", "plain.json", "--resume", UNKNOWN_ID), "NOT_FOUND", UNKNOWN_ID),
        (("runs", "show", "garbage"), "NOT_FOUND", "garbage"),
        (("runs", "show", UNKNOWN_ID), "NOT_FOUND", UNKNOWN_ID),
        (("runs", "log", UNKNOWN_ID), "NOT_FOUND", UNKNOWN_ID),
        (("runs", "watch", UNKNOWN_ID), "NOT_FOUND", UNKNOWN_ID),
        (("runs", "cancel", UNKNOWN_ID), "NOT_FOUND", UNKNOWN_ID),
        (("runs", "signal", UNKNOWN_ID, "go"), "NOT_FOUND", UNKNOWN_ID),
        (("runs", "start", "absent"), "NOT_FOUND", "absent"),
        (("runs", "start", "plain", "--version", "9"), "NOT_FOUND", "version 9"),
        (("runs", "start", "plain", "--key", ""), "INVALID_REQUEST", "1 to 255"),
        (("runs", "start", "plain", "--key", "x" * 256), "INVALID_REQUEST", "1 to 255"),
        (("runs", "start", "plain", "--key", NO_UTF_8), "INVALID_REQUEST", "plain text"),
        (("runs", "start", "plain", "--retention-days", "0"), "INVALID_REQUEST", "retentionDays"),
        (("runs", "start", "plain", "--available-at", "tomorrow"), "INVALID_REQUEST", "not a point in time"),
        (("runs", "start", "plain", "--available-at", "2030-01-01T00:00:00"), "INVALID_REQUEST", "not a point in time"),
        (
            ("runs", "start", "plain", "--available-at", "9999-12-31T23:59:59-23:59"),
            "INVALID_REQUEST",
            "--available-at",
        ),
        (("runs", "start", "plain", "--deadline-at", "0001-01-01T00:00:00+23:59"), "INVALID_REQUEST", "--deadline-at"),
        (("runs", "list", "--limit", "0"), "INVALID_REQUEST", "--limit"),
        (("runs", "list", "--limit", "101"), "INVALID_REQUEST", "--limit"),
        (("runs", "list", "--status", "DONE"), "INVALID_REQUEST", "--status"),
        (("runs", "list", "--cursor", "garbage"), "INVALID_REQUEST", "cursor"),
        (("runs", "list", "--workflow", "absent"), "NOT_FOUND", "absent"),
        (("workflows", "import"), "INVALID_REQUEST", "FILE"),
        (("workflows", "show", "absent"), "NOT_FOUND", "absent"),
        (("workflows", "export", "plain", "--output", "absent/file.json"), "INVALID_REQUEST", "cannot be written"),
    ],
)
def test_a_mistake_is_refused_in_one_line_with_exit_2(
    anabranch: Command, write: Write, arguments: tuple[str, ...], code: str, words: str
) -> None:
    anabranch("workflows", "import", write("plain.json", PLAIN))

    for_people, for_programs = anabranch(*arguments), anabranch(*arguments, "--json")

    assert (for_people.code, for_programs.code) == (2, 2), for_people.err
    first, *others = for_people.err.splitlines()
    assert first.startswith(f"error {code}: ") and words in first, first
    assert all(line.startswith("hint: ") or " at /" in line for line in others), others
    assert for_programs.document["error"]["code"] == code
    assert anabranch("runs", "list", "--json").document["items"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--payload", "{bad"), "BAD_JSON"),
        (("--payload", "@absent.json"), "INVALID_REQUEST"),
        (("--payload", "[Infinity]"), "VALUE_NOT_STORABLE"),
        (("--payload", '"\\u0000"'), "VALUE_NOT_STORABLE"),
        (("--payload", json.dumps("x" * 1_048_576)), "INVALID_INPUT"),
        (("--key", ""), "INVALID_REQUEST"),
        (("--key", "x" * 256), "INVALID_REQUEST"),
        (("--key", NO_UTF_8), "INVALID_REQUEST"),
    ],
)
def test_a_bad_signal_is_refused_and_not_kept(
    anabranch: Command, pending: str, arguments: tuple[str, ...], code: str
) -> None:
    printed = anabranch("runs", "signal", pending, "go", *arguments, "--json")
    assert (printed.code, printed.document["error"]["code"]) == (2, code)
    events = anabranch("runs", "log", pending, "--json").document["items"]
    assert [event["eventType"] for event in events] == ["INPUT_SET"]


@pytest.mark.parametrize("event", ["", "x" * 256, NO_UTF_8, "a\x00b"])
def test_a_signal_has_a_name_that_can_be_stored(anabranch: Command, pending: str, event: str) -> None:
    printed = anabranch("runs", "signal", pending, event, "--json")
    assert (printed.code, printed.document["error"]["code"]) == (2, "INVALID_REQUEST")


@pytest.mark.parametrize("reason", [NO_UTF_8, "a\x00b", "x" * 1_048_576])
def test_a_reason_that_cannot_be_stored_cancels_nothing(anabranch: Command, pending: str, reason: str) -> None:
    printed = anabranch("runs", "cancel", pending, "--reason", reason, "--json")
    assert (printed.code, printed.document["error"]["code"]) == (2, "INVALID_INPUT")
    assert anabranch("runs", "show", pending, "--json").document["status"] == "PENDING"


def test_an_ended_run_takes_nothing_more_and_says_how_it_ended(anabranch: Command, ended: str) -> None:
    for arguments in (("runs", "cancel", ended), ("runs", "signal", ended, "go")):
        printed = anabranch(*arguments)
        assert printed.code == 1
        assert printed.err.startswith(f"error RUN_IS_TERMINAL: run {ended} is COMPLETED already")
    assert anabranch("run", "--resume", ended).code == 0
    assert anabranch("runs", "show", ended, "--json").document["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('two\\nlines')", "line 1: RuntimeError: two lines"),
        ("def", "line 1: SyntaxError"),
        ("import sys\nsys.exit(7)", "line 2: SystemExit: 7"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_in_one_line(
    anabranch: Command, write: Write, source: str, words: str
) -> None:
    write("broken.py", source.encode())
    printed = anabranch("run", write("plain.json", PLAIN), "--import", "broken.py")
    assert printed.code == 2
    first = printed.err.splitlines()[0]
    assert first.startswith("error INVALID_REQUEST: --import broken.py: ")
    assert f"broken.py, {words}" in first
    assert len(printed.err.splitlines()) == 2


def test_the_process_exits_as_the_command_did(launch: Launch, write: Write, folder: Path) -> None:
    refused = launch("run", write("broken.json", b"{"), "--json")
    assert refused.ended() == 2
    assert json.loads(refused.text)["error"]["code"] == "BAD_JSON"
