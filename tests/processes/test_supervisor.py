"""`worker --processes`: one that is killed is started again, all stop together, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from anabranch.process import Supervisor
from anabranch.process.supervisor import _how
from tests.processes.conftest import Installation, Launch
from tests.processes.launching import until

pytestmark = pytest.mark.timeout(180)

# Leaves its pid in a file, then ends as it is told to: by SIGTERM in order, or at once with an exit code.
CHILD = """
import os, pathlib, signal, sys, time
folder, code = pathlib.Path(sys.argv[1]), os.environ.get("ENDS_WITH")
by = os.environ.get("ENDS_BY")
def end(*_):
    if not by:
        sys.exit(int(os.environ.get("STOPS_WITH", 0)))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), int(by))
signal.signal(signal.SIGTERM, end)
(folder / f"{os.environ['SLOT']}-{os.getpid()}").touch()
if code:
    sys.exit(int(code))
while True:
    signal.pause()
"""


class Supervised:
    """A supervisor of two such processes, in this one."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        environments = [{"SLOT": slot, **environment} for slot in ("a", "b")]
        command = [sys.executable, "-S", "-c", CHILD, str(folder)]
        self.supervisor = Supervisor(command, environments, grace_s=60, restart_first_s=0.01)

    def pids(self, slot: str) -> list[int]:
        """The processes that there have been."""
        return [int(each.name.split("-")[1]) for each in self.folder.glob(f"{slot}-*[0-9]")]

    async def has(self, slot: str, count: int) -> list[int]:
        """So many have begun."""
        while len(self.pids(slot)) < count:  # noqa: ASYNC110  # other processes can tell us nothing sooner
            await asyncio.sleep(0.01)
        return self.pids(slot)


async def test_a_killed_process_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path)
    running = asyncio.create_task(supervised.supervisor.run())
    (first,), (other,) = await supervised.has("a", 1), await supervised.has("b", 1)
    os.kill(first, signal.SIGKILL)
    (second,) = set(await supervised.has("a", 2)) - {first}

    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 0
    assert not any(psutil.pid_exists(pid) for pid in (first, second, other))
    assert supervised.pids("b") == [other]


async def test_what_cannot_work_is_not_tried_again(tmp_path: Path) -> None:
    supervised = Supervised(tmp_path, ENDS_WITH="2")
    assert await supervised.supervisor.run() == 2
    assert len(supervised.pids("a")) <= 1 and len(supervised.pids("b")) <= 1


async def test_who_dies_again_and_again_is_started_less_and_less_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supervised = Supervised(tmp_path, ENDS_WITH="7")
    running = asyncio.create_task(supervised.supervisor.run())
    await supervised.has("a", 4)
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    said = capsys.readouterr().err
    for pause in ("0.01", "0.02", "0.04"):
        assert f"warning: a worker process ended (exit code 7); the next starts in {pause} s" in said


@pytest.mark.parametrize("failure", [BlockingIOError(11, "no more processes"), SubprocessError("in preexec_fn")])
async def test_a_process_that_cannot_be_started_is_tried_again_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: Exception
) -> None:
    start, failures = asyncio.create_subprocess_exec, [failure, failure]

    async def refuse(*command: Any, **options: Any) -> Any:
        if options["env"]["SLOT"] == "a" and failures:
            raise failures.pop()
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    supervised = Supervised(tmp_path)
    running = asyncio.create_task(supervised.supervisor.run())
    await supervised.has("a", 1)
    (other,) = await supervised.has("b", 1)
    assert psutil.pid_exists(other)
    os.kill(os.getpid(), signal.SIGTERM)

    assert await running == 0
    assert f"a worker process could not be started ({failure}); the next starts in 0.02 s" in capsys.readouterr().err


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, 1)])
async def test_a_process_that_the_stop_ends_before_it_listens_has_ended_in_order(
    tmp_path: Path, ending: signal.Signals, code: int
) -> None:
    supervised = Supervised(tmp_path, ENDS_BY=str(int(ending)))
    running = asyncio.create_task(supervised.supervisor.run())
    await supervised.has("a", 1)
    await supervised.has("b", 1)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == code


@pytest.mark.parametrize(("stops_with", "code"), [("143", 0), ("1", 1)])
async def test_a_process_that_is_asked_to_stop_while_it_starts_has_ended_in_order(
    tmp_path: Path, stops_with: str, code: int
) -> None:
    supervised = Supervised(tmp_path, STOPS_WITH=stops_with)
    running = asyncio.create_task(supervised.supervisor.run())
    await supervised.has("a", 1)
    await supervised.has("b", 1)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == code


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert [_how(code) for code in (3, -9, -signal.SIGRTMIN - 3)] == ["exit code 3", "SIGKILL", "signal 37"]


def test_workers_are_started_watched_and_stopped_together(launch: Launch, sqlite_installation: Installation) -> None:
    sqlite_installation.make_key()
    supervisor = launch(sqlite_installation, "worker", "--processes", "2", "--metrics-port", "0", "--json")
    ready = [json.loads(supervisor.line()) for _ in range(2)]
    workers = psutil.Process(supervisor.pid).children()
    assert len({each["worker"] for each in ready}) == len({each["url"] for each in ready}) == len(workers) == 2

    workers[0].kill()
    assert json.loads(supervisor.line())["worker"] not in {each["worker"] for each in ready}

    heirs = psutil.Process(supervisor.pid).children()
    assert supervisor.stop() == 0
    until(lambda: not any(each.is_running() for each in [*workers, *heirs]))
