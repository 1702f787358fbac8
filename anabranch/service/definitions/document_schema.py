"""The JSON Schema of the workflow document: for completion and checks in editors.

Pure. Called by `anabranch schema` and by the generator of `docs/reference`. The fields of nodes come from
`node_type_view`, the configs from the node types. The validator is stricter: it also checks the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.rules.graph.document import EDGES_MAX, NAME_LENGTH_MAX, NODES_MAX, TITLE_LENGTH_MAX
from anabranch.engine.rules.graph.known_fields import EXTENSION_PREFIX
from anabranch.engine.rules.graph.node_types import NodeType, NodeTypes
from anabranch.engine.rules.graph.pools import DEFAULT_POOL, POOL_NAME_PATTERN
from anabranch.engine.rules.graph.priorities import NORMAL, PRIORITIES
from anabranch.service.definitions.node_type_view import NODE_FIELDS_SCHEMA

_EXTENSIONS = {f"^{EXTENSION_PREFIX}": True}

_OPTIONS: Mapping[str, Any] = {
    "type": ["object", "null"],
    "description": "What holds for all runs of the workflow.",
    "additionalProperties": False,
    "patternProperties": _EXTENSIONS,
    "properties": {
        "inputSchema": {
            "type": ["object", "null"],
            "description": "The JSON Schema (2020-12) of a run's input: a start with another input is refused."
            " Its `examples` fill the form for a start.",
        },
        "retention": {
            "type": ["string", "number", "null"],
            "description": "How long an ended run is kept, in whole days; the server has a ceiling.",
            "default": "30d",
        },
        "deadline": {
            "type": ["string", "number", "null"],
            "description": "How long a run may take from its start: it fails with `DEADLINE_EXCEEDED` after that.",
        },
        "pool": {
            "type": ["string", "null"],
            "pattern": f"^{POOL_NAME_PATTERN}$",
            "description": "The workers that execute nodes which name no pool, themselves or by their type.",
            "default": DEFAULT_POOL,
        },
        "priority": {
            "enum": [*PRIORITIES, None],
            "description": "Which jobs executors begin first, for nodes that name no priority.",
            "default": NORMAL,
        },
    },
}

_EDGE: Mapping[str, Any] = {
    "type": "object",
    "required": ["upstreamNodeID", "downstreamNodeID"],
    "additionalProperties": False,
    "patternProperties": _EXTENSIONS,
    "properties": {
        "id": {"type": ["string", "null"], "description": "A name for the edge, unique in the workflow."},
        "upstreamNodeID": {"type": "string", "description": "The id of the node that the edge leaves."},
        "sourceHandle": {
            "type": ["string", "null"],
            "default": "default",
            "description": "The handle by which it leaves: what a node can leave by is listed with its type.",
        },
        "downstreamNodeID": {"type": "string", "description": "The id of the node that it leads to."},
    },
}


def document_schema(node_types: NodeTypes) -> dict[str, Any]:
    """The JSON Schema (2020-12) of drawn workflows that use these node types."""
    types = [found for name in node_types.names() if (found := node_types.get(name)) is not None]
    definitions = {each.type: _config_schema(each) for each in types}
    node = _without_hints(NODE_FIELDS_SCHEMA)
    node["properties"]["type"]["enum"] = [each.type for each in types]
    node["additionalProperties"] = False
    node["patternProperties"] = _EXTENSIONS
    node["allOf"] = [
        {
            "if": {"properties": {"type": {"const": each.type}}},
            "then": {"properties": {"config": {"$ref": f"#/$defs/{each.type}"}}},
        }
        for each in types
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Workflow",
        "description": "A drawn workflow of anabranch.",
        "type": "object",
        "required": ["nodes"],
        "additionalProperties": False,
        "patternProperties": _EXTENSIONS,
        "properties": {
            "$schema": {"type": "string", "description": "Where this schema is, for editors: a path or a URL."},
            "name": {
                "type": ["string", "null"],
                "pattern": f"^[a-z0-9][a-z0-9_-]{{0,{NAME_LENGTH_MAX - 1}}}$",
                "description": "What programs call it. Without it the name is made from the title.",
            },
            "title": {
                "type": ["string", "null"],
                "maxLength": TITLE_LENGTH_MAX,
                "description": "What people read.",
            },
            "notes": {"description": "Notes of the editor on the canvas; the engine does not read them."},
            "workflowOptions": _OPTIONS,
            "nodes": {
                "type": "array",
                "minItems": 1,
                "maxItems": NODES_MAX,
                "description": "The nodes. At most one is of the type `start`; without it, a run begins at a trigger.",
                "items": {"$ref": "#/$defs/node"},
            },
            "edges": {
                "type": ["array", "null"],
                "maxItems": EDGES_MAX,
                "description": "What leads from node to node.",
                "items": {"$ref": "#/$defs/edge"},
            },
            "viewport": {"description": "Where the canvas was left; the engine does not read it."},
        },
        "$defs": {"node": node, "edge": _EDGE, **definitions},
    }


def _config_schema(node_type: NodeType) -> dict[str, Any]:
    """The schema of its config, with what it refers to beside it."""
    schema: dict[str, Any] = _without_hints(node_type.config_schema, refers_to=f"#/$defs/{node_type.type}/$defs/")
    schema["type"] = [schema.get("type", "object"), "null"]
    return schema


def _without_hints(schema: Any, *, refers_to: str = "") -> Any:
    """The schema without what only forms need, with references that hold where it is put."""
    if isinstance(schema, Mapping):
        return {
            key: value.replace("#/$defs/", refers_to)
            if key == "$ref" and isinstance(value, str)
            else _without_hints(value, refers_to=refers_to)
            for key, value in schema.items()
            if key != "x-ui"
        }
    if isinstance(schema, list):
        return [_without_hints(each, refers_to=refers_to) for each in schema]
    return schema
