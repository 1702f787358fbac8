"""Code and texts of imported workflows get no further than other code and texts do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.testing import run_workflow
from tests.n8n.drawn import Drawn, node, set_to

# Each asks for something that is outside of the sealed process, by the names that the import binds.
ESCAPES = [
    "$input.constructor.constructor('return process')().env",
    "$input.all.constructor('return process')().env",
    "$('Begin').all.constructor('return require')()('fs')",
    "$('Begin').item.constructor.constructor('return globalThis.process.env')()",
    "$node.Begin.all.constructor('return require')()('child_process')",
    "$items.constructor('return std')().loadFile('/etc/passwd')",
    "items.constructor.constructor('return os')().exec(['id'])",
    "$json.constructor.constructor('return std.getenviron()')()",
    "$json.__proto__.constructor.constructor('return import(\"os\")')()",
    "Object.getPrototypeOf(async () => 0).constructor('return await import(\"std\")')()",
    "$('__proto__').all()",
    "$('constructor').all()",
    "(() => { Object.prototype.polluted = 1; return fetch('http://127.0.0.1:1/') })()",
]


def ran(*nodes: Any) -> Any:
    """How a workflow of these nodes ends."""
    [workflow] = read_exports(Drawn("Attack", "", nodes, [], []).export())
    document = import_workflow(workflow, builtin_types()).document
    return asyncio.run(run_workflow(document, {"n8nItems": [{"a": 1}]}))


@pytest.mark.parametrize("escape", ESCAPES)
def test_code_does_not_escape_by_the_names_of_n8n(escape: str) -> None:
    run = ran(node("Code", "code", 2, jsCode=f"return [{{json: {{got: String(await {escape})}}}}]"))

    assert run.status == "FAILED"
    assert run.error["code"] in ("CODE_ERROR", "NOT_IMPORTED"), run.error


def test_an_expression_does_not_leave_its_place_in_the_code() -> None:
    run = ran(
        set_to("Fields", a="={{ 1)), $json.x = ((() => 2)(), $json.a.toFixed(1 }}", b="={{ $json.a.toFixed(1) }}")
    )

    assert run.status == "FAILED"


def test_names_of_nodes_and_fields_are_texts_and_nothing_else() -> None:
    odd = "x\"]; throw 1; //'`${1}}} {{secret.A}}\n"
    [workflow] = read_exports(Drawn("Names", "", [
        {**set_to("A", n="={{ $json.a }}"), "name": odd},
        node("Code", "code", 2, jsCode="return [{json: {n: $('Begin').first().json.a}}]"),
        set_to("B", **{odd.replace(".", ""): "{{secret.A}} {{ctx.input}} {% x %}"}),
    ], [], []).export())  # fmt: skip
    document = import_workflow(workflow, builtin_types()).document

    run = asyncio.run(run_workflow(document, {"n8nItems": [{"a": 1}]}))

    assert (run.status, run.output["n8nItems"]) == (
        "COMPLETED",
        [{odd.replace(".", ""): "{{secret.A}} {{ctx.input}} {% x %}"}],
    )
