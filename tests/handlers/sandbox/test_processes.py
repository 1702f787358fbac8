"""The processes of the sandbox: how they are created, what they hold, how they are healed, and that none is left."""

# ruff: noqa: ASYNC220, ASYNC240 -- looking into /proc does not block

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import NodeFailure
from anabranch.handlers.sandbox import Sandbox
from anabranch.handlers.sandbox.inside import sealed_wire as wire
from anabranch.handlers.sandbox.sealed_process import ForkServer, ForkServerLost
from tests.handlers.sandbox.running import (
    LANGUAGES,
    ONE,
    PATIENCE_S,
    SPIN,
    Coding,
    children_of,
    coding,
    is_alive,
    status_of,
    until,
)

ROOT = Path(__file__).parents[3]


def fork_server_of(code: Coding, language: str) -> int:
    pid = code.sandbox.health()["forkServers"][language]["pid"]
    assert isinstance(pid, int)
    return pid


async def test_no_code_no_process():
    before = set(children_of(os.getpid()))
    async with coding() as code:
        assert code.sandbox.health() == {
            "state": "idle", "unsafe": False, "layers": None, "running": 0, "waiting": 0, "forkServers": {}
        }  # fmt: skip
        assert set(children_of(os.getpid())) == before
        await code.is_sound("python")
        assert len(set(children_of(os.getpid())) - before) == 1


async def test_stopping_leaves_no_process_whatever_runs():
    others = set(children_of(os.getpid()))  # of other tests, such as their database
    async with coding() as code:
        running = asyncio.create_task(code.failure("python", SPIN["python"]))
        await code.is_sound("javascript")
        await until(lambda: code.sandbox.health()["running"] == 1, "it runs")
        code.sandbox.check("python", "return 1")
        all_of_them: list[int] = []

        def several() -> bool:
            servers = set(children_of(os.getpid())) - others
            all_of_them[:] = [*servers, *(child for server in servers for child in children_of(server))]
            return len(all_of_them) >= 5

        await until(several, "servers, who runs and who waits")
        await code.sandbox.stop()
        await code.sandbox.stop()
        assert (await running).code == "SANDBOX_DIED"
        await until(lambda: not any(map(is_alive, all_of_them)), "all of them ended")
        assert await code.is_sound("python"), "and it can be used again"


async def test_stopping_before_any_use_is_fine():
    sandbox = Sandbox()
    await sandbox.stop()
    assert sandbox.health()["forkServers"] == {}


ORPHANS = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.handlers.sandbox.running import SPIN, children_of, coding, status_of, until
async def main():
    import os
    def sealed():
        servers = children_of(os.getpid())
        return [child for server in servers for child in children_of(server) if status_of(child).get("Seccomp") == "2"]
    async with coding() as code:
        code.sandbox.check("javascript", "return 1")
        await code.is_sound("python")
        await until(lambda: not sealed(), "the one that worked is gone")
        spinning = asyncio.create_task(code.failure("python", SPIN["python"], timeout_ms=60_000))
        await until(sealed, "the code spins")
        servers = children_of(os.getpid())
        print(*servers, *(child for server in servers for child in children_of(server)), flush=True)
        await spinning
