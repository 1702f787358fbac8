"""The JSON of node types: what an editor needs to draw a node and its form.

Pure. Called by the route of node types. A type describes itself in its `NodeType`; the fields that all
nodes have beside their config are described here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.rules.events import ERROR_HANDLE
from anabranch.engine.rules.graph.document import (
    ERROR_HANDLINGS,
    JOIN_MODES,
    NODE_ID_LENGTH_MAX,
    PASSES_MAX,
    PASSES_MAX_DEFAULT,
    VARIABLE_LENGTH_MAX,
)
from anabranch.engine.rules.graph.loop_config import BATCH_SIZE_MAX, CONCURRENCY_MAX, NEVER_MAPPED, ON_ITEM_ERROR
from anabranch.engine.rules.graph.node_types import NodeType, NodeTypes
from anabranch.engine.rules.graph.pools import POOL_NAME_PATTERN
from anabranch.engine.rules.graph.priorities import PRIORITIES
from anabranch.engine.rules.templates.filters import FILTER_PARAMETERS

_DURATION = {"type": ["string", "number"]}

_BACKOFF = {
    "type": "object",
    "title": "Backoff",
    "description": "How long to wait between two attempts.",
    "additionalProperties": False,
    "properties": {
        "kind": {
            "enum": ["fixed", "linear", "exp"],
            "title": "Kind",
            "description": "Always the same, longer by `base` each time, or twice as long each time.",
            "default": "exp",
        },
        "base": {
            **_DURATION,
            "title": "Base",
            "description": "The first wait.",
            "default": "1s",
            "x-ui": {"widget": "duration"},
        },
        "max": {
            **_DURATION,
            "title": "Longest",
            "description": "The longest wait.",
            "default": "60s",
            "x-ui": {"widget": "duration"},
        },
        "jitter": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "title": "Jitter",
            "description": "The random share of each wait.",
            "default": 0,
        },
    },
}

NODE_FIELDS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["id", "type"],
    "properties": {
        "id": {
            "type": "string",
            "minLength": 1,
            "maxLength": NODE_ID_LENGTH_MAX,
            "pattern": "^[^/\\[\\]#@\\u0000-\\u001f\\u007f-\\u009f]+$",
            "title": "Id",
            "description": "The name of the node in edges and logs.",
            "x-ui": {"group": "Node", "order": 1, "advanced": True, "template": False},
        },
        "type": {
            "type": "string",
            "title": "Type",
            "description": "The node type.",
            "x-ui": {"group": "Node", "order": 2, "advanced": True, "template": False},
        },
        "name": {
            "type": ["string", "null"],
            "title": "Name",
            "description": "The label of the node; its id without one.",
            "x-ui": {"group": "Node", "order": 0, "template": False},
        },
        "config": {
            "type": ["object", "null"],
            "title": "Config",
            "description": "The settings of the node's type.",
            "x-ui": {"group": "Node", "order": 3, "template": False},
        },
        "outputVariable": {
            "type": ["string", "null"],
            "maxLength": VARIABLE_LENGTH_MAX,
            "pattern": "^(?!\\d)\\w+$",
            "title": "Output variable",
            "description": "The name in `ctx` that the node's output is written to.",
            "x-ui": {"group": "Output", "order": 4, "placeholder": "orders", "template": False},
        },
        "joinMode": {
            "enum": [*JOIN_MODES, None],
            "title": "Join mode",
            "description": "With several incoming edges: wait for `all` of them, or continue with the first (`any`).",
            "default": "all",
            "x-ui": {"group": "Flow", "order": 5, "template": False},
        },
        "errorHandling": {
            "enum": [*ERROR_HANDLINGS, None],
            "title": "Error handling",
            "description": f"When the node fails: `continue` by its `{ERROR_HANDLE}` edge (without one the run fails),"
            " `ignore` the failure, or fail the whole run whatever is around it.",
            "default": "continue",
            "x-ui": {"group": "Errors", "order": 6, "template": False},
        },
        "retry": {
            "type": ["object", "null"],
            "title": "Retry",
            "description": "How often a failed execution is tried again, and when.",
            "additionalProperties": False,
            "properties": {
                "maxAttempts": {
                    "type": "integer",
                    "minimum": 1,
                    "title": "Attempts",
                    "description": "The most executions; 1: no retry.",
                    "default": 3,
                },
                "backoff": _BACKOFF,
            },
            "x-ui": {"group": "Errors", "order": 7, "advanced": True, "template": False},
        },
        "timeout": {
            "type": ["string", "number", "null"],
            "title": "Timeout",
            "description": "How long one execution may take; by default as the type says.",
            "x-ui": {"group": "Errors", "order": 8, "widget": "duration", "placeholder": "30s", "template": False},
        },
        "heartbeatTimeout": {
            "type": ["string", "number", "null"],
            "title": "Heartbeat timeout",
            "description": "How long an execution may run without reporting progress (`helpers.progress`); by default"
            " without limit.",
            "x-ui": {
                "group": "Errors",
                "order": 9,
                "widget": "duration",
                "placeholder": "30s",
                "advanced": True,
                "template": False,
            },
        },
        "pool": {
            "type": ["string", "null"],
            "pattern": f"^{POOL_NAME_PATTERN}$",
            "title": "Pool",
            "description": "The workers that execute it; by default the pool of its type, else that of the workflow,"
            " else `default`.",
            "x-ui": {"group": "Node", "order": 17, "placeholder": "gpu", "advanced": True, "template": False},
        },
        "priority": {
            "enum": [*PRIORITIES, None],
            "title": "Priority",
            "description": "Which jobs executors begin first; by default that of the workflow, else `normal`.",
            "x-ui": {"group": "Node", "order": 18, "advanced": True, "template": False},
        },
        "maxPasses": {
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": PASSES_MAX,
            "title": "Passes at most",
            "description": "For a node that an edge leads back to: the maximum number of passes of the loop that starts"
            " here.",
            "default": PASSES_MAX_DEFAULT,
            "x-ui": {"group": "Flow", "order": 12, "advanced": True, "template": False},
        },
        "forEach": {
            "type": ["string", "array", "null"],
            "title": "For each",
            "description": "A list, or a template that gives one: the node runs once for each item, with `ctx.item` and"
            " `ctx.index`, and its output is the list of the results. Not for nodes that choose the path of a run.",
            "x-ui": {"group": "Items", "order": 13, "widget": "expression", "placeholder": "{{ ctx.rows }}"},
        },
        "concurrency": {
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": CONCURRENCY_MAX,
            "title": "Items at once",
            "description": "With `forEach`: how many items may be under way at once.",
            "default": 1,
            "x-ui": {"group": "Items", "order": 14, "template": False},
        },
        "onItemError": {
            "enum": [*ON_ITEM_ERROR, None],
            "title": "On item error",
            "description": "With `forEach`: what to do when an item fails: `fail` the node, put its error in the list"
            " (`collect`), or leave it out (`skip`).",
            "default": "fail",
            "x-ui": {"group": "Items", "order": 15, "template": False},
        },
        "batchSize": {
            "type": ["integer", "string", "null"],
            "minimum": 1,
            "maximum": BATCH_SIZE_MAX,
            "title": "Batch size",
            "description": "With `forEach`: `ctx.item` is a list of at most so many items, instead of one item.",
            "x-ui": {"group": "Items", "order": 16, "template": False},
        },
        "disabled": {
            "type": ["boolean", "null"],
            "title": "Disabled",
            "description": "Complete at once, unexecuted, with the output null, by the handle that an ignored failure"
            " takes: `done` of a loop, `else` of a condition, otherwise `default`. Not of `start`.",
            "default": False,
            "x-ui": {"group": "Flow", "order": 10, "template": False},
        },
        "position": {
            "type": ["object", "null"],
            "title": "Position",
            "description": "The position of the node on the canvas.",
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
            "x-ui": {"group": "Node", "order": 9, "advanced": True, "template": False},
        },
    },
}
"""JSON Schema of a node's own fields: those of every type."""


