"""Users' own node types: declared, found, executed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pydantic import BaseModel

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.errors import NonRetryable
from anabranch.handlers import builtin_types, load_types, node_type
from anabranch.handlers.registry import import_handlers
from tests.handlers.running import problems, run


class GreetConfig(BaseModel):
    name: str
    times: int = 1


@node_type("tests.greet", title="Greet", config=GreetConfig, handles=("default", "often"), timeout="5s")
class Greet:
    async def execute(self, config: GreetConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        assert isinstance(config, GreetConfig)
        return HandlerResult(f"hello {config.name}" * config.times, "often" if config.times > 1 else None)


@node_type("tests.echo", handles=lambda config: config.get("exits", ["default"]), timeout=None)
class Echo:
    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        return HandlerResult([config, context["n"], helpers.node_id, helpers.resolve_template("{{ctx.n}}")])


async def test_a_declared_type_is_executed_with_its_resolved_config_as_its_model() -> None:
    types = load_types()
    config = {"name": "{{ctx.who}}", "times": "{{ctx.n}}"}
    assert problems("tests.greet", config, types=types) == []
    assert await run("tests.greet", config, {"who": "you", "n": 2}, types=types) == HandlerResult(
        "hello you" * 2, "often"
    )


async def test_a_declared_type_refuses_a_config_that_its_model_refuses() -> None:
    types = load_types()
    assert problems("tests.greet", {}, types=types) == [("SCHEMA", "")]
    with pytest.raises(NonRetryable) as refusal:
        await run("tests.greet", {"name": "{{ctx.who}}"}, {"who": 5}, types=types)
    assert refusal.value.code == "NODE_CONFIG_INVALID"


async def test_a_type_without_a_model_gets_the_resolved_object_as_it_is() -> None:
    types = load_types()
    assert await run("tests.echo", {"a": ["{{ctx.n}}"]}, {"n": 3}, types=types) == HandlerResult(
        [{"a": [3]}, 3, "node", 3]
    )
    assert problems("tests.echo", {"a": "{{"}, types=types) == [("TEMPLATE_ERROR", "/a")]


def test_title_handles_and_timeout_are_those_declared() -> None:
    types = load_types()
    greet, echo = types.get("tests.greet"), types.get("tests.echo")
    assert greet is not None
    assert echo is not None
    assert (greet.title, list(greet.handles({})), greet.default_timeout_ms) == ("Greet", ["default", "often"], 5_000)
    assert (echo.title, list(echo.handles({"exits": ["x"]})), echo.default_timeout_ms) == ("tests.echo", ["x"], None)


def test_a_type_declared_after_the_registry_was_made_is_found_too() -> None:
    types = load_types()

    @node_type("tests.late")
    class Late:
        async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
            return HandlerResult(None)

    assert types.get("tests.late") is not None
    assert "tests.late" in types.names()
    assert builtin_types().get("tests.late") is None


def test_a_declaration_that_makes_no_sense_is_refused_at_once() -> None:
    class Sync:
        def execute(self, config: Any, context: Any, helpers: Any) -> Any:
            yield None

    with pytest.raises(ValueError, match="async def execute"):
        node_type("tests.sync")(Sync)
    with pytest.raises(ValueError, match="cannot be a node type"):
        node_type("no blanks")
    with pytest.raises(ValueError, match="`error` by itself"):
        node_type("tests.x", handles=("default", "error"))
    with pytest.raises(ValueError, match="in a tuple"):
        node_type("tests.x", handles="default")
    with pytest.raises(ValueError, match="not a duration"):
        node_type("tests.x", timeout="soon")(Greet)


def test_one_name_has_one_class_and_a_reload_of_it_is_no_second_one() -> None:
    assert node_type("tests.greet")(Greet) is Greet
    node_type("tests.greet", title="Greet", config=GreetConfig, handles=("default", "often"), timeout="5s")(Greet)
    with pytest.raises(ValueError, match=r"declared by .*\.Greet already"):
        node_type("tests.greet")(Echo)
    with pytest.raises(ValueError, match="built in"):
        node_type("start")(Echo)


def test_a_package_that_cannot_be_imported_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        import_handlers(EntryPoint("broken", "tests.handlers.absent", "anabranch.handlers"))
    assert "broken" in caplog.text


@pytest.mark.parametrize(
    "said", [{"category": ""}, {"category": "a\nb"}, {"icon": "No Icon"}, {"icon": ""}, {"side_effects": "some"}]
)
def test_what_editors_are_to_show_is_checked_when_the_type_is_declared(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tests\.badly\.shown"):
        node_type("tests.badly.shown", **said)
