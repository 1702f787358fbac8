"""A terminal with a real shell, into which commands are typed one after the other.

Called by the tests beside it. Everything that is printed comes in one stream, as on a screen: what a
program in the background prints may stand before or after the answer to the command just given.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

# 60 s: the slowest command here takes two, and ten on a machine that does eight other things.
PATIENCE_S = 60.0

_DONE = "--- the command has ended ---"

# Bash says so where a job in the background was killed; when, depends on when it looks.
_JOB_NOTICE = re.compile(r".*: line \d+: +\d+ (Killed|Terminated)\b.*")


class Terminal:
    """A bash and what it has printed."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._printed: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, command: str, *, lines: int = 0) -> list[str]:
        """What is printed until the command has ended and there are at least so many lines."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{command}\necho '{_DONE}'\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        has_ended = False
        while not has_ended or len(printed) < lines:
            try:
                line = self._printed.get(timeout=PATIENCE_S)
            except queue.Empty:
                break  # who asked sees what is missing
            if line == _DONE:
                has_ended = True
            elif not _JOB_NOTICE.fullmatch(line):
                printed.append(line)
        return printed

    def close(self) -> None:
        """End the shell and everything that it has started."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._reader.join(PATIENCE_S)
        self._shell.stdin.close()
        self._shell.stdout.close()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._printed.put(line.rstrip("\n"))
