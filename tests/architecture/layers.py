"""The picture of the layers, and the rules that hold it up.

A room may import only what stands behind its name in `MAY_IMPORT`; a room that is not listed is
refused until somebody decides where it stands. Change the picture here and in
`docs/architecture.md`, together and with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.architecture.reading import Source

_ENGINE = (
    "engine",
    "engine.ports",
    "engine.records.saved_queries",
    "engine.records.api_keys",
    "engine.records.audit_trail",
    "engine.records.saved_triggers",
    "engine.records.sealed_secrets",
    "engine.handling",
    "engine.telemetry",
    "engine.queues",
    "engine.rules",
    "engine.store",
    "errors",
)
_BELOW_THE_DOORS = (
    "durable",
    "triggers",
    "telemetry",
    "handlers",
    "egress",
    "queries",
    "secrets",
    "json_input",
    *_ENGINE,
)

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "version": (),
    "deferred": (),
    # the countdown of a process that stops, for every part of its end
    "grace": (),
    # what a run may be asked for is judged alike by clients and by the façade
    "request_checks": ("errors",),
    # the pure core, and the interfaces between the shell and the world
    "engine.rules": ("errors",),
    "engine.ports": ("engine.rules", "errors"),
    "engine.hints.hint_line": ("engine.ports", "engine.rules", "errors"),
    "engine.records.saved_queries": (),
    "engine.records.api_keys": ("engine.records.audit_trail",),
    "engine.records.audit_trail": (),
    "engine.records.saved_triggers": (),
    "engine.records.sealed_secrets": (),
    "engine.threads": (),
    "engine.handling": ("engine.threads", "engine.ports", "engine.rules", "errors"),
    "engine.telemetry": ("engine.rules",),
    # the shell; a store reaches it through engine.ports only
    "engine.store.schema": ("engine.rules",),
    "engine.store": (
        "engine.store.schema",
        "engine.ports",
        "engine.hints.hint_line",
        "engine.records.saved_queries",
        "engine.records.api_keys",
        "engine.records.audit_trail",
        "engine.records.saved_triggers",
        "engine.records.sealed_secrets",
        "engine.rules",
        "errors",
    ),
    "engine.queues": ("engine.ports", "engine.rules", "errors"),
    "engine": (
        "grace",
        "engine.ports",
        "engine.hints.hint_line",
        "engine.handling",
        "engine.threads",
        "engine.telemetry",
        "engine.queues",
        "engine.rules",
        "errors",
    ),
    # the scripts know the tables; whoever runs them knows how each database is opened
    "migrations.versions": ("engine.store.schema",),
    "migrations": ("engine.store", "engine.store.schema", "errors"),
    # leaves: they know the interfaces and nobody's inside
    # the sealed processes load these files into a bare interpreter: nothing else of ours may be there
    "handlers.sandbox.inside": (),
    # (what servers answer is JSON from outside, and comes in by the API for it)
    "handlers": ("handlers.sandbox.inside", "engine.ports", "engine.handling", "engine.rules", "json_input", "errors"),
    "egress": ("engine.ports", "engine.rules", "errors"),
    "queries": ("engine.records.saved_queries", "engine.rules", "errors"),
    "secrets": ("engine.records.sealed_secrets", "engine.rules", "errors"),
    "settings": ("engine.rules", "errors"),
    "json_input": ("engine.rules", "errors"),
    # upwards
    "durable": ("durable.step_error", *_ENGINE),
    # a client needs nothing of what workers need: what opens a database is imported when one is opened
    "durable.transport": (),
    "durable.step_error": (),
    "durable.client": ("durable.transport", "request_checks", "errors"),
    "durable.sync_client": ("durable.client", "errors"),
    # the embedded process: `app` with a handle to it, for programs that import us
    "durable.local": ("app", "service", "settings", "durable.transport", "engine.rules", "errors"),
    "durable.remote": ("remote", "settings", "durable.transport", "errors"),
    "durable.worker": ("app", "service", "settings", "grace", "durable"),
    "triggers": _ENGINE,
    # the façade of data looks at SQL before it is saved, with the eyes of the room that will run it
    "service": ("request_checks", "durable", "triggers", "json_input", "queries", "secrets", "telemetry", *_ENGINE),
    # fed by the engine, read by the process's APIs; the SDK of OpenTelemetry is in `telemetry.otlp` alone
    "telemetry": ("version", "engine.handling", "engine.telemetry", "engine.rules"),
    "rest": ("version", "service", "request_checks", "pages", "secrets", "json_input", "telemetry", *_ENGINE),
    "pages": (),
    # for programs that call a server: no engine, no database
    "remote": ("engine.rules", "errors"),
    "sockets": ("service", "durable", "triggers", "json_input", *_ENGINE),
    "app": ("service", "rest", "sockets", "settings", "grace", "migrations", *_BELOW_THE_DOORS),
    # what a process that stays does from its start to its end
    "process": ("app", "rest", "sockets", "service", "settings", "grace", "errors"),
    "cli": (
        "version",
        "app",
        "process",
        "remote",
        "rest",
        "service",
        "secrets",
        "migrations",
        "settings",
        "json_input",
        "engine.ports",
        "engine.records.saved_queries",
        "engine.records.api_keys",
        "engine.records.audit_trail",
        "engine.records.saved_triggers",
        "engine.rules",
        "errors",
    ),
    "__main__": ("cli",),
    # for tests of node types and programs: a handler alone, as the engine would run it; a store without a database
    "testing": (
        "handlers",
        "engine.ports",
        "engine.records",
        "engine.store",
        "engine.handling",
        "engine.rules",
        "errors",
    ),
    # the public API: what users of the library import
    "": (
        "version",
        "durable",
        "durable.client",
        "durable.sync_client",
        "durable.step_error",
        "durable.worker",
        "handlers",
        "engine.handling",
        "errors",
    ),
}

_DATABASE_MODULES = ("sqlalchemy", "sqlite3", "psycopg", "alembic", "pymysql", "aiosqlite", "asyncpg")
_DATABASE_ROOMS = ("engine.store", "engine.store.schema", "migrations", "migrations.versions", "queries")
_IMPURE_MODULES = ("asyncio", "time", "random", "secrets", "uuid", "logging", "os", "io", "pathlib", "socket",
                   "subprocess", "threading", "tempfile", "sys", "warnings")  # fmt: skip
_IMPURE_NAMES = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "print")
_UNSAFE_MODULES = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle")
_SQL = re.compile(
    r"\s*(SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s.+\sSET\s|DELETE\s+FROM\s|PRAGMA\s+\w"
    r"|(CREATE|ALTER|DROP)\s+(TABLE|INDEX|UNIQUE|VIEW)\b|WITH\s+\w+\s+AS\s*\()",
    re.DOTALL,
)

Rule = Callable[[Source, frozenset[str]], Iterator[tuple[int, str]]]


def judge(source: Source, known_modules: frozenset[str] = frozenset()) -> list[str]:
    """Every violation in a file as `module:line: what, and where the code belongs`; empty if all is well."""
    return [f"{source.module}:{line}: {what}" for rule in RULES for line, what in rule(source, known_modules)]


def room_of(module: str) -> str | None:
    """The room a module of ours lives in: the longest listed name that it begins with. None: not listed."""
    inside = module.removeprefix("anabranch").removeprefix(".")
    parts = inside.split(".") if inside else []
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in MAY_IMPORT), None if inside else "")


def _nothing_imports_upward(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    room = room_of(source.module)
    if room is None:
        yield 1, "a room that the picture does not show: list it in MAY_IMPORT of tests/architecture/layers.py"
        return
    for used in source.imports(known_modules):
        if used.module.startswith("."):
            yield used.line, "a relative import: write the whole name, so that a reader sees which layer it is"
        elif used.module.split(".")[0] == "anabranch":
            target = room_of(used.module)
            if target not in (room, "deferred", *MAY_IMPORT[room]):
                allowed = ", ".join(MAY_IMPORT[room]) or "nothing of ours"
                yield (
                    used.line,
                    (
                        f"layers: {room or 'anabranch/__init__'} may not import {used.module}; it may import {allowed}."
                        " Move the code to the lower module, or let app.py hand it in through a Protocol of ports.py"
                    ),
                )


def _no_import_hides_in_a_function(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    for used in source.imports(known_modules):
        if used.inside_function:
            yield used.line, f"local import of {used.module}: it belongs at the top; if that is a cycle, move the code"


def _sql_stays_in_its_room(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    if room_of(source.module) in _DATABASE_ROOMS:
        return
    where = "statements belong in engine/store/sql/statements.py (or migrations), behind a method of the Store port"
    for used in source.imports(known_modules):
        if used.module.split(".")[0] in _DATABASE_MODULES:
            yield used.line, f"SQL: {used.module} is imported outside the store; {where}"
    for text, line in source.texts():
        if _SQL.match(text):
            yield line, f"SQL: {text.strip()[:40]!r} looks like a statement; {where}"


def _rules_are_pure(source: Source, known_modules: frozenset[str]) -> Iterator[tuple[int, str]]:
    if room_of(source.module) != "engine.rules":
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


RULES: tuple[Rule, ...] = (
    _nothing_imports_upward,
    _no_import_hides_in_a_function,
    _sql_stays_in_its_room,
    _rules_are_pure,
    _nothing_is_unpickled,
)
