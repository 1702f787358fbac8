"""What every module of the tests may ask for: databases and stores that are new for each test."""

from __future__ import annotations

import compileall
import gc
import shutil
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from anabranch.durable.definition import DECLARED
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.handlers import registry
from anabranch.migrations import upgrade
from tests.pgbouncer import Pooler, running_pooler
from tests.postgres import PostgresServer, running_postgres
from tests.tools import Kind, found_or_skip, lacking, pgbouncer

# The same examples in every run, so that no change is blamed for what another one broke, and no limit on time: a slow
# machine is no fault. `pytest --hypothesis-profile=default` looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


PACKAGE = Path(__file__).parents[1] / "anabranch"


def pytest_configure(config: pytest.Config) -> None:
    """Make our own marks known, and compile the product once: hundreds of tests start it as a process, and where
    PYTHONDONTWRITEBYTECODE is set each would compile it anew.
    """
    config.addinivalue_line("markers", "only_on(*backends, because): a promise that only these stores can show")
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(PACKAGE, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the collection of tests be: nothing of what it makes is garbage, and looking for some takes half its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A test that the machine could not run is named, with the reason: a letter in a row of dots is overlooked."""
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = lacking(report)
        if reason is not None:
            skipped.setdefault(reason, []).append(report.nodeid)
    if skipped:
        terminalreporter.section("this machine could not run", yellow=True, bold=True)
    for reason, tests in skipped.items():
        terminalreporter.line(reason)
        for test in tests:
            terminalreporter.line(f"  {test}")


@pytest.fixture(autouse=True, scope="session")
def packages_read_once() -> Iterator[None]:
    """Which packages are installed does not change meanwhile, and reading it is a third of what a server costs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", cache(registry.entry_points))
        yield


@pytest.fixture(autouse=True, scope="module")
def memory_of_its_own() -> None:
    """Set aside what earlier files left in memory: thousands of tests leave so much that one full collection of
    garbage stops everything for most of a second, in whatever test it happens to fall.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_workflows() -> None:
    """Forget the workflows that test files have declared: what is under test registers what it finds declared.

    A test that runs one hands it to its worker by itself.
    """
    DECLARED.clear()


@pytest.fixture(autouse=True)
def own_import_path() -> Iterator[None]:
    """Forget the folders that `--import` has put on the path: the next test may have a file of the same name."""
    before = list(sys.path)
    yield
    sys.path[:] = before


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


@pytest.fixture(scope="session")
def pooler(postgres_server: PostgresServer) -> Iterator[Pooler]:
    """PgBouncer before the server of the run, lending connections by the transaction."""
    found_or_skip(Kind.PGBOUNCER, pgbouncer)
    with running_pooler(postgres_server.admin_url) as running:
        yield running


@pytest.fixture
def pooled_url(postgres_url: str, pooler: Pooler) -> str:
    """The URL, through PgBouncer, of a PostgreSQL database with the current schema and no rows."""
    return pooler.url_of(postgres_url)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database with the current schema: copying it takes a fraction of making it."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of a SQLite database with the current schema and no rows."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'tests.db')}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database with the current schema and no rows: a test that asks for it runs on both kinds."""
    return str(request.getfixturevalue("postgres_url" if request.param == "postgresql" else "sqlite_url"))


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[SqlStore]:
    """A started store on such a database."""
    store = open_store(database_url)
    await store.start()
    yield store
    await store.stop()
