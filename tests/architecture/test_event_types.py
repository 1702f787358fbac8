"""Rows of a log are interpreted in few places: decisions and `evolve`, the history, and SQL by its columns.

Whoever else wants to know what happened asks `anabranch.engine.rules.history` or reads a form of `event_payloads`.
"""

from __future__ import annotations

import ast
from pathlib import Path

from anabranch.engine.rules.events import EventType

RULES = "anabranch.engine.rules"

MAY_LOOK_AT_EVENT_TYPES = {
    # what there is, what it means for what is next, and what it means for a reader
    f"{RULES}.events",
    f"{RULES}.history",
    f"{RULES}.event_payloads",
    f"{RULES}.evolve",
    f"{RULES}.shared.run_state",
    f"{RULES}.shared.signals",
    f"{RULES}.coded.coded_state",
    # decisions write rows
    f"{RULES}.decide",
    f"{RULES}.shared.decisions",
    f"{RULES}.coded.coded_decide",
    f"{RULES}.drawn.outcomes",
    # what recorded rows say, apart from any engine
    "anabranch.histories.recorded_history",
    "anabranch.histories.graph_replay",
    "anabranch.durable.history_replay",
    # what an end was decided with
    f"{RULES}.repair.retry_plan",
    # what a log promises, whatever it is folded to
    "anabranch.service.data_check.run_consistency",
    # which outcomes another run may begin with
    f"{RULES}.repair.fork_plan",
    f"{RULES}.repair.coded_fork",
    # what was sent to the address of a wait, and which output answers a webhook
    f"{RULES}.callbacks",
    f"{RULES}.responses",
    # the number of committed events by type
    "anabranch.rest.metrics",
}

MAY_LOOK_BY_FOLDER = (
    "anabranch.engine.store.",
    "anabranch.migrations.versions.",
    "anabranch.testing.memory_store.",
    f"{RULES}.verify.",
)
"""Stores write external rows, and select rows by columns and indexes that name types. `verify` reads logs with eyes of
its own."""

NAMES = {"EventType", "ENDINGS", "TERMINALS"}
TYPES = {event_type.value for event_type in EventType}


def names_event_types(text: str) -> bool:
    """Does a source import the types, or write one of them down?"""
    tree = ast.parse(text)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and NAMES & {alias.name for alias in node.names}:
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            words = set(node.value.replace("'", " ").replace('"', " ").split())
            if words & TYPES:
                return True
    return False


def modules() -> dict[str, str]:
    root = Path(__file__).parents[2]
    files = sorted((root / "anabranch").rglob("*.py"))
    return {".".join(file.relative_to(root).with_suffix("").parts): file.read_text() for file in files}


def test_only_named_modules_look_at_the_types_of_events() -> None:
    looking = {name for name, text in modules().items() if names_event_types(text)}
    elsewhere = {name for name in looking if not name.startswith(MAY_LOOK_BY_FOLDER)}
    assert elsewhere - MAY_LOOK_AT_EVENT_TYPES == set(), "ask anabranch.engine.rules.history what happened"
    assert MAY_LOOK_AT_EVENT_TYPES - elsewhere == set(), "these look at them no more: take them off the list"


def test_the_rule_finds_what_it_is_for() -> None:
    assert names_event_types("from anabranch.engine.rules.events import Event, EventType")
    assert names_event_types("if row['eventType'] == 'NODE_FAILED': pass")
    assert not names_event_types("'''About NODE_FAILED and so on.'''\nfrom anabranch.engine.rules.events import Event")
