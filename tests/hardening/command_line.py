"""Commands as a person gives them: in this process where only the answer matters, as processes to be killed else.

Called by the fixtures in `conftest.py`. A launched process prints what it does (`run --watch`),
so a test waits for a line of it and never for time.
"""

from __future__ import annotations

import json
import logging
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXECUTABLE = Path(sys.executable).with_name("anabranch")

# 120 s: the slowest process here needs five, on a machine that does four other things; fifty where it does twenty.
PATIENCE_S = 120


@dataclass(frozen=True)
class Printed:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Command = Callable[..., Printed]


def printed_on_a_terminal(*arguments: str, folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints whose three streams are a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [EXECUTABLE, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    try:
        while piece := os.read(ours, 65_536):
            printed += piece
    except OSError:
        pass  # how a terminal on Linux ends whose last user has gone
    finally:
        os.close(ours)
    assert process.wait() == 0, printed
    return printed.decode()


class Launched:
    """A running `anabranch`, with standard output and error in one stream of lines."""

    def __init__(
        self, arguments: Sequence[str | Path], folder: Path, *, limit: Callable[[], None] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [EXECUTABLE, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=limit,
        )
        self.lines: list[str] = []

    def saw(self, *words: str) -> str:
        """The first further line that holds all these words; waits for it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError(f"it ended without saying {words}:\n{self.text}")

    def send(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code, as a shell shows it."""
        self._process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; the exit code, negative for a signal."""
        out, _ = self._process.communicate(timeout=PATIENCE_S)
        self.lines.append(out)
        assert "Traceback" not in self.text, self.text
        return self._process.returncode

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def text(self) -> str:
        """Everything that was read of it so far."""
        return "".join(self.lines)


@contextmanager
def logging_left_alone() -> Iterator[None]:
    """The command line takes the engine's log for its own; other tests of this process want it back."""
    logger = logging.getLogger("anabranch")
    handlers, propagate = list(logger.handlers), logger.propagate
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = handlers, propagate