def node_types_as_json(node_types: NodeTypes) -> dict[str, Any]:
    """Every node type, by name, the fields that all nodes have, and the filters of templates."""
    types = [found for name in node_types.names() if (found := node_types.get(name)) is not None]
    return {
        "items": [_as_json(each) for each in types],
        "nextCursor": None,
        "nodeFields": NODE_FIELDS_SCHEMA,
        "templateFilters": [{"name": name, "parameters": list(taken)} for name, taken in FILTER_PARAMETERS.items()],
    }


def _as_json(node_type: NodeType) -> dict[str, Any]:
    described = node_type.description
    dynamic = described.dynamic_handles
    timeout_ms = node_type.default_timeout_ms
    return {
        "name": node_type.type,
        "title": node_type.title,
        "category": described.category,
        "icon": described.icon,
        "description": described.description,
        "docs": described.docs,
        "handles": [
            {"id": each.id, "title": each.title, **({} if each.kind == "normal" else {"kind": each.kind})}
            for each in described.handles
        ],
        "dynamicHandles": None
        if dynamic is None
        else {"items": dynamic.items, "id": dynamic.id, "before": dynamic.before},
        "handlesComputed": described.handles_computed,
        "configSchema": dict(node_type.config_schema),
        "sideEffects": described.side_effects,
        "defaultTimeout": None if timeout_ms is None else _duration(timeout_ms),
        "container": described.container,
        "mappable": node_type.type not in NEVER_MAPPED,
    }


def _duration(milliseconds: int) -> str:
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"
