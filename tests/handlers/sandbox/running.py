"""Jobs for the sandbox, in few words, and what is to be seen of its processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anabranch.errors import NodeFailure
from anabranch.handlers.sandbox import CodeJob, Sandbox

MEMORY_MB = {"python": 128, "javascript": 64}

LANGUAGES = ("python", "javascript")

ONE = {"python": "return ctx['n'] + 1", "javascript": "return ctx.n + 1"}
# Half a minute, only so that nothing hangs: what is waited for here takes milliseconds, and more where others work too.
PATIENCE_S = 30.0

SPIN = {"python": "while True:\n    pass", "javascript": "while (true);"}


class Coding:
    """A sandbox, and what was logged through it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.lines: list[tuple[str, str]] = []

    async def run(
        self,
        language: str,
        code: str,
        context: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 10_000,
        memory_mb: int | None = None,
        tenant_id: str = "default",
        allow_fetch: bool = False,
    ) -> Any:
        """What the code returned."""
        job = CodeJob(
            language=language,
            code=code,
            context=context or {},
            tenant_id=tenant_id,
            timeout_ms=timeout_ms,
            memory_bytes=(memory_mb or MEMORY_MB[language]) << 20,
            allow_fetch=allow_fetch,
        )
        return await self.sandbox.run(job, lambda level, text: self.lines.append((level, text)))

    async def failure(
        self, language: str, code: str, context: Mapping[str, Any] | None = None, **more: Any
    ) -> NodeFailure:
        """The failure that the code ends with."""
        try:
            value = await self.run(language, code, context, **more)
        except NodeFailure as failure:
            return failure
        raise AssertionError(f"it returned {value!r:.200}")

    async def is_sound(self, language: str) -> bool:
        """Does the next job get its value?"""
        return bool(await self.run(language, ONE[language], {"n": 1}, tenant_id="somebody else") == 2)


@asynccontextmanager
async def coding(**options: Any) -> AsyncIterator[Coding]:
    """A sandbox of one's own."""
    sandbox = Sandbox(**options)
    try:
        yield Coding(sandbox)
    finally:
        await sandbox.stop()


def children_of(pid: int) -> list[int]:
    """Process ids of the living children of a process."""
    found = []
    for folder in Path("/proc").iterdir():
        status = status_of(int(folder.name)) if folder.name.isdigit() else {}
        if status and int(status["PPid"]) == pid and not status["State"].startswith("Z"):
            found.append(int(folder.name))
    return found


def status_of(pid: int) -> dict[str, str]:
    """/proc/PID/status; empty if there is no such process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def is_alive(pid: int) -> bool:
    """Is there such a process, and not only its grave?"""
    status = status_of(pid)
    return bool(status) and not status["State"].startswith("Z")


async def until(condition: Callable[[], bool], what: str) -> None:
    """Look until it is so; what is waited for here tells nobody."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 -- processes set no events
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"it never came: {what}") from None
