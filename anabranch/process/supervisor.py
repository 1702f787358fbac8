"""Several worker processes on one machine: started together, started again when one dies, stopped together.

Called by `anabranch worker --processes N`. The supervisor opens no database and runs nothing itself: a process that is
killed takes only its own part with it. Processes die with it (on Linux also if it is killed).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import SubprocessError

# 1 s before a process that died is started again, doubled with each further death up to 1 min: a fault that lasts
# costs little, and one that passes is soon over.
RESTART_FIRST_S = 1.0
RESTART_LAST_S = 60.0

# 1 min: a process that has lived that long did not fail while starting; its next restart waits as long as the first.
SETTLED_S = 60.0

# 5 s more than the processes have by themselves; then they are killed.
KILL_AFTER_GRACE_S = 5.0

EXIT_USAGE = 2
"""The exit code of a process that cannot work before something is changed: it is not started again."""

EXIT_FAILED = 1

ENDED_IN_ORDER = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
"""How a process ends that is asked to stop; the last two while it starts, by the signal itself or because of it."""

_PR_SET_PDEATHSIG = 1


class Supervisor:
    """Keeps processes of one command running until it is asked to stop."""

    def __init__(
        self,
        command: Sequence[str],
        environments: Sequence[Mapping[str, str]],
        *,
        grace_s: float,
        output: int | None = None,
        restart_first_s: float = RESTART_FIRST_S,
    ) -> None:
        """One process for each of the `environments`. Each ends by itself within `grace_s` after SIGTERM.

        `output` is the descriptor of their standard output; by default they have that of this process.
        """
        self._command = command
        self._environments = environments
        self._grace_s = grace_s
        self._output = output
        self._restart_first_s = restart_first_s
        self._stopping = asyncio.Event()
        self._running: set[Process] = set()
        self._code = 0

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT, which are passed on as SIGTERM, and return the exit code: 0 if all processes
        ended in order, 2 if one of them cannot work before something is changed, else 1.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        try:
            async with asyncio.TaskGroup() as slots:
                for environment in self._environments:
                    slots.create_task(self._keep(environment))
                slots.create_task(self._kill_in_the_end())
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return self._code

    def _stop(self) -> None:
        """Pass the signal on. A second one also reaches the processes, which end at once then."""
        self._stopping.set()
        for process in self._running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    async def _keep(self, environment: Mapping[str, str]) -> None:
        """Run one process again and again."""
        pause_s, loop = self._restart_first_s, asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            try:
                code = await self._run_once(environment)
            except (OSError, SubprocessError) as failure:  # too many processes, or too little memory: it may pass
                code, what = EXIT_FAILED, f"could not be started ({failure})"
            else:
                what = f"ended ({_how(code)})"
            if self._stopping.is_set():
                self._code = self._code or int(code not in ENDED_IN_ORDER)
            elif code == EXIT_USAGE:
                self._code = EXIT_USAGE
                self._stop()
            else:
                pause_s = self._restart_first_s if loop.time() - began >= SETTLED_S else pause_s
                sys.stderr.write(f"warning: a worker process {what}; the next starts in {pause_s:g} s\n")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause_s)
                pause_s = min(2 * pause_s, RESTART_LAST_S)

    async def _run_once(self, environment: Mapping[str, str]) -> int:
        # A session of its own: Ctrl-C in a terminal reaches the supervisor, which passes it on once.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, **environment},
            stdout=self._output,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self._running.add(process)
        try:
            if self._stopping.is_set():  # the signal came while it was started
                process.send_signal(signal.SIGTERM)
            return await process.wait()
        finally:
            self._running.discard(process)

    async def _kill_in_the_end(self) -> None:
        """After the grace nothing is waited for."""
        await self._stopping.wait()
        until = asyncio.get_running_loop().time() + self._grace_s + KILL_AFTER_GRACE_S
        while self._running and asyncio.get_running_loop().time() < until:
            await asyncio.wait([asyncio.ensure_future(each.wait()) for each in self._running], timeout=0.1)
        for process in self._running:
            with suppress(ProcessLookupError):
                process.kill()


def _die_with_parent() -> None:
    """In the new process: SIGTERM if the supervisor is killed, so that no worker is left alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):  # most real-time signals have no name
        return signal.Signals(-code).name
    return f"signal {-code}"
