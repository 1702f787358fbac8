"""A command imports what it needs: what people call often does not load the libraries of what they do not.

What is imported is looked at in processes of their own, not timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from anabranch.version import __version__
from tests.cli.conftest import GREETING, Command, Write

# Runs commands one after the other in one process, and tells which modules are loaded then.
PROGRAM = """
import json, sys
from anabranch.cli.entry import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as leaving:
        assert leaving.code == 0, (arguments, leaving.code)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

NEVER_FOR_READING = (
    "aiohttp",
    "alembic",
    "cmarkgfm",
    "cryptography",
    "cssselect",
    "jsonschema",
    "lxml",
    "prometheus_client",
    "psycopg",
    "rich",
    "socketio",
    "tree_sitter",
)


ONE_NODE = {"name": "one", "nodes": [{"id": "start", "type": "start"}], "edges": []}


def modules_after(folder: Path, *commands: Sequence[str]) -> set[str]:
    """What a process has loaded that has given these commands; all of them must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_version_is_told_without_anything_of_the_engine(folder: Path) -> None:
    loaded = modules_after(folder, ["version"], ["version", "--json"])

    assert loaded.isdisjoint({*NEVER_FOR_READING, "asyncio", "jinja2", "sqlalchemy", "anabranch.app"})


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_version_alone_is_told_without_what_parses_command_lines(folder: Path, form: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "anabranch", "version", *form],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert "anabranch.version" in loaded
    assert loaded.isdisjoint({"anabranch.cli.entry", "asyncio", "importlib.metadata", "logging", "pydantic", "typer"})
    assert __version__ in done.stdout


@pytest.mark.parametrize("form", ["", " --json"])
def test_a_version_that_nobody_reads_is_no_traceback(form: str) -> None:
    command = f"{sys.executable} -m anabranch version{form}"
    for target, told in (("> /dev/full", "cannot be written: No space left on device"), ("| true", "")):
        done = subprocess.run(["bash", "-c", f"{command} {target}"], capture_output=True, text=True, check=False)
        assert (told in done.stderr, "Traceback" in done.stderr) == (True, False), done.stderr


def test_help_loads_no_command_s_libraries(folder: Path) -> None:
    loaded = modules_after(folder, ["runs", "--help"], ["keys", "list", "--help"])

    assert loaded.isdisjoint({*NEVER_FOR_READING, "jinja2", "sqlalchemy", "anabranch.app"} - {"rich"})


def test_reading_a_database_loads_neither_servers_nor_other_databases(
    anabranch: Command, write: Write, folder: Path
) -> None:
    write("greeting.json", GREETING)
    run_id = anabranch("run", "greeting.json", "--input", '{"name": "Ada"}', "--json").document["instanceID"]

    loaded = modules_after(
        folder,
        ["runs", "list"],
        ["runs", "show", run_id],
        ["runs", "log", run_id],
        ["runs", "watch", run_id],
        ["workflows", "list"],
        ["workflows", "show", "greeting"],
        ["workflows", "export", "greeting"],
        ["keys", "list"],
        ["audit"],
        ["secrets", "list"],
        ["sources", "list"],
        ["queries", "list"],
        ["schedules", "list"],
        ["topics", "list"],
        ["doctor"],
    )

    assert loaded.isdisjoint(NEVER_FOR_READING)


def test_a_first_run_loads_no_migrations_no_servers_no_other_database_and_no_services_of_apis(
    write: Write, folder: Path
) -> None:
    write("greeting.json", GREETING)

    loaded = modules_after(folder, ["run", "greeting.json", "--input", '{"name": "Ada"}'])

    assert loaded.isdisjoint(NEVER_FOR_READING)
    assert loaded.isdisjoint(
        {"fastapi", "mako", "networkx", "opentelemetry", "pygments", "sqlalchemy.dialects.postgresql"}
    )
    services = {
        name for name in loaded if name.startswith(("anabranch.rest", "anabranch.sockets", "anabranch.process"))
    }
    side_concerns = ("audit.audit_log", "drafts.draft_service", "keys.access", "triggers.topics.publisher",
                     "triggers.schedules.scheduler", "service.preview", "service.purge")  # fmt: skip
    assert not services and loaded.isdisjoint(f"anabranch.{each}" for each in side_concerns)
    types = {name.removeprefix("anabranch.handlers.types.") for name in loaded if ".handlers.types." in name}
    assert types <= {"start", "set", "end", "http_port"}


def test_a_run_of_one_node_loads_only_what_that_node_needs(write: Write, folder: Path) -> None:
    write("one.json", ONE_NODE)

    loaded = modules_after(folder, ["run", "one.json"])

    assert loaded.isdisjoint({"dotenv", "jinja2", "tomllib"})
    unused = {name for name in loaded if name.startswith("anabranch.engine.rules.repair.")}
    of_other_nodes = ("engine.rules.templates.expression", "engine.rules.templates.filters", "egress.targets",
                      "handlers.sandbox.sealed_process", "handlers.sandbox.conversation", "queries.driver_process",
                      "queries.query_execution", "queries.statement")  # fmt: skip
    of_coded_runs = ("durable.history_replay",)
    assert not unused and loaded.isdisjoint(f"anabranch.{each}" for each in (*of_other_nodes, *of_coded_runs))


def last_line_of(program: str, folder: Path) -> str:
    """What a program in a process of its own prints last."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_command_collects_rarely_and_not_when_it_ends(folder: Path) -> None:
    program = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0))\n"  # called after the others
        "import sys; sys.argv = ['anabranch', 'version']\n"
        "from anabranch.__main__ import main\n"
        "main()"
    )

    assert last_line_of(program, folder) == "200000 True"


def test_a_run_of_one_node_ends_without_a_collection(write: Write, folder: Path) -> None:
    write("one.json", ONE_NODE)
    program = (
        "import atexit, gc\n"
        "collections = lambda: sum(each['collections'] for each in gc.get_stats())\n"
        "atexit.register(lambda: print(collections() - before))\n"
        "import sys; sys.argv = ['anabranch', 'run', 'one.json']\n"
        "from anabranch.__main__ import main\n"
        "before = collections()\n"
        "main()"
    )

    assert last_line_of(program, folder) == "0"


def test_a_command_within_another_process_leaves_its_collector_alone(write: Write, folder: Path) -> None:
    write("one.json", ONE_NODE)
    program = (
        "import gc\n"
        "from contextlib import suppress\n"
        "from anabranch.cli import entry\n"
        "import sys; sys.argv = ['anabranch', 'run', 'one.json']\n"
        "with suppress(SystemExit): entry.main()\n"
        "print(gc.get_freeze_count())"
    )

    assert last_line_of(program, folder) == "0"


@pytest.mark.parametrize("name", ["anabranch", "anabranch.handlers", "anabranch.service"])
def test_every_exported_name_is_where_its_package_looks_for_it(name: str) -> None:
    package = __import__(name, fromlist=["__all__"])

    assert all(getattr(package, exported) is not None for exported in package.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        package.no_such_name  # noqa: B018
