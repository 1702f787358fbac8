"""What every room of the tests may ask for: databases that are new for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.migrations import upgrade
from tests.postgres import PostgresServer, running_postgres
from tests.tools import skipped_for_lack_of_a_tool


def pytest_configure(config: pytest.Config) -> None:
    """Make our own marks known."""
    config.addinivalue_line("markers", "only_on(*backends, because): a promise that only these stores can show")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A test that the machine could not run is named, with the reason: a letter in a row of dots is overlooked."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if skipped_for_lack_of_a_tool(report)]
    if skipped:
        terminalreporter.section("this machine could not run", yellow=True, bold=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longreprtext}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for the whole run, started when the first test asks."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a PostgreSQL database without any table."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a PostgreSQL database with the current schema and no rows."""
    url = postgres_server.take_migrated(upgrade)
    yield url
    postgres_server.give_back(url)
