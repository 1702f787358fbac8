"""The examples of the node types run, and answer what the page says."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.handler_contract import Handler, HandlerRegistry, HandlerResult
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.graph.validate import validate
from anabranch.handlers import builtin_types
from anabranch.testing import MemoryDatabase, MemoryStore
from tests.driving import Driver
from tests.reference.node_examples import EXAMPLES, Example

TYPES = builtin_types()


class _Outside:
    """Answers in place of what a node reaches outside."""

    def __init__(self, output: Any) -> None:
        self._output = output

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        return HandlerResult(self._output)


class _Handlers(HandlerRegistry):
    def __init__(self, example: Example) -> None:
        types = {node["id"]: node["type"] for node in example.nodes}
        self._given = {types[node]: output for node, output in example.given.items()}

    def get(self, type_name: str) -> Any:
        return TYPES.get(type_name)

    def handler(self, type_name: str) -> Handler | None:
        return _Outside(self._given[type_name]) if type_name in self._given else TYPES.handler(type_name)


def test_every_built_in_type_has_an_example() -> None:
    assert set(EXAMPLES) == set(TYPES.names()), "tests/reference/node_examples.py has one for each"


@pytest.mark.parametrize("type_name", EXAMPLES)
def test_an_example_uses_its_type_and_is_valid(type_name: str) -> None:
    example = EXAMPLES[type_name]
    report = validate({"name": "example", **example.document}, TYPES).as_json()
    assert (report["errors"], report["warnings"]) == ([], [])
    assert type_name in {node["type"] for node in example.nodes}


@pytest.mark.parametrize("type_name", EXAMPLES)
async def test_an_example_answers_what_the_page_says(type_name: str) -> None:
    example = EXAMPLES[type_name]
    database = MemoryDatabase(now=lambda: driver.now)
    driver = Driver(MemoryStore(database), _Handlers(example))
    run = driver.add(example.document, example.input, trigger=example.trigger)

    await driver.drive()

    last = run.log[-1]
    if example.error is None:
        assert (run.status, last.type, last.payload.value) == (
            Status.COMPLETED,
            EventType.INSTANCE_COMPLETED,
            example.output,
        )
    else:
        assert (run.status, last.payload.value["code"]) == (Status.FAILED, example.error)
