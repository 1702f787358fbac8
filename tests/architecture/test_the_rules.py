"""The rules of this folder find what they are for: each is fed a small source that breaks it."""

from __future__ import annotations

import pytest

from tests.architecture.layers import component_of, judge
from tests.architecture.reading import Source

KNOWN = frozenset({"anabranch.app", "anabranch.engine.orchestrator", "anabranch.engine.store.memory"})

BAD = [
    # (file, its text, what the message must say)
    (
        "anabranch.engine.rules.decide",
        "from anabranch.engine.ports import Store",
        "layers: engine.rules may not import",
    ),
    (
        "anabranch.engine.orchestrator",
        "from anabranch.service import x",
        "layers: engine may not import anabranch.service",
    ),
    (
        "anabranch.engine.orchestrator",
        "from anabranch.engine.store import memory",
        "may not import anabranch.engine.store",
    ),
    ("anabranch.engine.queues.delays", "import anabranch.engine.store.memory", "layers: engine.queues may not import"),
    ("anabranch.handlers.types.delay", "from anabranch.engine import orchestrator", "layers: handlers may not import"),
    (
        "anabranch.handlers.types.http_request",
        "from anabranch.egress.guard import Guard",
        "layers: handlers may not import",
    ),
    ("anabranch.service.http", "from anabranch import app", "layers: service may not import anabranch.app"),
    ("anabranch.triggers.schedules", "from anabranch.durable import runner", "layers: triggers may not import"),
    ("anabranch.errors", "from anabranch.settings import Settings", "layers: errors may not import"),
    ("anabranch.engine.ownership.leases", "from anabranch.settings import Settings", "layers: engine may not import"),
    (
        "anabranch.engine.ownership.leases",
        "if TYPE_CHECKING:\n    from anabranch.app import App",
        "layers: engine may not import",
    ),
    ("anabranch.basement.boiler", "x = 1", "a component that the picture does not show"),
    ("anabranch.engine.ownership.leases", "from . import orchestrator", "a relative import"),
    ("anabranch.app", "def build():\n    from anabranch.engine import ports", "local import of anabranch.engine"),
    ("anabranch.app", "class A:\n    def f(self):\n        import json", "local import of json"),
    (
        "anabranch.app",
        "x = lambda: importlib.import_module('anabranch.engine.ports')",
        "local import of anabranch.engine",
    ),
    ("anabranch.app", "def f():\n    return deferred('anabranch.engine.ports')", "local import of anabranch.engine"),
    (
        "anabranch.engine.orchestrator",
        "memory = deferred('anabranch.engine.store.memory')",
        "may not import anabranch.engine.store",
    ),
    ("anabranch.service.http", "import sqlalchemy as sa", "SQL: sqlalchemy is imported outside the store"),
    ("anabranch.engine.ownership.claiming", "from psycopg.rows import dict_row", "SQL: psycopg.rows is imported"),
    ("anabranch.engine.ownership.claiming", "q = 'SELECT a\\nFROM b WHERE c'", "looks like a statement"),
    ("anabranch.engine.ownership.claiming", "q = f'UPDATE runs SET {x} = 1'", "looks like a statement"),
    ("anabranch.cli.commands.doctor_command", "q = 'PRAGMA integrity_check'", "looks like a statement"),
    ("anabranch.engine.rules.decide", "import random", "pure rules: random is imported"),
    ("anabranch.engine.rules.decide", "from time import monotonic", "pure rules: time is imported"),
    (
        "anabranch.engine.rules.decide",
        "now = datetime.datetime.now(UTC)",
        "pure rules: datetime.datetime.now is used",
    ),
    ("anabranch.engine.rules.decide", "async def f():\n    pass", "pure rules: something is awaited"),
    ("anabranch.engine.rules.decide", "text = open('x').read()", "pure rules: open is used"),
    ("anabranch.durable.journal", "import pickle", "safety: pickle runs what it reads"),
    ("anabranch.durable.journal", "from dataclasses import dataclass, field", "dataclasses: take `dataclass` from"),
    (
        "anabranch.durable.journal",
        "import dataclasses\n@dataclasses.dataclass\nclass A: ...",
        "dataclasses: take `dataclass`",
    ),
    ("anabranch.engine.queues.jobs", 'def f():\n    """See `Jobs.f`."""\n    return 1', "only names another one"),
    (
        "anabranch.engine.ports",
        "class Store(Protocol):\n    async def claim(self, a, b, *, c, d, e, f): ...",
        "Store.claim takes 6 parameters",
    ),
    (
        "anabranch.service.runs.run_verbs",
        "class RunVerbs:\n    async def start(self, a, b, c, d, *, e, f): ...",
        "RunVerbs.start takes 6 parameters",
    ),
]

GOOD = [
    (
        "anabranch.engine.rules.decide",
        "from anabranch.engine.rules.events import Event\nfrom anabranch.errors import X",
    ),
    ("anabranch.engine.orchestrator", "import asyncio\nfrom anabranch.engine.queues import Queue"),
    ("anabranch.engine.store.sql.statements", "import sqlalchemy\nq = 'SELECT a FROM b'"),
    ("anabranch.handlers.types.delay", "from anabranch.engine.handler_contract import Outcome"),
    ("anabranch.app", "from anabranch.engine.store.memory import MemoryStore\nfrom anabranch.settings import Settings"),
    (
        "anabranch.cli.commands.run_command",
        "'''Update the run set before: prose is no statement.'''\nx = 'Select a file from the list'",
    ),
    ("anabranch.durable.journal", "from dataclasses import replace\nfrom anabranch.dataclass import dataclass"),
    ("anabranch.engine.rules.drawn.drawn_state", "def reopen(open_scopes):\n    return open_scopes.open"),
]


@pytest.mark.parametrize(("module", "text", "message"), BAD)
def test_a_broken_rule_is_named_with_its_line(module: str, text: str, message: str) -> None:
    violations = judge(Source.of(module, text), KNOWN)

    assert any(message in violation for violation in violations), violations
    assert violations[0].startswith(f"{module}:")


@pytest.mark.parametrize(("module", "text"), GOOD)
def test_what_the_picture_allows_is_allowed(module: str, text: str) -> None:
    assert judge(Source.of(module, text), KNOWN) == []


def test_the_innermost_component_counts() -> None:
    assert component_of("anabranch.engine.store.schema") == "engine.store.schema"
    assert component_of("anabranch.engine.store.sql.statements") == "engine.store"
    assert component_of("anabranch.engine.lifecycle") == "engine"
    assert component_of("anabranch") == ""
