"""Processes that stay, as an operator starts them: `serve`, `worker`, `dev`, and HTTP to those that answer it.

Called by the fixtures in `conftest.py`. A process is known by the one line that it prints when it is
ready; a test waits for that line, for an answer, or for a row, and never for time.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

from tests.hardening.command_line import EXECUTABLE

# 120 s: the slowest thing here takes five, on a machine that does four other things; fifty where it does twenty.
PATIENCE_S = 120.0
LOOK_S = 0.02


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Staying:
    """A running process; its two streams are read line by line, so that neither can fill up."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        *,
        descriptors: int | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [EXECUTABLE, *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=None if descriptors is None else partial(_limit_descriptors, descriptors),
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((self._process.stdout, self.out), (self._process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()
        self.url = self.key = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self) -> Staying:
        """Itself, once it has printed its line; with the URL and key that stand in it."""
        line = self.line()
        start = line.find("http://")
        if start >= 0:
            found = urlsplit(line[start:])
            self.url = f"{found.scheme}://{found.netloc}"
            self.key = "".join(parse_qs(found.query).get("key", []))
        return self

    def line(self) -> str:
        """The next line on standard output."""
        said = self._said.get(timeout=PATIENCE_S)
        assert said is not None, f"it ended without a word: {self.ended()} {self.text}"
        return said.rstrip("\n")

    def saw(self, text: str) -> None:
        """Return once either stream holds this."""
        until(lambda: text in self.text or self._process.poll() is not None)
        assert text in self.text, self.text

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        """The exit code, once it has ended; negative for a signal."""
        code = self._process.wait(timeout=PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        assert "Traceback" not in self.text, self.text
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.tell(number)
        return self.ended()

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(PATIENCE_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    @property
    def text(self) -> str:
        return "".join([*self.out, *self.err])

    # -- HTTP -----------------------------------------------------------------------------
    def ask(self, method: str, path: str, body: Any = None, *, host: str | None = None) -> Answer:
        """One request with the key; whatever the status, an answer."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if host is not None:
            headers["Host"] = host
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return _answer(response, response.status)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return _answer(refusal, refusal.code)

    def save(self, document: dict[str, Any]) -> None:
        """Save a workflow."""
        answer = self.ask("POST", "/v1/workflows", document)
        assert answer.status == 201, answer

    def start(self, workflow: str, input_: Any = None) -> str:
        """Start a run; its id."""
        answer = self.ask("POST", f"/v1/workflows/{workflow}/runs", {"input": input_ or {}})
        assert answer.status == 201, answer
        instance_id: str = answer.body["instanceID"]
        return instance_id

    def ended_run(self, instance_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        run: dict[str, Any] = {}

        def look() -> bool:
            run.update(self.ask("GET", f"/v1/runs/{instance_id}").body)
            return run["status"] in ("COMPLETED", "FAILED", "CANCELLED")

        until(look)
        return run

    def _read(self, stream: IO[str] | None, lines: list[str]) -> None:
        assert stream is not None
        for line in stream:
            lines.append(line)
            if lines is self.out:
                self._said.put(line)
        if lines is self.out:
            self._said.put(None)


def _limit_descriptors(number: int) -> None:
    """As `ulimit -n` does: the soft limit and the hard one."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def until(condition: Callable[[], object]) -> None:
    """Return when the condition holds; fails after `PATIENCE_S`. Other processes can tell us nothing sooner."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come to hold"
        time.sleep(LOOK_S)


def _answer(response: Any, status: int) -> Answer:
    text = response.read()
    is_json = response.headers.get("Content-Type", "").startswith("application/json")
    return Answer(status, dict(response.headers), json.loads(text) if is_json and text else text)
