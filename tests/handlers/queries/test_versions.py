"""Roles are judged alike by the oldest and the newest PostgreSQL that tests can have; 16 has the other tests."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from anabranch.errors import NodeFailure
from anabranch.queries.driver_process import DriverProcess
from anabranch.queries.drivers.driver_requests import DatabaseTarget
from anabranch.queries.lexing import SourceKind
from anabranch.queries.limits import Limits
from anabranch.queries.query_faults import Mask
from anabranch.queries.query_session import QueryExecution
from anabranch.queries.statement import read_statement
from tests import tools
from tests.servers import running_postgresql


@pytest.fixture(scope="module", params=[15, 18])
def admin_url(request: pytest.FixtureRequest) -> Iterator[str]:
    tools.found_or_skip(tools.Kind(f"postgresql{request.param}"), lambda: tools.postgresql(request.param))
    with running_postgresql(request.param) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE app LOGIN; CREATE ROLE boss LOGIN; CREATE ROLE chief SUPERUSER")
            connection.execute("GRANT chief TO boss; CREATE ROLE files LOGIN; GRANT pg_read_server_files TO files")
        yield url


@pytest.mark.parametrize(
    ("role", "power"),
    [("app", None), ("postgres", "SUPERUSER"), ("boss", "SUPERUSER (as chief)"), ("files", "of pg_read_server_files")],
)
def test_a_role_is_judged_before_anything_runs(admin_url: str, role: str, power: str | None) -> None:
    target = DatabaseTarget(
        user=role,
        database="postgres",
        port=5432,
        socket_directory=parse_qs(urlsplit(admin_url).query)["host"][0],
        tls="disable",
        connect_timeout_ms=20_000,
    )
    statement = read_statement("SELECT current_user AS who", SourceKind.POSTGRESQL, writes=False)
    driver = DriverProcess(SourceKind.POSTGRESQL, target, Mask([]))
    try:
        answer = driver.run(QueryExecution(statement, {}, writes=False, timeout_ms=20_000, limits=Limits()))
        assert power is None and answer.rows == [{"who": "app"}]
    except NodeFailure as failure:
        assert power is not None and power in str(failure)
        assert failure.code == "SOURCE_TOO_POWERFUL"
    finally:
        driver.close()
