"""The broker of this folder's tests, and its executors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.rabbitmq import RabbitMQ, running_rabbitmq
from tests.tools import Kind, found_or_skip, rabbitmq
from tests.transport import pool_nodes

FOLDER = Path(pool_nodes.__file__).parents[2]
"""Where executors find the module by its name."""


@pytest.fixture(scope="session")
def broker() -> Iterator[RabbitMQ]:
    found_or_skip(Kind.RABBITMQ, rabbitmq)
    with running_rabbitmq() as running:
        yield running


class Executors:
    """Executor processes of a broker; all are ended with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    async def start(self, url: str, pool: str, **settings: str) -> subprocess.Popen[str]:
        """One more process; returns once it takes jobs."""
        process = await asyncio.to_thread(self._start, url, pool, settings)
        assert process.stdout is not None
        said = [await asyncio.to_thread(process.stdout.readline)]
        while said[-1] and not said[-1].startswith("executor "):  # a job that waited for it may be quicker
            said.append(await asyncio.to_thread(process.stdout.readline))
        assert said[-1].endswith(f"takes jobs of {pool}\n"), said
        return process

    def _start(self, url: str, pool: str, settings: Mapping[str, str]) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
        command = [
            "-m",
            "anabranch",
            "executor",
            "--pools",
            pool,
            "--concurrency",
            "8",
            "--import",
            pool_nodes.__name__,
        ]
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environ | {"ANABRANCH_BROKER_URL": url, "PYTHONPATH": str(FOLDER), **settings},
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def executors(tmp_path: Path) -> Iterator[Executors]:
    running = Executors(tmp_path)
    yield running
    running.end()
