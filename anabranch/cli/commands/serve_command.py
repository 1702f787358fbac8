"""`anabranch serve`, `worker`, `executor` and `dev`: the long-running processes. Each prints one line to standard
output when it is ready, and everything else to standard error.

`anabranch.process` implements them.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from anabranch.cli.browser import open_browser
from anabranch.cli.dev_key import find_dev_key
from anabranch.cli.options import DEFAULT_TENANT, AsJson, DatabaseOptions, DatabaseUrl, Imports
from anabranch.cli.output import answers_descriptor, flush_answers, print_line, print_note
from anabranch.cli.project import Project
from anabranch.cli.sample import SAMPLE
from anabranch.cli.session import CommandSession, open_session
from anabranch.cli.user_code import import_user_code
from anabranch.deferred import deferred
from anabranch.engine.rules.graph.pools import DEFAULT_POOL
from anabranch.errors import NoApiKey
from anabranch.json_input import read_workflow_file
from anabranch.settings import ALL_POOLS, Settings, environment_name

if TYPE_CHECKING:
    from anabranch import app, process
    from anabranch.app import App
    from anabranch.app_services import AppServices
    from anabranch.keys import access
else:
    app = deferred("anabranch.app")
    process = deferred("anabranch.process")
    access = deferred("anabranch.keys.access")

Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Listen here; else ANABRANCH_HOST, else 127.0.0.1.")
]
Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65_535, help="Listen on this port, 0: a free one; else ANABRANCH_PORT."),
]

Active = Annotated[
    bool,
    typer.Option("--active", help="Let starts take the versions of the imported code, also older ones (a rollback)."),
]


def serve(
    *,
    host: Host = None,
    port: Port = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Answer requests only; `anabranch worker` processes run the nodes.")
    ] = False,
    imports: Imports = None,
    active: Active = False,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Serve the REST API, and run workflows, until SIGTERM or Ctrl-C. Exits 0 once its runs are handed over."""
    session = _open(host=host, port=port, imports=imports, database_url=database_url, active=active or None)
    settings, application = session.settings, app.build(session.settings)
    has_keys = asyncio.run(_has_keys(application))
    if not has_keys and not process.is_loopback(settings.host):
        raise NoApiKey(f"there is no API key yet, and {settings.host} is not only this machine")
    listener = process.bind(settings.host, settings.port)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})  # port 0 was a free one

    async def ready(services: AppServices) -> None:
        url = process.url_of(listener)
        _print_ready(f"anabranch serves {url}", {"url": url}, as_json=as_json)
        if not has_keys:
            print_note(f"there is no API key yet. {NoApiKey.hint}")

    process.run(process.live(application, works=not no_worker, listener=listener, ready=ready))


def worker(
    *,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65_535,
            help="Serve /metrics, /healthz and /readyz on this port, 0: a free one; else ANABRANCH_METRICS_PORT.",
        ),
    ] = None,
    pools: Annotated[
        str | None,
        typer.Option("--pools", metavar="NAMES", help="Serve these pools; else ANABRANCH_POOLS, else default."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, max=256, help="How many processes to run; else ANABRANCH_PROCESSES, else 1."
        ),
    ] = None,
    imports: Imports = None,
    active: Active = False,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Run workflows, without a port, until SIGTERM or Ctrl-C. Exits 0 once its runs are handed over.

    With several processes each prints its line when it is ready; one that dies is started again.
    """
    chosen = Settings.load(database_url=database_url, metrics_port=metrics_port, processes=processes, pools=pools)
    if chosen.processes > 1:
        raise typer.Exit(_supervise(chosen, imports=imports or (), pools=pools, active=active, as_json=as_json))
    session = _open(
        imports=imports, database_url=database_url, metrics_port=metrics_port, active=active or None, pools=pools
    )
    settings = session.settings
    listener = None if settings.metrics_port is None else process.bind(settings.host, settings.metrics_port)

    async def ready(services: AppServices) -> None:
        worker_id = services.engine.worker_id
        document, where = {"worker": worker_id}, ""
        if listener is not None:
            document["url"] = process.url_of(listener)
            where = f", watched at {document['url']}metrics"
        _print_ready(f"worker {worker_id} is ready{where}", document, as_json=as_json)

    process.run(process.live(app.build(settings), works=True, listener=listener, apis=process.health_api, ready=ready))


def _supervise(settings: Settings, *, imports: Sequence[str], pools: str | None, active: bool, as_json: bool) -> int:
    """Run several workers as processes of their own; the exit code."""
    command = [sys.executable, "-m", "anabranch", "worker", "--processes", "1"]
    command += [part for name in imports for part in ("--import", name)]
    command += [flag for flag, is_set in (("--active", active), ("--json", as_json)) if is_set]
    command += [] if pools is None else ["--pools", pools]
    port = settings.metrics_port
    environments = []
    for number in range(settings.processes):
        # In the environment, because others on the machine can read a command line.
        url = environment_name("database_url")
        environment = {url: settings.database_url, f"{url}_FILE": ""}
        if port is not None:
            environment[environment_name("metrics_port")] = str(port + number if port else 0)
        environments.append(environment)
    flush_answers()

    async def supervised() -> int:
        grace_s = settings.grace_ms / 1000
        return await process.Supervisor(command, environments, grace_s=grace_s, output=answers_descriptor()).run()

    return asyncio.run(supervised())


def executor(
    *,
    pools: Annotated[
        str | None,
        typer.Option("--pools", metavar="NAMES", help="Take jobs of these pools; else ANABRANCH_POOLS, else default."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, max=10_000, help="Jobs at once; else ANABRANCH_CONCURRENCY, else 64."),
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Execute nodes of some pools for workers, through the broker of ANABRANCH_BROKER_URL, until SIGTERM or Ctrl-C.

    It has no database: results, lines and progress go back through the broker.
    """
    settings = Settings.load(pools=pools, concurrency=concurrency)
    modules = [import_user_code(name) for name in imports or ()]
    logging.basicConfig(stream=sys.stderr, level=settings.log_level.upper(), format="%(levelname)s %(message)s")

    def ready(name: str) -> None:
        taken = ", ".join(settings.pools)
        _print_ready(f"executor {name} takes jobs of {taken}", {"executor": name, "pools": taken}, as_json=as_json)

    process.run(process.execute(app.build(settings), modules=modules, ready=ready))


