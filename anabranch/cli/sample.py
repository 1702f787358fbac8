"""The workflow that `anabranch dev` saves on an empty database: small, needs no network, shows four node types."""

from __future__ import annotations

from typing import Any

SAMPLE: dict[str, Any] = {
    "title": "Hello",
    "name": "hello",
    "nodes": [
        {"id": "start", "type": "start", "name": "Start", "position": {"x": 0, "y": 120}},
        {
            "id": "greet",
            "type": "set",
            "name": "Write a greeting",
            "config": {"values": {"greeting": "Hello, {{ctx.input.name | default('world')}}!"}},
            "outputVariable": "words",
            "position": {"x": 304, "y": 120},
        },
        {
            "id": "known",
            "type": "condition",
            "name": "Is there a name?",
            "config": {"branches": [{"id": "named", "expression": "{{ctx.input.name | default('') != ''}}"}]},
            "position": {"x": 608, "y": 120},
        },
        {
            "id": "pause",
            "type": "delay",
            "name": "Wait for a second",
            "config": {"duration": "1s"},
            "position": {"x": 912, "y": 40},
        },
        {
            "id": "greeted",
            "type": "end",
            "name": "Greet",
            "config": {"outputParameters": {"message": "{{ctx.words.greeting}}", "waited": True}},
            "position": {"x": 1216, "y": 40},
        },
        {
            "id": "unnamed",
            "type": "end",
            "name": "Greet everybody",
            "config": {"outputParameters": {"message": "{{ctx.words.greeting}}", "waited": False}},
            "position": {"x": 912, "y": 200},
        },
    ],
    "edges": [
        {"id": "e1", "upstreamNodeID": "start", "downstreamNodeID": "greet"},
        {"id": "e2", "upstreamNodeID": "greet", "downstreamNodeID": "known"},
        {"id": "e3", "upstreamNodeID": "known", "downstreamNodeID": "pause", "sourceHandle": "named"},
        {"id": "e4", "upstreamNodeID": "pause", "downstreamNodeID": "greeted"},
        {"id": "e5", "upstreamNodeID": "known", "downstreamNodeID": "unnamed", "sourceHandle": "else"},
    ],
    # The example input that a form offers.
    "workflowOptions": {
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Whom to greet."}},
            "examples": [{"name": "Ada"}],
        }
    },
}
