"""SIGTERM ends a command in order, as Ctrl-C does. The first process of a container has no other way to end by it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.__main__ import EXIT_TERMINATED
from tests.hardening.command_line import PATIENCE_S

ABSENT = ("--database-url", "postgresql://127.0.0.1:1/x")


def started(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "anabranch", *arguments]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("arguments", [("migrate",), ("runs", "list"), ("keys", "list"), ("purge",)], ids=" ".join)
def test_a_command_that_waits_for_its_database_ends_at_sigterm(arguments: tuple[str, ...], folder: Path) -> None:
    with started(*arguments, *ABSENT, folder=folder) as process:
        assert process.stderr is not None
        assert "waiting for the database" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in err) == (EXIT_TERMINATED, False), err


def test_a_command_that_waits_in_its_event_loop_ends_at_sigterm(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # it answers nothing
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with started("runs", "list", "--url", url, "--token", "key", folder=folder) as process:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1)
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in err) == (EXIT_TERMINATED, False), err


IMPORTED = """
import os, signal, sys
os.kill(os.getpid(), signal.SIGTERM)
"""

STUBBORN = """
import os, signal, sys
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGTERM)
print("goes on")
"""


@pytest.mark.parametrize("code", [IMPORTED, STUBBORN], ids=["the first", "the second"])
def test_sigterm_interrupts_and_a_second_one_ends_at_once(code: str, folder: Path) -> None:
    (folder / "code.py").write_text(code)
    (folder / "waiting.json").write_text("{}")
    with started("validate", "waiting.json", "--import", "code.py", folder=folder) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "goes on" in out, "Traceback" in err) == (EXIT_TERMINATED, False, False), err


def test_a_caller_that_has_sigterm_ignored_is_obeyed(folder: Path) -> None:
    (folder / "code.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    (folder / "waiting.json").write_text("{}")
    command = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh", sys.executable, "-m", "anabranch", "validate"]
    done = subprocess.run(
        [*command, "waiting.json", "--import", "code.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, "the file is no workflow"