def dev(
    *,
    host: Host = None,
    port: Port = None,
    imports: Imports = None,
    active: Active = False,
    workflows: Annotated[
        list[Path] | None,
        typer.Option("--workflow", metavar="FILE", help="Save this drawn workflow at start; may be repeated."),
    ] = None,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the URL in a browser, if this is a terminal on a desktop.")
    ] = True,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Server and worker in one for your own machine: prints the URL that signs you in. SQLite in `.anabranch/`.

    In a folder with `workflows/` it loads `app.py`, `workflows/*.py` and `workflows/*.json`, and again when they
    change. On an empty database it saves a sample workflow. Its key is the same at each start.
    """
    for file in workflows or ():
        read_workflow_file(file)  # what cannot be read is refused before anything is opened
    project = Project(imports=imports or (), documents=workflows or ())
    session = _open(host=host, port=port, imports=project.code(), database_url=database_url, active=active or None)
    settings = session.settings
    listener = process.bind(settings.host, settings.port)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})  # port 0 was a free one
    key = find_dev_key() if settings.api_key is None else settings.api_key.get_secret_value()

    async def ready(services: AppServices) -> None:
        services.access.add_own_key(tenant_id=DEFAULT_TENANT, role=access.Role.ADMIN, key=key)
        notes = [] if project.drawn() else await _save_sample(services)
        for file in workflows or ():
            notes += await project.save(file, services)
        notes += await project.save_all(project.drawn(), services)
        url = process.url_of(listener, key=key)
        _print_ready(url, {"url": url, "key": key}, as_json=as_json)
        for note in notes:
            print_note(note)
        project.follow_until_stop(services, active=settings.active)
        if opens and not as_json:
            open_browser(url)

    if settings.pools == (DEFAULT_POOL,) and settings.broker_url is None:
        settings = settings.model_copy(update={"pools": ALL_POOLS})  # one process has to do everything
    if settings.metrics_names is None and process.is_loopback(settings.host):
        settings = settings.model_copy(update={"metrics_names": "all"})  # all listed workflows belong to the caller
    process.run(process.live(app.build(settings), works=True, listener=listener, makes_key=True, ready=ready))


def _open(*, imports: list[str] | None, database_url: str | None, **flags: str | int | bool | None) -> CommandSession:
    with process.ended_by_sigterm():  # while it waits for the database
        return open_session(DatabaseOptions(database_url), creates=True, imports=imports, **flags)


async def _has_keys(application: App) -> bool:
    async with application.open_access() as access:
        return await access.has_keys()


async def _save_sample(services: AppServices) -> list[str]:
    """Save a sample workflow in an empty database. Returns what to tell the user."""
    if await services.workflows.get_all_workflows(tenant_id=DEFAULT_TENANT, limit=1):
        return []
    await services.workflows.save_workflow(SAMPLE, tenant_id=DEFAULT_TENANT)
    return [f'the sample workflow {SAMPLE["name"]} is ready: start it with {{"name": "Ada"}}']


def _print_ready(line: str, document: Mapping[str, str], *, as_json: bool) -> None:
    """Print and flush the ready line, because a waiting program reads it from a pipe."""
    print_line(orjson.dumps(document).decode() if as_json else line)
    flush_answers()
