"""Databases that want the memory of the service: what it takes stays small, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from anabranch.errors import NodeFailure
from anabranch.queries.drivers.memory import ANSWERING_BYTES, CONNECTING_BYTES
from anabranch.queries.limits import Limits
from tests.handlers.queries.conftest import Bench
from tests.handlers.queries.hostile import BEHAVIOURS

HOSTILE = Path(__file__).with_name("hostile.py")

# What the service's own memory may grow by.
GROWTH_MAX = 64 << 20

# What a driver process is before it connects.
DRIVER_BYTES = 50 << 20

CONNECTING = {name for name in BEHAVIOURS if not name.endswith(("row", "end", "error", "brackets", "bytes"))}
CONNECTING |= {"mysql: a greeting without end"}

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def limits() -> Limits:
    return Limits(connect_timeout_ms=2_000)


@pytest.fixture
def play() -> Iterator[Callable[[str], str]]:
    """Starts a hostile server: its URL as a data source."""
    servers = []

    def start(behaviour: str) -> str:
        server = subprocess.Popen([sys.executable, str(HOSTILE), behaviour], stdout=subprocess.PIPE, text=True)
        servers.append(server)
        assert server.stdout is not None
        kind = "mysql" if behaviour.startswith("mysql") else "postgresql"
        return f"{kind}://u:p4ssword@hostile.internal:{server.stdout.readline().strip()}/x?sslmode=disable"

    yield start
    for server in servers:
        server.kill()
        server.wait()


@linux_only
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
async def test_a_hostile_database_gets_no_memory_and_leaves_nothing(
    bench: Bench, play: Callable[[str], str], behaviour: str
) -> None:
    url = play(behaviour)
    await bench.source(url)  # not let through to the host yet: saved unseen
    bench.guard.addresses["hostile.internal"] = ["127.0.0.1"]
    connections, before = _connections(), _peak_from_here()
    async with _watched() as seen:
        with contextlib.suppress(NodeFailure):
            answer = await bench.ask("SELECT a", timeout="2s")
            assert behaviour == "letters of four bytes" and len(answer["rows"][0]["a"]) == 10_000_001
    assert _peak() - before <= GROWTH_MAX, "memory of the service"
    allowed = DRIVER_BYTES + (CONNECTING_BYTES if behaviour in CONNECTING else ANSWERING_BYTES)
    assert max(seen.values(), default=0) <= allowed, "memory of the driver process"
    assert seen, "no driver process was seen"
    await bench.data.queries.stop()
    assert _drivers() == []
    assert _connections() <= connections
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("anabranch-query")]


@linux_only
@pytest.mark.parametrize("behaviour", ["one huge row", "a drip", "notices without end", "mysql: a drip"])
async def test_a_query_that_is_cancelled_ends_its_process_at_once(
    bench: Bench, play: Callable[[str], str], behaviour: str
) -> None:
    await bench.source(play(behaviour))
    bench.guard.addresses["hostile.internal"] = ["127.0.0.1"]
    asking = asyncio.create_task(bench.ask("SELECT a", timeout="600s"))
    async with asyncio.timeout(30):
        await _until(lambda: bool(_drivers()) or asking.done())
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, NodeFailure):
            await asking
        await _until(lambda: not _drivers())
    assert asking.done()


@linux_only
async def test_a_source_is_not_saved_forever(bench: Bench, play: Callable[[str], str]) -> None:
    bench.guard.addresses["hostile.internal"] = ["127.0.0.1"]
    before = _peak_from_here()
    async with asyncio.timeout(30):
        saved = await bench.data.create_source({"name": "a", "url": play("one huge row")}, tenant_id="acme")
        assert saved.warnings == []  # it let us in, and the role is fit: what it sends comes later
        url = play("mysql: a greeting without end")
        saved = await bench.data.create_source({"name": "b", "url": url}, tenant_id="acme")
        assert [code for code, _, _ in saved.warnings] == ["QUERY_TOO_LARGE"]
    assert _peak() - before <= GROWTH_MAX
    assert _drivers() == []


@linux_only
def test_driver_processes_end_with_the_service(play: Callable[[str], str]) -> None:
    url = play("a drip")
    program = (
        "from anabranch.queries.driver_process import DriverProcess\n"
        "from anabranch.queries.drivers.driver_requests import DatabaseTarget\n"
        "from anabranch.queries.query_faults import Mask\n"
        "from anabranch.queries.lexing import SourceKind\n"
        f"port = {url.rpartition(':')[2].split('/')[0]}\n"
        "target = DatabaseTarget(host='h', addresses=['127.0.0.1'], port=port, user='u', password='p', database='x',\n"
        "                tls='disable', connect_timeout_ms=600_000)\n"
        "driver = DriverProcess(SourceKind.POSTGRESQL, target, Mask([]))\n"
        "print(driver.pid, flush=True)\n"
        "driver.check()\n"
    )
    service = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    pid = int(service.stdout.readline())
    handle = os.pidfd_open(pid)
    service.send_signal(signal.SIGKILL)
    service.wait()
    with os.fdopen(handle):
        assert _ended(handle), "the driver process lives on"


def test_a_driver_process_loads_nothing_of_the_service_that_it_does_not_need() -> None:
    program = (
        "import sys, types; shell = types.ModuleType('anabranch.queries')\n"
        "import anabranch; shell.__path__ = [anabranch.__path__[0] + '/queries']; sys.modules[shell.__name__] = shell\n"
        "from anabranch.queries.drivers import mysql, postgresql, serve, sqlite\n"
        "print([name for name in ('sqlalchemy', 'pydantic', 'aiohttp', 'anabranch.engine') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 -- the kernel announces no end of a process to who did not start it
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def _watched() -> AsyncIterator[dict[int, int]]:
    """The most memory that each driver process was seen with."""
    seen: dict[int, int] = {}

    async def look() -> None:
        while True:
            for pid in _drivers():
                with contextlib.suppress(OSError, StopIteration, ValueError):
                    seen[pid] = max(seen.get(pid, 0), _status(pid, "VmHWM"))
            await asyncio.sleep(0.01)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


def _peak_from_here() -> int:
    """Forget the peak so far; the memory in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status(os.getpid(), "VmRSS")


def _peak() -> int:
    return _status(os.getpid(), "VmHWM")


def _status(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) * 1024


def _drivers() -> list[int]:
    """Driver processes of this one."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        children = ""
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            children = (task / "children").read_text()
        for pid in children.split():
            with contextlib.suppress(OSError):
                if b"drivers/start_driver.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
    return found


def _connections() -> int:
    """Sockets and pipes of this process."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(descriptor).startswith(("socket:", "pipe:"))
    return found


def _ended(handle: int) -> bool:
    return bool(select.select([handle], [], [], 30)[0])
