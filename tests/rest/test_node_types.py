"""Node types over REST: enough to draw a node and its form without knowing the type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import jsonschema
from pydantic import BaseModel, Field

from anabranch import HandlerResult, node_type
from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES
from anabranch.engine.rules.graph.known_fields import NODE_FIELDS
from anabranch.handlers import builtin_types
from tests.rest.conftest import Served

BUILT_IN = set(builtin_types().names())

WIDGETS = {"code", "expression", "duration", "secret", "workflow", "query", "keyValue", "branches"}
UI_KEYS = {"widget", "group", "order", "advanced", "placeholder", "showIf", "language", "template"}


class ShipConfig(BaseModel):
    to: str = Field(description="Where it goes.", json_schema_extra={"x-ui": {"placeholder": "Berlin", "order": 7}})
    speed: Literal["slow", "fast"] = "slow"


@node_type(
    "tests.ship",
    title="Ship parcel",
    config=ShipConfig,
    handles=("default", "lost"),
    timeout="1500ms",
    category="logistics",
    icon="truck",
    side_effects="external",
)
class Ship:
    """Hands a parcel to the carrier.

    More that no palette has room for.
    """

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        return HandlerResult(None)


@node_type("tests.fork", handles=lambda config: config["ways"])
class Fork:
    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        return HandlerResult(None)


async def listed(served: Served) -> dict[str, dict[str, Any]]:
    answered = await served.ask("GET", "/v1/node-types", role="viewer")
    assert answered.status == 200, answered.text
    return {each["name"]: each for each in answered.json["items"]}


async def test_a_condition_tells_its_handles_and_where_its_branches_are(served: Served):
    condition = (await listed(served))["condition"]
    assert condition["handles"] == [
        {"id": "else", "title": "Else"},
        {"id": "error", "title": "Error", "kind": "error"},
    ]
    assert condition["dynamicHandles"] == {"items": "/branches", "id": "id", "before": "else"}
    assert (condition["handlesComputed"], condition["container"]) == (False, None)
    assert {
        name: condition[name] for name in ("title", "category", "icon", "docs", "sideEffects", "defaultTimeout")
    } == {
        "title": "Condition",
        "category": "flow",
        "icon": "split",
        "docs": "#condition",
        "sideEffects": "none",
        "defaultTimeout": "30s",
    }


async def test_a_loop_is_a_container_entered_by_its_body_handle(served: Served):
    loop = (await listed(served))["loop"]
    assert loop["handles"] == [
        {"id": "loop", "title": "Body", "kind": "body"},
        {"id": "done", "title": "Done"},
        {"id": "error", "title": "Error", "kind": "error"},
    ]
    assert loop["container"] == "loop"
    assert loop["configSchema"]["properties"]["while"]["x-ui"]["showIf"] == {"/mode": "while"}


async def test_every_built_in_type_and_field_says_what_it_is(served: Served):
    types = await listed(served)
    assert types.keys() >= BUILT_IN
    for name in BUILT_IN:
        each = types[name]
        assert each["description"], name
        assert each["icon"], name
        assert each["sideEffects"] in ("none", "external", "unknown")
        assert [handle["id"] for handle in each["handles"]].count("error") == (name not in ENTRY_POINT_TYPES | {"end"})
        for pointer, field in fields_of(each["configSchema"]):
            assert field.get("description"), f"{name}{pointer} has no description"
            ui = field.get("x-ui", {})
            assert ui.keys() <= UI_KEYS, f"{name}{pointer}: {ui}"
            assert ui.get("widget") in {None, *WIDGETS}, f"{name}{pointer}"
        orders = [field["x-ui"]["order"] for field in each["configSchema"]["properties"].values()]
        assert orders == sorted(set(orders)), name
    assert types["javascript"]["configSchema"]["properties"]["code"]["x-ui"] == {
        "widget": "code",
        "language": "javascript",
        "order": 0,
        "template": False,
    }
    assert types["javascript"]["configSchema"]["properties"]["timeout"]["default"] == 30_000
    assert '"default":null' not in json.dumps(types, separators=(",", ":"))


async def test_a_type_of_a_users_own_comes_with_all_that_a_form_needs(served: Served):
    ship = (await listed(served))["tests.ship"]
    schema = ship.pop("configSchema")
    assert ship == {
        "name": "tests.ship",
        "title": "Ship parcel",
        "category": "logistics",
        "icon": "truck",
        "description": "Hands a parcel to the carrier.",
        "docs": None,
        "handles": [
            {"id": "default", "title": "Default"},
            {"id": "lost", "title": "Lost"},
            {"id": "error", "title": "Error", "kind": "error"},
        ],
        "dynamicHandles": None,
        "handlesComputed": False,
        "sideEffects": "external",
        "defaultTimeout": "1500ms",
        "container": None,
        "mappable": True,
    }
    assert schema["properties"]["to"]["x-ui"] == {"placeholder": "Berlin", "order": 7}
    assert schema["properties"]["speed"]["x-ui"] == {"order": 1}


async def test_handles_that_a_function_gives_are_said_to_be_computed(served: Served):
    fork = (await listed(served))["tests.fork"]
    assert fork["handlesComputed"] is True
    assert [handle["id"] for handle in fork["handles"]] == ["error"], "an empty config tells no others"
    assert (fork["category"], fork["icon"], fork["sideEffects"]) == ("custom", None, "unknown")


async def test_the_fields_of_every_node_have_a_schema(served: Served):
    fields = (await served.ask("GET", "/v1/node-types")).json["nodeFields"]
    assert fields["properties"].keys() == NODE_FIELDS
    assert all(field["description"] and field["title"] for field in fields["properties"].values())
    node = {
        "id": "fetch",
        "type": "httpRequest",
        "retry": {"maxAttempts": 2, "backoff": {"kind": "exp", "base": "1s", "max": "60s", "jitter": 0}},
        "timeout": "30s",
        "joinMode": "any",
        "outputVariable": "orders",
        "x-mine": 1,
    }
    jsonschema.Draft202012Validator(fields).validate(node)
    refused = {"id": "a/b", "type": "set", "outputVariable": "2x", "joinMode": "some"}
    paths = {error.json_path for error in jsonschema.Draft202012Validator(fields).iter_errors(refused)}
    assert paths == {"$.id", "$.outputVariable", "$.joinMode"}


def fields_of(schema: Mapping[str, Any], pointer: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every property of a schema and of those that it is made of."""
    for name, field in schema.get("properties", {}).items():
        yield f"{pointer}/{name}", field
        yield from fields_of(field, f"{pointer}/{name}")
    for name, definition in schema.get("$defs", {}).items():
        yield from fields_of(definition, f"{pointer}/{name}")
