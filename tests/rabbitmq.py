"""A RabbitMQ of the tests' own: one node on this machine, in a directory that goes with it.

Called by the tests of transports, by the examples and by the benchmark of pools. Its Erlang
port mapper is its own, and ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import tools
from tests.ports import lasting_port

PATIENCE_S = 90.0

_CONFIGURATION = """
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users = none
log.console.level = warning
log.file = false
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
"""


class RabbitMQ:
    """A broker that can be killed and started again, with what it has kept."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._home = home
        self.port, self._distribution, self._mapper = lasting_port(), lasting_port(), lasting_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None
        (home / "rabbitmq.conf").write_text(_CONFIGURATION.format(port=self.port))
        (home / "plugins").write_text("[].\n")

    def start(self) -> None:
        """Start it; returns when it accepts connections."""
        home = self._home
        environ = {
            **os.environ,
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"anabranch{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_LOGS": "-",
            "ERL_EPMD_PORT": str(self._mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }
        with (home / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._program], env=environ, stdout=output, stderr=output, cwd=home, start_new_session=True
            )
        end_at = time.monotonic() + PATIENCE_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > end_at:
                raise RuntimeError(f"RabbitMQ does not start:\n{(home / 'output').read_text()[-4_000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it without any order."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It stands still within, as in a machine that is suspended."""
        process = self._process
        assert process is not None, "it runs"
        os.killpg(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGCONT)

    def end_mapper(self) -> None:
        """End erlang's port mapper, which the node has left behind."""
        program = shutil.which("epmd")
        if program is not None:
            subprocess.run([program, "-port", str(self._mapper), "-kill"], capture_output=True, check=False)

    def _accepts(self) -> bool:
        """Whether it speaks AMQP: its port is open before it does."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                return len(probe.recv(8)) > 0
        except OSError:
            return False


class Forwarder:
    """A way to the broker that can be cut, and on which answers can be held up."""

    def __init__(self, broker: RabbitMQ) -> None:
        self._broker = broker
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = lasting_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.may_answer = asyncio.Event()
        """While it is not set, nothing comes from the broker; what is sent to it arrives."""
        self.may_answer.set()

    async def open(self) -> None:
        """Let connections through."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def cut(self) -> None:
        """End all connections, and refuse further ones."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the loop of the test ends
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._broker.port)
            except OSError:  # the broker is down
                writer.close()
                return
            self._writers |= {writer, far_writer}
            at_once = asyncio.Event()
            at_once.set()
            await asyncio.gather(_pass(reader, far_writer, at_once), _pass(far_reader, writer, self.may_answer))
            self._writers -= {writer, far_writer}


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_go: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            await may_go.wait()
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def running_rabbitmq() -> Iterator[RabbitMQ]:
    """A broker within. Raises ToolMissing where the machine has none."""
    program = tools.rabbitmq()
    with tempfile.TemporaryDirectory(prefix="anabranch-rabbitmq-") as home:
        broker = RabbitMQ(program, Path(home))
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()
            broker.end_mapper()
