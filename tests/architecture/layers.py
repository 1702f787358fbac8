"""The layers, and the rules that hold them up.

A component may import only what stands behind its name in `MAY_IMPORT`; a component that is not listed is
refused until somebody decides where it stands, and so is a permission that nobody uses. After a change here,
`python -m tests.architecture.picture` draws the picture in `docs/architecture.md` anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.architecture.reading import Source

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    # -- programs -------------------------------------------------------------------------
    "__main__": (),
    "cli.entry": ("cli", "errors"),
    # found by name (cli/lazy_commands.py); those of a side concern are in its folder
    "commands": (
        "app",
        "app_services",
        "audit",
        "backups",
        "cli",
        "client",
        "engine.rules",
        "errors",
        "gallery",
        "histories",
        "json_input",
        "keys",
        "migrations",
        "n8n",
        "ports of side concerns",
        "process",
        "rest",
        "run_requests",
        "secrets",
        "service",
        "settings",
        "triggers",
    ),
    "cli": (
        "app",
        "app_services",
        "durable",
        "engine.rules",
        "errors",
        "handlers",
        "histories",
        "json_input",
        "keys",
        "migrations",
        "queries.saved",
        "run_requests",
        "client",
        "client.local",
        "secrets",
        "service",
        "settings",
        "version",
    ),
    # what a process that stays does from its start to its end
    "process": ("app", "app_services", "errors", "grace", "rest", "service", "sockets"),
    # the public API: what users of the library import
    "": (
        "client.client",
        "client.sync_client",
        "durable",
        "durable.step_error",
        "engine.handler_contract",
        "errors",
        "handlers",
        "version",
        "worker",
    ),
    # the embedded process: `app` with a handle to it, for programs that import us
    "worker": ("app", "app_services", "durable", "grace", "settings"),
    # a client of a server needs no engine and no database; what opens a database is imported when one is opened
    "client.sync_client": ("client.client", "errors", "run_requests"),
    "client.client": ("client", "client.local", "engine.rules", "errors", "run_requests"),
    "client.local": (
        "bulk",
        "app",
        "app_services",
        "client",
        "engine.rules",
        "errors",
        "run_requests",
        "service",
        "settings",
        "engine.console",
    ),
    "client": ("engine.rules", "errors", "run_requests", "settings"),
    # for tests of node types and programs: a handler alone, as the engine would run it; a store without a database
    "testing": (
        "engine",
        "engine.handler_contract",
        "engine.ports",
        "engine.rules",
        "engine.store",
        "errors",
        "handlers",
        "handlers.types.http_port",
        "json_input",
    ),
    # -- the composition root, and the APIs -----------------------------------------------
    "app": (
        "bulk",
        "forks",
        "app_services",
        "audit",
        "backups",
        "drafts",
        "durable",
        "egress",
        "engine",
        "engine.handler_contract",
        "engine.periodic_poller",
        "engine.ports",
        "engine.store",
        "engine.telemetry",
        "errors",
        "grace",
        "handlers",
        "imports",
        "keys",
        "migrations",
        "queries",
        "queries.saved",
        "secrets",
        "service",
        "settings",
        "transport",
        "tables of side concerns",
        "telemetry",
        "triggers",
        "engine.console",
        "version",
        "ports of side concerns",
    ),
    "rest": (
        "bulk",
        "app_services",
        "engine.ports",
        "engine.rules",
        "errors",
        "gallery",
        "json_input",
        "keys",
        "pages",
        "run_requests",
        "rest.bodies",
        "rest.etags",
        "rest.lists",
        "rest.models",
        "rest.routes.route",
        "routes of side concerns",
        "service",
        "telemetry",
        "version",
        "engine.console",
        "triggers",
    ),
    "routes of side concerns": (
        "drafts",
        "engine.rules",
        "errors",
        "keys",
        "ports of side concerns",
        "rest.bodies",
        "rest.etags",
        "rest.lists",
        "rest.models",
        "rest.routes.route",
        "secrets",
        "service",
        "triggers",
    ),
    "rest.etags": (),
    "rest.bodies": ("engine.rules", "errors", "json_input", "rest.routes.route"),
    "rest.routes.route": ("app_services", "errors", "keys"),
    "rest.lists": ("rest.models", "service"),
    "rest.models": ("engine.rules", "keys", "run_requests", "service"),
    "pages": (),
    "sockets": (
        "engine",
        "engine.periodic_poller",
        "engine.ports",
        "engine.rules",
        "errors",
        "keys",
        "service",
        "token_bucket",
        "engine.console",
    ),
    # templates of workflows, for commands and pages
    "gallery": ("errors",),
    "app_services": (
        "bulk",
        "forks",
        "audit",
        "drafts",
        "engine",
        "engine.rules",
        "imports",
        "keys",
        "ports of side concerns",
        "queries.saved",
        "secrets",
        "service",
        "telemetry",
        "triggers",
    ),
    # -- side concerns: what is kept beside runs; every folder has its port, table, verbs, routes and commands ----
    "audit": ("errors", "ports of side concerns"),
    # a draft is published as any version is saved
    "drafts": ("engine.ports", "engine.rules", "errors", "json_input", "ports of side concerns", "service"),
    "imports": ("drafts", "engine.rules", "errors", "n8n", "ports of side concerns"),
    # pure: exports of n8n as documents of ours
    "n8n": ("engine.rules", "errors"),
    # the names only: what a dead letter is, is a port
    "dead_letters": (),
    "variables": (),
    "keys": ("engine.rules", "errors", "ports of side concerns"),
    "secrets": ("engine.rules", "errors", "ports of side concerns"),
    # SQL is judged before it is saved, with the eyes of what will run it
    "queries.saved": ("engine.rules", "errors", "ports of side concerns", "queries", "service"),
    "queries": ("errors", "ports of side concerns"),
    "triggers": (
        "engine.periodic_poller",
        "engine.ports",
        "engine.rules",
        "errors",
        "json_input",
        "ports of side concerns",
        "run_requests",
        "service",
        "token_bucket",
        "terms of triggers",
    ),
    # what schedules and topics are written with: cron expressions, intervals, patterns
    "terms of triggers": (),
    "tables of side concerns": (
        "audit.audit_recording",
        "engine.ports",
        "engine.store",
        "errors",
        "engine.rules",
        "ports of side concerns",
        "schema of side concerns",
        "terms of triggers",
    ),
    # called inside transactions of the store and of all tables
    "audit.audit_recording": ("ports of side concerns", "schema of side concerns"),
    "recording of triggers": (
        "engine.rules",
        "engine.store.schema",
        "errors",
        "ports of side concerns",
        "schema of side concerns",
        "terms of triggers",
    ),
    "schema of side concerns": ("engine.store.columns",),
    "ports of side concerns": ("engine.ports", "engine.rules", "errors"),
    # -- workflows: the verbs, the coded ones, the engine ---------------------------------
    "service": (
        "engine",
        "engine.handler_contract",
        "engine.periodic_poller",
        "engine.ports",
        "engine.rules",
        "engine.store",
        "errors",
        "ports of side concerns",
        "run_requests",
        "engine.console",
    ),
    # recorded runs apart from any engine: checked against their definitions, replayed on others
    "histories": ("durable", "engine.rules", "errors"),
    # copies of a database, and what becomes of its runs after a restore
    "backups": ("engine", "engine.handler_contract", "engine.ports", "engine.rules", "engine.store", "errors"),
    # one action on many runs: a coded workflow of the system's own
    "bulk": ("durable", "engine.ports", "engine.rules", "errors", "run_requests", "service"),
    # forks; the dry run of a coded one calls its function, here or in a run of the system's own
    "forks": ("durable", "engine.ports", "engine.rules", "errors", "run_requests", "service"),
    # what is asked about runs: the same for clients and for the service
    "run_requests": ("engine.rules", "errors"),
    "durable": (
        "durable.step_error",
        "engine",
        "engine.handler_contract",
        "engine.ports",
        "engine.queues",
        "engine.rules",
        "engine.telemetry",
        "errors",
        "engine.console",
        "engine.tracebacks",
    ),
    "durable.step_error": (),
    # fed by the engine, read by the process's APIs; the SDK of OpenTelemetry is in `telemetry.otlp` alone
    "telemetry": ("engine.handler_contract", "engine.rules", "engine.telemetry", "version"),
    # the shell; a store reaches it through engine.ports only
    "engine": (
        "engine.handler_contract",
        "engine.hints.hint_line",
        "engine.periodic_poller",
        "engine.ports",
        "engine.queues",
        "engine.rules",
        "engine.telemetry",
        "engine.threads",
        "errors",
        "grace",
        "engine.console",
        "engine.tracebacks",
    ),
    "engine.queues": ("engine.ports", "engine.rules"),
    # node jobs between processes: an executor has an engine's task worker, and no store
    "transport": (
        "engine",
        "engine.console",
        "engine.handler_contract",
        "engine.queues",
        "engine.rules",
        "errors",
        "grace",
        "handlers",
        "ports of side concerns",
        "secrets",
        "engine.periodic_poller",
    ),
    "engine.periodic_poller": ("errors",),
    "engine.telemetry": ("engine.rules",),
    # leaves: they know the interfaces and nobody's inside
    # (what servers answer is JSON from outside, and comes in by the API for it)
    "handlers": (
        "engine.handler_contract",
        "engine.rules",
        "errors",
        "handlers.sandbox.inside",
        "handlers.types.http_port",
        "json_input",
        "terms of triggers",
    ),
    # how requests leave the machine: the client that sends them implements it
    "handlers.types.http_port": (),
    # the sealed processes load these files into a bare interpreter: nothing else of ours may be there
    "handlers.sandbox.inside": (),
    "engine.handler_contract": ("engine.console", "engine.rules", "engine.threads"),
    # what code of users says: its loggers and prints, and who collects and keeps that
    "engine.console": ("engine.rules", "engine.tracebacks", "errors"),
    "engine.tracebacks": ("errors",),
    "engine.threads": (),
    "egress": ("errors", "handlers.types.http_port"),
    "json_input": ("engine.rules", "errors"),
    "token_bucket": (),
    "settings": ("engine.rules", "errors"),
    # the scripts know the tables; whoever runs them knows how each database is opened
    "migrations": ("engine.store", "engine.store.schema", "errors"),
    "migrations.versions": (),
    "engine.store": (
        "audit.audit_recording",
        "recording of triggers",
        "engine.hints.hint_line",
        "engine.ports",
        "engine.rules",
        "engine.store.schema",
        "errors",
        "engine.console",
    ),
    "engine.store.schema": ("engine.rules", "engine.store.columns", "schema of side concerns"),
    "engine.store.columns": (),
    "engine.hints.hint_line": ("engine.ports",),
    # the pure core, and the interfaces between the shell and the world
    "engine.ports": ("engine.rules",),
    "engine.rules": ("errors",),
    "errors": (),
    "version": (),
    "deferred": (),
    # dataclasses, for every module that has some
    "dataclass": (),
    # the countdown of a process that stops, for every part of its end
    "grace": (),
}

# The components from the outside inwards, as the picture groups them.
LAYERS: dict[str, tuple[str, ...]] = {
    "programs": ("__main__", "cli.entry", "commands", "cli", "process", "testing"),
    "for programs that import us": (
        "",
        "worker",
        "client.sync_client",
        "client.client",
        "client.local",
        "client",
    ),
    "composition root and APIs": (
        "app",
        "rest",
        "rest.etags",
        "routes of side concerns",
        "rest.bodies",
        "rest.routes.route",
        "rest.lists",
        "rest.models",
        "pages",
        "sockets",
        "app_services",
        "gallery",
    ),
    "side concerns": (
        "audit",
        "dead_letters",
        "drafts",
        "imports",
        "keys",
        "secrets",
        "transport",
        "queries.saved",
        "queries",
        "triggers",
        "variables",
        "tables of side concerns",
        "audit.audit_recording",
        "recording of triggers",
        "schema of side concerns",
        "ports of side concerns",
        "terms of triggers",
    ),
    "other tools": ("n8n",),
    "workflows and runs": (
        "service",
        "backups",
        "bulk",
        "forks",
        "histories",
        "durable",
        "durable.step_error",
        "run_requests",
    ),
    "node types": (
        "handlers",
        "handlers.sandbox.inside",
        "egress",
        "handlers.types.http_port",
        "json_input",
        "token_bucket",
    ),
    "engine": (
        "telemetry",
        "engine",
        "engine.queues",
        "engine.periodic_poller",
        "engine.telemetry",
        "engine.handler_contract",
        "engine.console",
        "engine.tracebacks",
        "engine.threads",
    ),
    "database": (
        "migrations",
        "migrations.versions",
        "engine.store",
        "engine.store.schema",
        "engine.store.columns",
        "engine.hints.hint_line",
    ),
    "core": ("settings", "engine.ports", "engine.rules", "errors", "version", "deferred", "dataclass", "grace"),
}

# Components that are files of several folders.
GROUPS: dict[str, tuple[str, ...]] = {
    "commands": (
        "cli.commands",
        "audit.audit_commands",
        "dead_letters.dead_letter_commands",
        "backups.backup_commands",
        "imports.import_commands",
        "keys.key_commands",
        "queries.saved.query_commands",
        "queries.saved.source_commands",
        "secrets.secret_commands",
        "triggers.schedules.schedule_commands",
        "triggers.topics.topic_commands",
        "variables.variable_commands",
    ),
    "cli.entry": ("cli.entry", "cli.lazy_commands"),
    "routes of side concerns": (
        "audit.audit_routes",
        "dead_letters.dead_letter_routes",
        "drafts.draft_routes",
        "imports.import_routes",
        "keys.key_routes",
        "queries.saved.query_routes",
        "secrets.job_config_routes",
        "secrets.secret_routes",
        "triggers.schedules.schedule_routes",
        "triggers.topics.topic_routes",
        "triggers.trigger_routes",
        "triggers.webhooks.webhook_routes",
        "variables.variable_routes",
    ),
    "tables of side concerns": (
        "audit.audit_table",
        "dead_letters.dead_letter_table",
        "drafts.draft_table",
        "keys.key_table",
        "queries.saved.query_tables",
        "secrets.renewed_table",
        "secrets.secret_table",
        "triggers.schedules.schedule_table",
        "triggers.topics.topic_tables",
        "triggers.trigger_table",
        "variables.variable_table",
    ),
    "schema of side concerns": (
        "audit.audit_schema",
        "dead_letters.dead_letter_schema",
        "drafts.draft_schema",
        "keys.key_schema",
        "queries.saved.query_schema",
        "secrets.renewed_schema",
        "secrets.secret_schema",
        "triggers.topics.topic_schema",
        "triggers.trigger_schema",
        "variables.variable_schema",
    ),
    "recording of triggers": ("triggers.arming", "triggers.failure_recording"),
    "terms of triggers": ("triggers.schedules.occurrences", "triggers.topics.topic_patterns"),
    "ports of side concerns": (
        "audit.audit_trail",
        "audit.counted_entries",
        "dead_letters.dead_letters",
        "drafts.saved_drafts",
        "keys.api_keys",
        "queries.saved.saved_queries",
        "secrets.sealed_secrets",
        "triggers.armed_triggers",
        "triggers.schedules.saved_schedules",
        "triggers.topics.saved_topics",
        "variables.saved_variables",
    ),
}

_COMPONENT_OF = {name: name for name in MAY_IMPORT if name not in GROUPS} | {
    prefix: name for name, prefixes in GROUPS.items() for prefix in prefixes
}

_DATABASE_MODULES = ("sqlalchemy", "sqlite3", "psycopg", "alembic", "pymysql", "aiosqlite", "asyncpg")
_DATABASE_COMPONENTS = (
    "audit.audit_recording",
    "recording of triggers",
    "engine.store",
    "engine.store.schema",
    "engine.store.columns",
    "migrations",
    "migrations.versions",
    "queries",
    "schema of side concerns",
    "tables of side concerns",
)
_IMPURE_MODULES = ("asyncio", "time", "random", "secrets", "uuid", "logging", "os", "io", "pathlib", "socket",
                   "subprocess", "threading", "tempfile", "sys", "warnings")  # fmt: skip
_IMPURE_NAMES = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "print")
_UNSAFE_MODULES = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle")
_SQL = re.compile(
    r"\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s.+\sSET\s|DELETE\s+FROM\s|PRAGMA\s+\w"
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|UNIQUE|VIEW)\b|WITH\s+\w+\s+AS\s*\()",
    re.DOTALL,
)

_ONLY_A_REFERENCE = re.compile(r"See (also )?`?[\w.]+`?\.?\s*")

# Their public methods are called from other components, as those of ports are.
_OF_VERBS = ("service", "engine.store", "tables of side concerns", "audit", "drafts", "keys", "queries.saved",
             "secrets", "triggers")  # fmt: skip

# Five: what a caller can still keep apart, and every implementation repeats all of them.
PORT_PARAMETERS_MAX = 5

Rule = Callable[[Source, frozenset[str]], Iterator[tuple[int, str]]]


def judge(source: Source, known_modules: frozenset[str] = frozenset()) -> list[str]:
    """Every violation in a file as `module:line: what, and where the code belongs`; empty if all is well."""
    return [f"{source.module}:{line}: {what}" for rule in RULES for line, what in rule(source, known_modules)]


def component_of(module: str) -> str | None:
    """The component that a module of ours belongs to: the longest listed name that it begins with. None: not listed."""
    inside = module.removeprefix("anabranch").removeprefix(".")
    parts = inside.split(".") if inside else []
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((_COMPONENT_OF[prefix] for prefix in prefixes if prefix in _COMPONENT_OF), None if inside else "")


def _nothing_imports_upward(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    component = component_of(source.module)
    if component is None:
        yield 1, "a component that the picture does not show: list it in MAY_IMPORT of tests/architecture/layers.py"
        return
    for used in source.imports(known_modules):
        if used.module.startswith("."):
            yield used.line, "a relative import: write the whole name, so that a reader sees which layer it is"
        elif used.module.split(".")[0] == "anabranch":
            target = component_of(used.module)
            if target not in (component, "deferred", "dataclass", *MAY_IMPORT[component]):
                allowed = ", ".join(MAY_IMPORT[component]) or "nothing of ours"
                yield (
                    used.line,
                    (
                        f"layers: {component or 'anabranch/__init__'} may not import {used.module}; it may import"
                        f" {allowed}. Move the code to the lower module, or let app.py hand it in"
                        " through a Protocol of ports.py"
                    ),
                )


def _no_import_hides_in_a_function(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    for used in source.imports(known_modules):
        if used.inside_function:
            yield used.line, f"local import of {used.module}: it belongs at the top; if that is a cycle, move the code"


def _sql_stays_in_the_stores(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    if component_of(source.module) in _DATABASE_COMPONENTS:
        return
    where = "statements belong in engine/store/sql/statements.py (or migrations), behind a method of the Store port"
    for used in source.imports(known_modules):
        if used.module.split(".")[0] in _DATABASE_MODULES:
            yield used.line, f"SQL: {used.module} is imported outside the store; {where}"
    for text, line in source.texts():
        if _SQL.match(text):
            yield line, f"SQL: {text.strip()[:40]!r} looks like a statement; {where}"


def _rules_are_pure(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    if component_of(source.module) != "engine.rules":
        return
    where = "time, ids, dice and I/O are arguments; the doing belongs in the shell (engine/)"
    for used in source.imports(known_modules):
        if used.module.split(".")[0] in _IMPURE_MODULES:
            yield used.line, f"pure rules: {used.module} is imported; {where}"
    for name, line in source.dotted_names():
        if name in _IMPURE_NAMES or name.endswith(tuple(f".{impure}" for impure in _IMPURE_NAMES if "." in impure)):
            yield line, f"pure rules: {name} is used; {where}"
    for line in source.awaits():
        yield line, f"pure rules: something is awaited; {where}"


def _nothing_is_unpickled(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    for used in source.imports(known_modules):
        if used.module.split(".")[0] in _UNSAFE_MODULES:
            yield (
                used.line,
                f"safety: {used.module} runs what it reads; stored values are JSON (engine/rules/values.py)",
            )


def _dataclasses_are_our_own(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    if component_of(source.module) in ("dataclass", "handlers.sandbox.inside"):  # the sandbox imports nothing of ours
        return
    imported = [line for name, line in source.names_from("dataclasses") if name == "dataclass"]
    read = [line for name, line in source.dotted_names() if name == "dataclasses.dataclass"]
    for line in imported + read:
        yield line, "dataclasses: take `dataclass` from anabranch.dataclass, where a class costs less to define"


def _docstrings_say_something(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    for text, line in source.docstrings():
        if _ONLY_A_REFERENCE.fullmatch(text):
            yield line, f"docstring: {text!r} only names another one; leave it out, or say what is special here"


def _ports_take_few_parameters(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    verbs = source.public_methods() if component_of(source.module) in _OF_VERBS else source.methods_of_protocols()
    for function in verbs:
        count = len(function.parameters)
        if count > PORT_PARAMETERS_MAX:
            yield (
                function.line,
                (
                    f"ports: {function.name} takes {count} parameters besides self, {PORT_PARAMETERS_MAX} are enough;"
                    " make a frozen dataclass of those that belong together, as ClaimRequest is"
                ),
            )


RULES: tuple[Rule, ...] = (
    _nothing_imports_upward,
    _no_import_hides_in_a_function,
    _sql_stays_in_the_stores,
    _rules_are_pure,
    _nothing_is_unpickled,
    _dataclasses_are_our_own,
    _docstrings_say_something,
    _ports_take_few_parameters,
)
