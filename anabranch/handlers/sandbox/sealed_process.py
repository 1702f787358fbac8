"""A fork server as the service sees it: the process, its socket, and its children.

Called by `pool` (from the event loop) and by `checker` (from any thread). Only `launch` and `close` wait.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.handlers.sandbox.inside import sealed_wire as wire

# 10 seconds: it takes a tenth of one on a quiet machine.
_LAUNCH_SECONDS_MAX = 10.0

# 2 seconds: it ends as soon as its socket does.
_CLOSE_SECONDS_MAX = 2.0

_START = Path(__file__).parent / "inside" / "start_sealed.py"

# The top names of the packages that the languages need; their folders are all that is added to the path.
_PACKAGES = ("RestrictedPython", "_quickjs")


class ForkServerLost(Exception):
    """The fork server cannot be started, has ended, or does not answer."""


@dataclass(slots=True, eq=False)
class ChildProcess:
    """One child, waiting for its job."""

    slot: int
    connection: socket.socket

    def is_waiting(self) -> bool:
        """Whether it is running and has sent nothing."""
        try:
            self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


class ForkServer:
    """The fork server of one language."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, hello: dict[str, Any]) -> None:
        self._process = process
        self._control = control
        self._received = bytearray()
        # Orders to kill that a full socket did not take: one per living child at most.
        self._unsent: deque[bytes] = deque()
        self._next_slot = 0
        self.layers: dict[str, str] = hello["layers"]
        """What its probe found: layer → `yes…` or `no (why)`."""

    @classmethod
    def launch(cls, language: str, *, requires_seccomp: bool) -> ForkServer:
        """Start one and wait until it is ready. Blocks; raises ForkServerLost."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [
                sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_START), str(theirs.fileno()), language,
                "REQUIRED" if requires_seccomp else "UNSAFE", *_folders(),
            ]  # fmt: skip
            try:
                process = subprocess.Popen(  # noqa: S603 -- the interpreter we run in, and our own file
                    command,
                    env={},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as refusal:
                ours.close()
                raise ForkServerLost(f"its process cannot be started: {refusal}") from None
        try:
            ours.settimeout(_LAUNCH_SECONDS_MAX)
            (length,) = wire.LENGTH.unpack(ours.recv(wire.LENGTH.size, socket.MSG_WAITALL).ljust(4, b"\xff"))
            first = json.loads(ours.recv(min(length, wire.ENVELOPE_BYTES_MAX), socket.MSG_WAITALL))
        except (OSError, ValueError) as failure:
            first = {"failed": f"it said nothing ({failure})"}
        if "hello" not in first:
            ours.close()
            process.kill()
            process.wait()
            raise ForkServerLost(f"it did not start: {first['failed']}")
        ours.setblocking(False)
        return cls(process, ours, first["hello"])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def control(self) -> socket.socket:
        """A descriptor that is readable when `messages` returns something."""
        return self._control

    def fork(self) -> ChildProcess:
        """Ask for a child; it can be written to at once. Raises ForkServerLost."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._next_slot = (self._next_slot + 1) % 2**32
        with theirs:
            try:
                self._send_rest()
                socket.send_fds(self._control, [wire.ORDER.pack(wire.FORK, self._next_slot)], [theirs.fileno()])
            except OSError as refusal:  # also a full socket: it has not listened for hundreds of orders
                ours.close()
                raise ForkServerLost(f"it takes no orders: {refusal}") from None
        return ChildProcess(self._next_slot, ours)

    def kill(self, child: ChildProcess) -> None:
        """Kill a child that still runs. The fork server does it, because only a parent can be sure of the pid."""
        child.connection.close()
        self._unsent.append(wire.ORDER.pack(wire.KILL, child.slot))
        try:
            self._send_rest()
        except BlockingIOError:
            return  # it has not read for a while; when it does, its reports trigger the rest
        except OSError:
            self._unsent.clear()  # it is gone, and its children with it

    def messages(self) -> list[dict[str, Any]]:
        """The messages since the last call. Raises ForkServerLost once it has ended."""
        with contextlib.suppress(OSError):  # reading will show why
            self._send_rest()
        while True:
            try:
                data = self._control.recv(65_536)
            except BlockingIOError:
                return self._take_frames()
            except OSError as refusal:
                raise ForkServerLost(f"its socket failed: {refusal}") from None
            if not data:
                raise ForkServerLost(f"it ended with status {self._process.poll()}")
            self._received += data

    def abandon(self) -> None:
        """End it without asking: it has ended, or does not listen. Its children end with it."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it and all its children. Blocks until it is gone; may be called twice."""
        self._control.close()
        try:
            self._process.wait(_CLOSE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send_rest(self) -> None:
        while self._unsent:
            self._control.send(self._unsent[0])
            self._unsent.popleft()

    def _take_frames(self) -> list[dict[str, Any]]:
        found = []
        while len(self._received) >= wire.LENGTH.size:
            (length,) = wire.LENGTH.unpack_from(self._received)
            end = wire.LENGTH.size + length
            if len(self._received) < end:
                break
            found.append(json.loads(bytes(self._received[wire.LENGTH.size : end])))
            del self._received[:end]
        return found


def _folders() -> list[str]:
    folders = []
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ForkServerLost(f"the package {name} is not installed")
        path = Path(spec.origin)
        folders.append(str(path.parents[1] if path.name == "__init__.py" else path.parent))
    return sorted(set(folders))
