"""No attack does harm: not in the sandbox, and not past the operating system's wall alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from anabranch.engine.rules.values import Payload
from anabranch.errors import NodeFailure, ValueNotStorable, ValueTooLarge
from tests.handlers.sandbox.attacks import JAVASCRIPT, PYTHON, Attack
from tests.handlers.sandbox.running import Coding, children_of, is_alive, status_of

NAIVE = Path(__file__).parent / "naive.py"

# The event loop may stand still no longer by what it does itself, whatever the code does.
GAP_SECONDS_MAX = 0.25
TICK_SECONDS = 0.01

# As long as an attack that hangs may run here.
TIMEOUT_MS = 300
# Nothing is to come of one that hangs but its end.
HANG_TIMEOUT_MS = 100
# What is not stopped runs on for ever; the rest is for the machine, which may have much else to do.
TAKES_SECONDS_MAX = 10.0

OUTCOMES = {"CODE_ERROR", "CODE_TIMEOUT", "CODE_MEMORY", "SANDBOX_DIED", "VALUE_NOT_STORABLE", "VALUE_TOO_LARGE"}

ATTACKS = {"python": PYTHON, "javascript": JAVASCRIPT}


@dataclass
class Scene:
    """A file to be read, a path to be written, a port to be reached, and who has done so."""

    folder: Path
    listener: socket.socket
    token: str = field(default_factory=lambda: f"token-{secrets.token_hex(16)}")

    @property
    def marker(self) -> Path:
        return self.folder / "marker"

    def staged(self, attack: Attack) -> str:
        port = str(self.listener.getsockname()[1])
        body = attack.body.replace("TOKEN_FILE", str(self.folder / "token"))
        return body.replace("MARKER", str(self.marker)).replace("PORT", port)

    def harm_seen(self, shown: str) -> set[str]:
        """What has happened since the last look."""
        found = set()
        if self.token in shown:
            found.add("read")
        if os.path.lexists(self.marker):
            found.add("write")
            with contextlib.suppress(OSError):
                self.marker.unlink() if not self.marker.is_dir() else self.marker.rmdir()
        with contextlib.suppress(BlockingIOError):
            self.listener.accept()[0].close()
            found.add("reach")
        return found


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        made = Scene(tmp_path, listener)
        (tmp_path / "token").write_text(made.token)
        # Whoever a child is, the file is no secret to it: only the walls keep it out.
        for folder in (tmp_path, *tmp_path.parents):
            with contextlib.suppress(OSError):
                folder.chmod(folder.stat().st_mode | 0o055)
        tmp_path.chmod(0o777)
        (tmp_path / "token").chmod(0o644)
        monkeypatch.setenv("ANABRANCH_TEST_TOKEN", made.token)
        yield made


class Gaps:
    """The longest time for which the event loop stood still, by work of its own or by waiting for something.

    Work is counted in processor time, and waiting in the ticks of a thread that could go on meanwhile: what
    a busy machine does to both of them is not the loop's doing.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._ticks = 0
        self._over = threading.Event()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        thread = threading.Thread(target=self._tick)
        thread.start()
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            self._over.set()
            thread.join()

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            self._ticks += 1

    async def _watch(self) -> None:
        while True:
            worked, ticks = time.thread_time(), self._ticks
            await asyncio.sleep(TICK_SECONDS)
            waited = (self._ticks - ticks - 1) * TICK_SECONDS
            self.longest = max(self.longest, time.thread_time() - worked, waited)


def _chosen(language: str, harm: str) -> list[Attack]:
    return [attack for attack in ATTACKS[language] if attack.harm == harm]


CLASSES = [(language, harm) for language in ATTACKS for harm in sorted({attack.harm for attack in ATTACKS[language]})]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("language", "harm"), CLASSES)
async def test_no_attack_does_harm_in_the_sandbox(code: Coding, scene: Scene, language: str, harm: str):
    assert await code.is_sound(language)
    server = code.sandbox.health()["forkServers"][language]["pid"]
    gaps, failures = Gaps(), []
    async with gaps.watched():
        timeout_ms = HANG_TIMEOUT_MS if harm == "hang" else TIMEOUT_MS
        for attack in _chosen(language, harm):
            code.lines.clear()
            began = time.monotonic()
            try:
                shown = repr(await code.run(language, scene.staged(attack), timeout_ms=timeout_ms))
                assert harm not in ("hang", "memory") or language == "python", f"it returned: {attack.body}"
            except NodeFailure as failure:
                shown = f"{failure.code} {failure}"
                if failure.code not in OUTCOMES:
                    failures.append((attack.body, shown))
            if seen := scene.harm_seen(shown + repr(code.lines)):
                failures.append((attack.body, f"did harm: {seen}"))
            if time.monotonic() - began > TAKES_SECONDS_MAX:
                failures.append((attack.body, "took too long"))
            if not await code.is_sound(language):
                failures.append((attack.body, "spoiled the next job"))
    assert failures == []
    assert gaps.longest < GAP_SECONDS_MAX
    assert code.sandbox.health()["forkServers"][language] == {"pid": server, "starts": 1}
    assert all(_is_a_fresh_child(child) for child in children_of(server)), "something was left running"


def _is_a_fresh_child(pid: int) -> bool:
    """Not sealed yet (it waits), or about to be gone."""
    return status_of(pid).get("Seccomp", "0") == "0" or not children_of(pid)


