"""The fork server of one language: a process without secrets that forks children and reaps them.

Started by `start_sealed.py`, controlled over one socket (`sealed_wire.ORDER`). It answers with frames: `{"hello": …}`
when it is ready, `{"died": slot, "status": …}` for each child. It ends with the socket, and its children with it. It
loads everything that a child may need, because a child cannot open files.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import sys

from anabranch.handlers.sandbox.inside import child, hardening
from anabranch.handlers.sandbox.inside import sealed_wire as wire
from anabranch.handlers.sandbox.inside.languages import Language, load_language

# The probe takes a few milliseconds; on a machine where it hangs, the sandbox cannot work.
_PROBE_SECONDS = 5


def serve(control_number: int, language_name: str, *, requires_seccomp: bool) -> None:
    """Serve orders until the service is gone."""
    control = socket.socket(fileno=control_number)
    # Ctrl-C in the service's terminal is the service's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    language = load_language(language_name)
    # Only now, because in its own user namespace it may not be able to read the files to load.
    isolation: hardening.Report = {}
    hardening.isolate(isolation)
    server = _ForkServer(control, language, isolation, requires_seccomp=requires_seccomp)
    gc.collect()
    # Freeze loaded objects, so that a child's garbage collector does not touch, and thereby copy, their pages.
    gc.freeze()
    server.run()


class _ForkServer:
    def __init__(
        self, control: socket.socket, language: Language, isolation: hardening.Report, *, requires_seccomp: bool
    ) -> None:
        self._control = control
        self._language = language
        self._isolation = isolation
        self._requires_seccomp = requires_seccomp
        self._children: dict[int, int] = {}
        """Process id → slot."""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self) -> None:
        """Greet with the layers of isolation, then fork a child for each job until the control socket is closed."""
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._send({"hello": {"layers": self._probe(), "python": sys.version.split()[0]}})
        waiting = select.poll()
        waiting.register(self._control, select.POLLIN)
        waiting.register(self._wake_read, select.POLLIN)
        while True:
            for number, _ in waiting.poll():
                if number == self._wake_read:
                    os.read(self._wake_read, 512)
                elif not self._obey():
                    self._end()
            self._bury()

    def _obey(self) -> bool:
        """Carry out one order; False if the service is gone."""
        try:
            order, sockets, _, _ = socket.recv_fds(self._control, wire.ORDER.size, 1)
        except OSError:
            return False
        if len(order) < wire.ORDER.size:
            return False
        kind, slot = wire.ORDER.unpack(order)
        if kind == wire.FORK and sockets:
            self._fork(sockets[0], slot)
        elif kind == wire.KILL:
            for process, its_slot in self._children.items():
                if its_slot == slot:
                    os.kill(process, signal.SIGKILL)
        return True

    def _fork(self, connection: int, slot: int) -> None:
        parent = os.getpid()
        process = os.fork()
        if process == 0:
            child.live(connection, self._language, slot=slot, parent=parent, requires_seccomp=self._requires_seccomp)
        os.close(connection)
        self._children[process] = slot

    def _bury(self) -> None:
        while self._children:
            process, status, usage = os.wait4(-1, os.WNOHANG)
            if process == 0:
                return
            slot = self._children.pop(process, None)
            if slot is not None:
                cpu_ms = round((usage.ru_utime + usage.ru_stime) * 1000)
                self._send({"died": slot, "status": os.waitstatus_to_exitcode(status), "cpuMs": cpu_ms})

    def _end(self) -> None:
        for process in self._children:
            os.kill(process, signal.SIGKILL)
        os._exit(0)

    def _send(self, message: object) -> None:
        try:
            self._control.sendall(wire.frame(json.dumps(message).encode()))
        except OSError:
            self._end()

    def _probe(self) -> hardening.Report:
        """The isolation layers that a test child could set up, and whether they hold."""
        ours, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            ours.close()
            child.report_layers(theirs.detach(), parent=os.getppid())
        theirs.close()
        ours.settimeout(_PROBE_SECONDS)
        try:
            (length,) = struct.unpack("!I", ours.recv(4, socket.MSG_WAITALL))
            report = json.loads(ours.recv(length, socket.MSG_WAITALL))
        except (OSError, ValueError, struct.error):
            report = {"seccomp": "no (the probe died)"}
        finally:
            ours.close()
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        return {**self._isolation, **report}
