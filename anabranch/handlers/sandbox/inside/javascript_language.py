"""JavaScript: function bodies in a QuickJS engine of their own, with bounded memory and no host objects.

Loaded by the fork server; `prelude.js` surrounds the code inside the engine. Only text crosses between Python and the
engine.
"""

from __future__ import annotations

import json
import os
import re
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import _quickjs  # type: ignore[import-not-found]  # the engine without its wrapper, which starts a thread

from anabranch.handlers.sandbox.inside.languages import CompileProblem, Failure, Frame, Host

# 1 MB of C stack, out of the usual 8: some thousand calls deep, then a RangeError.
STACK_BYTES_MAX = 1_048_576

# The engine throws `null` when it has no memory left even for an error. What tells it from code that
# throws null is that the process has grown by at least half of what it may have.
_GROWN_SHARE = 2

# The line of its wrapper at which a function body begins.
_LINES_BEFORE_CODE = 2

_HELD_BY_PRELUDE = ("__send", "__check", "__run", "__answered")
_FRAME = re.compile(r"(?:at (\S*) \()?<input>:(\d+):(\d+)")
_OUT_OF_MEMORY = ("out of memory", "string too long")


def _load_prelude() -> str:
    lines = (Path(__file__).parent / "prelude.js").read_text(encoding="utf-8").splitlines()
    return " ".join(line for line in lines if not line.lstrip().startswith("//"))


_PRELUDE = _load_prelude()


def prepare() -> JavaScript:
    """An engine for one child. Made after the fork: two children of one mould would draw the same dice."""
    return JavaScript()


class JavaScript:
    """One QuickJS engine, for one job."""

    def __init__(self) -> None:
        self._context = _quickjs.Context()
        self._context.set_max_stack_size(STACK_BYTES_MAX)
        # QuickJS seeds its dice with the clock: two children that begin in one microsecond would draw alike.
        self._context.eval(
            f"for (let left = {int.from_bytes(os.urandom(2), 'big') % 1024}; left > 0; left--) Math.random()"
        )
        self._context.add_callable("__send", self._receive)
        self._context.eval(_PRELUDE)
        self._check, self._run, self._answered = (self._context.get(name) for name in _HELD_BY_PRELUDE[1:])
        for name in _HELD_BY_PRELUDE:
            self._context.eval(f"delete globalThis.{name}")
        self._host: Host | None = None
        self._memory_bytes = 0
        self._asked = 0
        self._done: str | None = None
        self._failed: list[str] | None = None

    def compile(self, code: str) -> list[CompileProblem]:
        """The syntax error of a function body: at most one, because the parser stops at the first."""
        self._check(code)
        if self._failed is None:
            return []
        _, message, stack = self._failed
        frames = _frames(stack)
        return [
            CompileProblem(frames[-1].line, frames[-1].column, message) if frames else CompileProblem(1, 1, message)
        ]

    def run(self, job: Mapping[str, Any], host: Host) -> bytes:
        """Run a job's `code`. Raises Failure, also for a promise that nothing can settle any more."""
        self._host = host
        self._memory_bytes = job["memoryBytes"]
        self._context.set_memory_limit(self._memory_bytes)
        before = _resident_bytes()
        try:
            self._run(job["code"], job["ctx"], bool(job.get("allowFetch")))
            self._settle(host)
        except (_quickjs.JSException, _quickjs.StackOverflow) as thrown:
            name, _, rest = str(thrown).partition(": ")
            self._failed = [name.strip(), rest.split("\n", 1)[0], str(thrown)]
        if self._done is not None:
            return self._done.encode()
        raise self._failure(grown=_resident_bytes() - before > self._memory_bytes // _GROWN_SHARE)

    def _settle(self, host: Host) -> None:
        while self._done is None and self._failed is None:
            if self._context.execute_pending_job():
                continue
            if not self._asked:
                return
            self._asked -= 1
            self._answered(json.dumps(host.answer()))

    def _receive(self, kind: str, text: str) -> bool:
        """Handle a message of the prelude; False for a request that is too large.

        User code cannot call this, and would gain nothing by it.
        """
        values = json.loads(text) if kind != "done" else []
        if kind == "log" and self._host is not None:
            self._host.log(*values)
        elif kind == "fetch" and self._host is not None:
            number, method, url, headers, body = values
            request = {"id": number, "method": method, "url": url, "headers": headers, "body": body}
            if not self._host.ask(request):
                return False
            self._asked += 1
        elif kind == "done":
            self._done = text
        elif kind == "failed":
            self._failed = values
        return True

    def _failure(self, *, grown: bool) -> Failure:
        if self._failed is None:
            if grown:
                return _memory()
            return Failure("CODE_ERROR", "NeverSettled", "the code awaits a promise that nothing can settle any more")
        name, message, stack = self._failed
        if message in _OUT_OF_MEMORY or (name == "null" and grown):
            return _memory()
        if name == "NotStorable":
            return Failure("VALUE_NOT_STORABLE", "ValueNotStorable", message)
        if name == "TooLarge":
            return Failure("VALUE_TOO_LARGE", "ValueTooLarge", message)
        return Failure("CODE_ERROR", name or "Error", message, frames=_frames(stack))


def _memory() -> Failure:
    return Failure("CODE_MEMORY", "OutOfMemory", "the code needed more memory than its memoryLimitMB")


def _frames(stack: str) -> list[Frame]:
    """Those in the code itself, the innermost one last; the prelude is one line above it."""
    found = [
        Frame(int(line) - _LINES_BEFORE_CODE, int(column), "" if name in ("anonymous", "<anonymous>") else name)
        for name, line, column in _FRAME.findall(stack)
        if int(line) > _LINES_BEFORE_CODE
    ]
    return found[::-1]


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
