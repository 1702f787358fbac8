"""The generated page of all routes, from the OpenAPI document. Called by `pages`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from anabranch.rest.openapi import openapi_document
from anabranch.rest.routes.all_routes import ROUTES


def rest_page(made: str) -> str:
    """Every operation by its tag, then the bodies of requests."""
    document = openapi_document(ROUTES)
    operations = [
        (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [
        "# REST routes\n",
        made,
        "Every operation of the API, from its OpenAPI document (`anabranch openapi`, `/openapi.json`). [The REST API](../rest.md) explains keys, lists,"
        " errors and what may be repeated; `/docs` on a server lets you try the operations.\n",
    ]
    operations.sort(key=lambda each: each[2]["tags"][0])
    for tag, of_tag in groupby(operations, key=lambda each: each[2]["tags"][0]):
        parts.append(f"## {tag[0].upper()}{tag[1:]}\n")
        for path, method, operation in of_tag:
            parts += _operation(path, method, operation)
    parts.append("## Bodies of requests\n")
    used = _used(operations, document["components"]["schemas"])
    for name, schema in document["components"]["schemas"].items():
        if name in used:
            description = f"{_cell(schema['description'])}\n" if "description" in schema else ""
            parts += [f"### {name}\n", *([description] if description else [])]
            parts.append(
                _fields(schema) if schema.get("properties") else f"{_type(schema)[:1].upper()}{_type(schema)[1:]}.\n"
            )
    return "\n".join(parts)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> list[str]:
    parts = [f"### {method} {path}\n", f"{operation['summary']} {_description(operation)}".strip() + "\n"]
    parameters = [each for each in operation["parameters"] if each["in"] != "path"]
    if parameters:
        rows = ["| parameter | in | type | meaning |", "|---|---|---|---|"]
        for each in parameters:
            required = " (required)" if each.get("required") else ""
            rows.append(
                f"| `{each['name']}`{required} | {each['in']} | {_type(each['schema'])} | {_cell(each.get('description', ''))} |"
            )
        parts.append("\n".join(rows) + "\n")
    if "requestBody" in operation:
        kinds = operation["requestBody"]["content"].items()
        parts.append("Body: " + ", ".join(f"{_type(body.get('schema', {}))} (`{kind}`)" for kind, body in kinds) + "\n")
    parts.append("Answers: " + "; ".join(_answer(*each) for each in operation["responses"].items()) + ".\n")
    return parts


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    if answer["description"].startswith("Refused: "):
        codes = answer["description"].removeprefix("Refused: ").split(", ")
        return f"{status} " + ", ".join(f"`{code}`" for code in codes)
    kinds = [_type(body["schema"], link=False) for body in answer.get("content", {}).values() if "schema" in body]
    return f"{status} {' or '.join(kinds)}".strip()


def _description(operation: Mapping[str, Any]) -> str:
    return " ".join(operation.get("description", "").split())


def _used(operations: list[tuple[str, str, Mapping[str, Any]]], schemas: Mapping[str, Any]) -> set[str]:
    """The schemas that bodies name, and those that these name."""
    found: set[str] = set()
    ahead = [operation["requestBody"] for _, _, operation in operations if "requestBody" in operation]
    while ahead:
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(ahead.pop())):
            if name not in found:
                found.add(name)
                ahead.append(schemas[name])
    return found


def _fields(schema: Mapping[str, Any]) -> str:
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        required = " (required)" if name in schema.get("required", ()) else ""
        rows.append(f"| `{name}`{required} | {_type(field)} | {_cell(field.get('description', ''))} |")
    return "\n".join(rows) + "\n"


def _type(schema: Mapping[str, Any], *, link: bool = True) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if link else f"`{name}`"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = [_type(each, link=link) for each in schema[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"array of {_type(schema['items'], link=link)}" if schema.get("items") else "array"
    return " or ".join(each for each in kind if each != "null") if isinstance(kind, list) else kind


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