asyncio.run(main())
"""


async def test_killing_the_service_leaves_no_process():
    service = subprocess.Popen(
        [sys.executable, "-c", ORPHANS.format(root=str(ROOT))], stdout=subprocess.PIPE, text=True
    )
    assert service.stdout is not None
    pids = [int(word) for word in (await asyncio.to_thread(service.stdout.readline)).split()]
    assert len(pids) >= 4
    assert all(map(is_alive, pids))
    service.kill()
    service.wait()
    service.stdout.close()
    await until(lambda: not any(map(is_alive, pids)), "all of them ended")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_fork_server_has_no_environment_and_no_files_of_ours(
    code: Coding, language: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANABRANCH_TEST_TOKEN", "very secret")
    await code.is_sound(language)
    server = fork_server_of(code, language)

    def only_waiting_children() -> bool:
        found = [status_of(child) for child in children_of(server)]
        waiting = [status for status in found if status.get("NoNewPrivs") == "1" and status.get("Seccomp") == "0"]
        return len(found) == len(waiting) > 0

    await until(only_waiting_children, "the one that worked is gone, the others wait")
    for pid in (server, *children_of(server)):
        assert b"very secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    kinds = {os.readlink(link).split(":")[0] for link in Path(f"/proc/{server}/fd").iterdir()}
    assert kinds <= {"/dev/null", "socket", "pipe", "anon_inode"}
    for child in children_of(server):
        assert [os.readlink(link).split(":")[0] for link in Path(f"/proc/{child}/fd").iterdir()] == ["socket"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into a process that hides its memory")
async def test_a_child_that_waits_is_hardened_and_one_that_works_is_sealed(code: Coding):
    spinning = asyncio.create_task(code.run("python", SPIN["python"], timeout_ms=60_000))
    await until(
        lambda: code.sandbox.health()["running"] == 1 and bool(code.sandbox.health()["forkServers"]["python"]["pid"]),
        "it runs",
    )
    server = fork_server_of(code, "python")
    await until(lambda: any(status_of(child).get("Seccomp") == "2" for child in children_of(server)), "one is sealed")
    for child in children_of(server):
        status = status_of(child)
        if status.get("NoNewPrivs") != "1":
            continue  # it was forked a moment ago
        assert status["Uid"].split()[0] != "0"
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0000000000000000"}
        assert os.readlink(f"/proc/{child}/ns/net") != os.readlink("/proc/self/ns/net")
    spinning.cancel()
    await asyncio.wait([spinning])


async def test_the_layers_are_probed_logged_once_and_shown(code: Coding, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO", logger="anabranch.handlers.sandbox"):
        layers = await code.sandbox.probe()
        await code.is_sound("python")
        await code.is_sound("javascript")
    assert layers["seccomp"] == "yes"
    assert {"namespaces", "uid", "rlimits", "no_new_privs", "dumpable", "pdeathsig", "landlock"} <= set(layers)
    assert code.sandbox.health()["layers"] == layers
    assert code.sandbox.health()["state"] == "ready"
    assert sum("seccomp yes" in line for line in caplog.messages) == 1


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_child_that_dies_fails_its_own_node_only(code: Coding, language: str):
    await code.is_sound(language)
    server = fork_server_of(code, language)
    both = [asyncio.create_task(code.failure(language, SPIN[language], tenant_id=tenant)) for tenant in ("a", "b")]
    spinning: list[int] = []

    def both_spin() -> bool:
        spinning[:] = [pid for pid in children_of(server) if status_of(pid).get("Seccomp") == "2"]
        return len(spinning) == 2

    await until(both_spin, "both run")
    os.kill(spinning[0], signal.SIGKILL)
    ended, going_on = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    (died,) = [task.result() for task in ended]
    assert (died.code, died.retryable) == ("SANDBOX_DIED", True)
    assert "SIGKILL" in str(died)
    assert len(going_on) == 1
    assert is_alive(spinning[1])
    for task in going_on:
        task.cancel()
    await asyncio.wait(going_on)
    assert await code.is_sound(language)
    assert code.sandbox.health()["forkServers"][language]["starts"] == 1


async def test_waiting_children_that_die_are_replaced_unseen():
    async with coding(warm=2) as code:
        await code.is_sound("python")
        server = fork_server_of(code, "python")

        def waiting() -> list[int]:
            # The one that is done is sealed; it is about to end, and not one of them.
            return [child for child in children_of(server) if status_of(child).get("Seccomp") != "2"]

        await until(lambda: len(waiting()) == 2, "they wait")
        killed = waiting()
        for child in killed:
            os.kill(child, signal.SIGKILL)
        await until(lambda: not any(map(is_alive, killed)), "they died")
        for _ in range(3):
            assert await code.is_sound("python")


async def test_a_fork_server_that_dies_is_replaced(code: Coding):
    await code.is_sound("python")
    running = asyncio.create_task(code.failure("python", SPIN["python"]))
    await until(lambda: code.sandbox.health()["running"] == 1, "it runs")
    os.kill(fork_server_of(code, "python"), signal.SIGKILL)
    failure = await running
    assert (failure.code, failure.retryable) == ("SANDBOX_DIED", True)
    assert code.sandbox.health()["state"] == "degraded"
    assert await code.is_sound("python")
    assert code.sandbox.health()["state"] == "ready"
    assert code.sandbox.health()["forkServers"]["python"]["starts"] == 2


async def test_a_fork_server_that_stands_still_holds_nobody_for_longer_than_their_time(code: Coding):
    await code.is_sound("python")
    server = fork_server_of(code, "python")
    os.kill(server, signal.SIGSTOP)
    try:
        for _ in range(4):  # the children that wait, and then none
            try:
                async with asyncio.timeout(PATIENCE_S):  # it stands still for ever
                    await code.run("python", ONE["python"], {"n": 1}, timeout_ms=300)
            except NodeFailure as failure:
                assert failure.code == "CODE_TIMEOUT"
    finally:
        os.kill(server, signal.SIGCONT)
    assert await code.is_sound("python")


async def test_an_order_to_kill_is_not_lost_where_a_fork_server_does_not_listen():
    server = ForkServer.launch("python", requires_seccomp=True)
    try:
        child = server.fork()
        await until(lambda: bool(children_of(server.pid)), "it is created")
        (pid,) = children_of(server.pid)
        os.kill(pid, signal.SIGSTOP)  # so that it does not end by itself once nobody holds its socket
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(BlockingIOError):
            while True:
                server.control.send(wire.ORDER.pack(wire.KILL, 0))
        server.kill(child)
        os.kill(server.pid, signal.SIGCONT)
        await until(lambda: child.slot in [message["died"] for message in server.messages()], "it was killed")
        assert not is_alive(pid)
    finally:
        server.abandon()


async def test_a_stopped_node_takes_its_process_along(code: Coding):
    await code.is_sound("python")
    server = fork_server_of(code, "python")

    def sealed() -> bool:
        return any(status_of(pid).get("Seccomp") == "2" for pid in children_of(server))

    await until(lambda: not sealed(), "the one before ended")
    running = asyncio.create_task(code.run("python", SPIN["python"]))
    await until(sealed, "it runs")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not sealed(), "its process ended")
    assert code.sandbox.health()["running"] == 0


async def test_a_tenant_with_many_jobs_does_not_hold_up_another():
    async with coding(slots=2) as code:
        await code.is_sound("python")
        hogs = [asyncio.create_task(code.run("python", SPIN["python"], timeout_ms=600_000)) for _ in range(6)]
        await until(lambda: code.sandbox.health()["running"] == 1, "one of them runs, no more")
        for _ in range(5):
            assert await code.is_sound("python")
        assert not any(hog.done() for hog in hogs), "nobody had to wait for one of them to end"
        for hog in hogs:
            hog.cancel()
        await asyncio.wait(hogs)
        assert await code.run("python", ONE["python"], {"n": 1}) == 2, "and their tenant has its place again"


def test_a_machine_without_seccomp_is_told_apart(monkeypatch: pytest.MonkeyPatch):
    """What a probe without seccomp leads to: jobs refused with a clear code, unless somebody said otherwise."""
    launch = ForkServer.launch.__func__  # type: ignore[attr-defined]

    def without_seccomp(cls: type[ForkServer], language: str, *, requires_seccomp: bool) -> ForkServer:
        server = launch(cls, language, requires_seccomp=requires_seccomp)
        server.layers = {**server.layers, "seccomp": "no (Invalid argument)"}
        return server

    monkeypatch.setattr(ForkServer, "launch", classmethod(without_seccomp))

    async def try_it() -> None:
        async with coding() as code:
            failure = await code.failure("python", "return 1")
            assert (failure.code, failure.retryable) == ("SANDBOX_UNAVAILABLE", False)
            assert "ANABRANCH_SANDBOX_UNSAFE" in str(failure)
            assert code.sandbox.health()["state"] == "unavailable"
        async with coding(unsafe=True) as code:
            assert await code.is_sound("python")
            assert code.sandbox.health()["state"] == "ready"

    asyncio.run(try_it())


async def test_another_system_than_linux_starts_nothing_and_says_so(code: Coding, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    failure = await code.failure("javascript", "return 1")
    assert (failure.code, failure.retryable) == ("SANDBOX_UNAVAILABLE", False)
    assert "Darwin has no seccomp" in str(failure)
    assert code.sandbox.health()["forkServers"] == {}


def test_a_fork_server_that_cannot_start_says_why():
    with pytest.raises(ForkServerLost, match="KeyError: 'cobol'"):
        ForkServer.launch("cobol", requires_seccomp=True)