async def test_results_are_not_forged(code: Coding):
    for body in (
        "}); globalThis.forged = 1; (async function () {",
        "JSON.stringify = () => '{\"forged\": 1}'; return NaN",
        "Object.prototype.toJSON = () => NaN; return {}",
    ):
        assert isinstance(await code.failure("javascript", body), NodeFailure)
    # It may spoil what is its own: its value is then what its own prototype made of it, and still JSON.
    assert await code.run("javascript", "Object.prototype.toJSON = () => 7; return {a: 1}") == 7


# -- the same attacks without a sandbox, and without the language's wall -------------------------


async def _naively(
    how: str, body: str, *, memory_mb: int, seconds: float, until_left: bool = False
) -> tuple[str, int | None, set[int]]:
    """What the program showed, how it ended (None: it did not), and the processes that it left.

    It is watched for so many seconds at most; with `until_left` no longer than until it has started a process.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(NAIVE), how, str(memory_mb),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True, env={} if how == "sealed" else {**os.environ},  # as a fork server has none
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(body.encode("utf-8", "surrogatepass"))
    process.stdin.close()
    waiting = asyncio.ensure_future(process.wait())
    give_up_at = time.monotonic() + seconds
    while not waiting.done() and time.monotonic() < give_up_at:
        if until_left and not is_alive(process.pid) and _of_session(process.pid):
            break
        await asyncio.wait([waiting], timeout=LOOK_SECONDS if until_left else seconds)
    ended = waiting.result() if waiting.done() else None
    left = _of_session(process.pid) - {process.pid}
    for pid in {*left, process.pid}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    shown = (await process.stdout.read()).decode("utf-8", "replace")
    await waiting
    return shown, ended, {pid for pid in left if pid}


def _of_session(session: int) -> set[int]:
    found = set()
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(folder.name)) == session and is_alive(int(folder.name)):
                found.add(int(folder.name))
    return found


# How long naive code is watched before it counts as one that does not come back.
NAIVE_SECONDS = {"read": 5.0, "write": 5.0, "reach": 5.0, "process": 10.0, "hang": 0.5, "memory": 1.5, "result": 1.5}
LOOK_SECONDS = 0.05
NAIVE_MEMORY_MB = 500
NAIVE_AT_ONCE = {"hang": 6, "memory": 3, "result": 3}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("language", "harm"), CLASSES)
async def test_each_attack_does_harm_to_code_that_is_not_sandboxed(scene: Scene, language: str, harm: str):
    # What is looked for is one place for all, so those that touch it go one by one.
    slots = asyncio.Semaphore(NAIVE_AT_ONCE.get(harm, 1))

    async def is_harmless(attack: Attack) -> bool:
        body = scene.staged(attack)
        if "getppid" in body:
            return False  # its parent would be us
        async with slots:
            shown, ended, left = await _naively(
                language,
                body,
                memory_mb=NAIVE_MEMORY_MB,
                seconds=NAIVE_SECONDS[harm],
                until_left=harm == "process",
            )
            return not _did_harm(harm, body, shown, ended, left, scene)

    attacks = _chosen(language, harm)
    answers = await asyncio.gather(*map(is_harmless, attacks))
    harmless = [attack.body for attack, answer in zip(attacks, answers, strict=True) if answer]
    assert harmless == [], "these prove nothing"


def _did_harm(harm: str, body: str, shown: str, ended: int | None, left: set[int], scene: Scene) -> bool:
    match harm:
        case "hang":
            return ended is None
        case "memory":  # it wanted more than there was, or was still at it
            return ended != 0 or "out of memory" in shown or "string too long" in shown or "thrown null" in shown
        case "process":
            return bool(left)
        case "result":
            return ended != 0 or not _is_its_own_value(body, shown)
        case _:
            return harm in scene.harm_seen(shown)


def _is_its_own_value(body: str, shown: str) -> bool:
    """Is it JSON that may be stored, and what the code returned?"""
    text = shown.rsplit(" ", 1)[0] if shown.endswith(" undefined") else shown

    def refuse_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    try:
        value = Payload.of(json.loads(text, object_pairs_hook=refuse_repeated_keys)).value
    except (ValueError, AssertionError, RecursionError, ValueNotStorable, ValueTooLarge):
        return False
    return value is not None and "forged" not in shown and not (body.endswith("return 2") and value != 2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("harm", ["read", "write", "reach", "process"])
async def test_the_operating_systems_wall_holds_alone(scene: Scene, harm: str):
    failures = []
    for attack in _chosen("python", harm):
        shown, ended, left = await _naively("sealed", scene.staged(attack), memory_mb=1_000, seconds=5)
        if ended is None:
            failures.append((attack.body, "did not end"))
        if left or scene.harm_seen(shown):
            failures.append((attack.body, shown, left))
    assert failures == []


SIGNALS = "import os, signal\ntry:\n    os.kill({}, 0)\nexcept OSError as e:\n    return e.errno\nreturn 'sent'"


async def test_past_the_operating_systems_wall_no_signal_can_be_sent():
    for target in ("os.getppid()", "-1", "1", "os.getpid()"):
        shown, _, _ = await _naively("sealed", SIGNALS.format(target), memory_mb=1_000, seconds=5)
        assert shown == "1", (target, shown)


async def test_past_the_operating_systems_wall_code_still_runs():
    assert await _naively("sealed", "return sum(x * x for x in range(10))", memory_mb=1_000, seconds=5) == (
        "285",
        0,
        set(),
    )
