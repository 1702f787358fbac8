"""The generated page of node types: the config of each, field by field, and an example. Called by `pages`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anabranch.handlers import builtin_types
from anabranch.handlers.spec import NodeTypeRegistry
from tests.reference.node_examples import EXAMPLES, Example


def nodes_page(made: str) -> str:
    """Every type, in the order of the guide."""
    types = builtin_types()
    parts = [
        "# Node schemas and examples\n",
        made,
        "The config of every built-in node type, and an example that a test runs. [Built-in node types](../nodes.md) explains what each does;"
        " [the workflow document](workflow-document.md#node) has the fields that all nodes have. The same as JSON Schema:"
        " [workflow.schema.json](workflow.schema.json), `GET /v1/node-types` and `anabranch schema`, which have your own types, too.\n",
    ]
    ordered = [name for name in EXAMPLES if name in types.names()]
    for name in [*ordered, *(name for name in types.names() if name not in EXAMPLES)]:
        parts += _section(name, types)
    return "\n".join(parts)


def _section(name: str, types: NodeTypeRegistry) -> list[str]:
    found = types.get(name)
    assert found is not None
    schema = found.config_schema
    effects = {"none": "no effects outside of the run", "unknown": "effects outside of the run are unknown"}
    return [
        f"## {name}\n",
        f"{found.description.description} {_effects(found.description.side_effects, effects)}\n",
        _config(schema),
        *(_example(EXAMPLES[name]) if name in EXAMPLES else []),
    ]


def _effects(side_effects: str, words: Mapping[str, str]) -> str:
    text = words.get(side_effects, f"side effects: {side_effects}")
    return f"It has {text}." if side_effects == "none" else f"{text[0].upper()}{text[1:]}."


def _config(schema: Mapping[str, Any]) -> str:
    if not schema.get("properties"):
        return "Its config is empty.\n"
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, field in schema["properties"].items():
        required = " (required)" if name in schema.get("required", ()) else ""
        default = "" if field.get("default") is None else f"`{json.dumps(field['default'])}`"
        rows.append(f"| `{name}`{required} | {_type(field, schema)} | {default} | {_cell(field['description'])} |")
    return "\n".join(rows) + "\n"


def _type(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Types and bounds in a few words; nested objects show their fields."""
    if "$ref" in field:
        return _type(root["$defs"][field["$ref"].rpartition("/")[2]], root)
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(each)}`" for each in field["enum"] if each is not None)
    for several in ("anyOf", "oneOf"):
        if several in field:
            kinds = [_type(each, root) for each in field[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    kind = field.get("type", "any value")
    if kind == "array":
        return f"array of {_type(field['items'], root)}" if field.get("items") else "array"
    if kind == "object" and field.get("properties"):
        names = [f"`{name}`{'' if name in field.get('required', ()) else '?'}" for name in field["properties"]]
        return f"object {{{', '.join(names)}}}"
    if isinstance(kind, list):
        return " or ".join(each for each in kind if each != "null")
    bounds = [f"{sign} {field[key]:,}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in field]
    return f"{kind} {', '.join(bounds)}".strip()


def _example(example: Example) -> list[str]:
    nodes = ",\n   ".join(json.dumps(node, ensure_ascii=False) for node in example.nodes)
    edges = ",\n   ".join(json.dumps(edge, ensure_ascii=False) for edge in example.document["edges"])
    parts = [f'```json\n{{"nodes": [\n   {nodes}],\n "edges": [\n   {edges}]}}\n```\n']
    if example.trigger is not None:
        told = f"Begun with the payload `{_json(example.input)}`, "
    else:
        told = f"With the input `{_json(example.input)}` " if example.input is not None else "Without an input "
    if example.given:
        told += "and " if example.trigger is None else ""
        told += ", ".join(f"with `{_json(output)}` as the output of `{node}`" for node, output in example.given.items())
        told += " "
    ends = f"it fails with `{example.error}`" if example.error else f"its output is `{_json(example.output)}`"
    return [*parts, f"{told.rstrip()}{'' if told.endswith(', ') else ','} {ends}.\n".replace(",,", ",")]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
