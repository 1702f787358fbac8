"""The generated pages are fresh, name everything, and what they show holds."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.graph.known_fields import EDGE_FIELDS, NODE_FIELDS, OPTION_FIELDS, WORKFLOW_FIELDS
from anabranch.engine.rules.graph.validate import validate
from anabranch.engine.rules.templates.filters import FILTERS
from anabranch.handlers import builtin_types
from anabranch.rest.routes.all_routes import ROUTES
from tests.golden.cases import GRAPHS
from tests.reference.observing_pages import EVENTS, metrics
from tests.reference.pages import _FILTERS, FOLDER, pages

PAGES = pages()
SCHEMA = json.loads(PAGES["workflow.schema.json"])


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_fresh(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name], "run `python -m tests.reference.pages`"


def test_every_field_that_is_known_is_described() -> None:
    assert set(SCHEMA["properties"]) == WORKFLOW_FIELDS
    assert set(SCHEMA["$defs"]["node"]["properties"]) == NODE_FIELDS
    assert set(SCHEMA["$defs"]["edge"]["properties"]) == EDGE_FIELDS
    assert set(SCHEMA["properties"]["workflowOptions"]["properties"]) == OPTION_FIELDS


def test_every_filter_is_described_with_an_example() -> None:
    assert set(_FILTERS) == {*FILTERS, "default", "otherwise"}


def test_every_type_of_event_is_described() -> None:
    assert set(EVENTS) == {each.value for each in EventType}


def test_every_metric_of_the_page_on_telemetry_is_declared() -> None:
    told = set(re.findall(r"`((?:anabranch|workflow)_[a-z_]+)`", (FOLDER.parent / "telemetry.md").read_text("utf-8")))
    assert told <= {name for name, *_ in metrics()}


def test_the_reference_has_every_type_route_and_command() -> None:
    assert all(f"\n## {name}\n" in PAGES["node-schemas.md"] for name in builtin_types().names())
    assert all(f"\n### {route.method} {route.path}\n" in PAGES["rest-routes.md"] for route in ROUTES)
    assert "\n## runs bulk\n" in PAGES["command-options.md"]


def test_the_example_is_valid_by_the_schema_and_by_the_engine() -> None:
    shown = re.search(r"```json\n(.*?)```", PAGES["workflow-document.md"], re.DOTALL)
    assert shown
    example = json.loads(shown[1])

    report = validate(example, builtin_types()).as_json()

    assert report["valid"] and report["warnings"] == []
    jsonschema.Draft202012Validator(SCHEMA).validate(example)


def test_the_schema_takes_what_the_engine_takes_and_finds_wrong_configs() -> None:
    check = jsonschema.Draft202012Validator(SCHEMA)
    check.check_schema(SCHEMA)
    ours = {name: graph for name, graph in GRAPHS.items() if "golden" not in json.dumps(graph)}
    for name, graph in ours.items():
        assert [error.message for error in check.iter_errors(graph)] == [], name

    wrong = {"nodes": [{"id": "w", "type": "waitForEvent", "config": {"evnet": "x"}}]}

    assert {tuple(error.absolute_path) for error in check.iter_errors(wrong)} == {("nodes", 0, "config")}
