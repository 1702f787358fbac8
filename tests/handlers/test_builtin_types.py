"""The built-in types: what their handlers return for a resolved config."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.handler_contract import HandlerResult
from anabranch.engine.rules.duration import DURATION_MS_MAX
from anabranch.engine.rules.stimuli import AwaitsSignal
from anabranch.engine.rules.values import Payload
from anabranch.errors import NonRetryable, TemplatePathMissing
from tests.handlers.running import NOW_MS, TYPES, run


def _handles(type_name: str, config: dict[str, Any]) -> list[str]:
    node_type = TYPES.get(type_name)
    assert node_type is not None
    return list(node_type.handles(config))


async def _refused(type_name: str, config: dict[str, Any], context: dict[str, Any] | None = None) -> NonRetryable:
    with pytest.raises(NonRetryable) as refusal:
        await run(type_name, config, context)
    return refusal.value


def test_the_registry_has_the_promised_types_in_order() -> None:
    assert TYPES.names() == [
        "aggregate", "condition", "crypto", "csv", "cursor", "dataQuery", "dateTime", "delay", "end", "failure",
        "fields", "filter", "group", "html", "httpRequest", "javascript", "limit", "loop", "markdown", "merge",
        "placeholder", "python", "readVariables", "respond", "schedule", "set", "sort", "splitOut", "start",
        "stopWithError", "switch", "text", "topic", "unique", "waitForEvent", "waitForWebhook", "webhook", "workflow",
        "workflowCall", "writeVariables", "xml",
    ]  # fmt: skip
    assert TYPES.get("teleport") is None
    assert TYPES.handler("teleport") is None


def test_every_type_has_its_handles_and_all_but_beginnings_and_end_have_error() -> None:
    assert _handles("start", {}) == ["default"]
    assert _handles("end", {}) == []
    assert _handles("condition", {"branches": [{"id": "a"}, {"id": "b"}]}) == ["a", "b", "else"]
    assert _handles("loop", {}) == ["loop", "done"]
    assert _handles("waitForEvent", {}) == ["default", "timeout"]
    without_error = [name for name in TYPES.names() if not TYPES.get(name).has_error_handle]  # type: ignore[union-attr]
    assert without_error == ["end", "failure", "schedule", "start", "topic", "webhook", "workflowCall"]


def test_only_a_wait_without_timeout_and_an_awaited_workflow_may_last_for_ever() -> None:
    child = TYPES.get("workflow")
    assert child is not None
    assert child.unbounded({"workflow": "other"})
    assert child.unbounded({"workflow": "other", "wait": "{{ctx.input.patient}}"})
    assert not child.unbounded({"workflow": "other", "wait": False})
    node_type = TYPES.get("waitForEvent")
    assert node_type is not None
    assert node_type.unbounded({"event": "a"})
    assert not node_type.unbounded({"event": "a", "timeout": "1h"})
    others = set(TYPES.names()) - {"waitForEvent", "workflow"}
    assert not any(TYPES.get(name).unbounded({}) for name in others)  # type: ignore[union-attr]


async def test_start_says_which_input_it_received() -> None:
    assert await run("start", {}, {"input": {"a": 1}}) == HandlerResult({"started": True, "inputReceived": {"a": 1}})


async def test_end_collects_an_object_from_either_form() -> None:
    as_object = {"outputParameters": {"a": "{{ctx.n}}", "b": 2}}
    as_list = {"outputParameters": [{"name": "a", "value": 0}, {"name": "b", "value": 2}, {"name": "a", "value": 1}]}
    assert await run("end", as_object, {"n": 1}) == HandlerResult({"a": 1, "b": 2})
    assert await run("end", as_list) == HandlerResult({"a": 1, "b": 2})
    assert await run("end", {"terminate": True}) == HandlerResult({})


async def test_condition_takes_the_first_true_branch_and_looks_no_further() -> None:
    branches = [
        {"id": "no", "expression": "{{ctx.n > 5}}"},
        {"id": "yes", "expression": "{{ctx.n}}"},
        {"id": "broken", "expression": "{{ctx.absent}}"},
    ]
    assert await run("condition", {"branches": branches}, {"n": 3}) == HandlerResult({"branch": "yes"}, "yes")
    assert await run("condition", {"branches": branches[:1]}, {"n": 3}) == HandlerResult({"branch": "else"}, "else")
    with pytest.raises(TemplatePathMissing):
        await run("condition", {"branches": branches}, {"n": 0})


async def test_condition_takes_json_booleans_as_they_are() -> None:
    branches = [{"id": "never", "expression": False}, {"id": "always", "expression": True}]
    assert await run("condition", {"branches": branches}) == HandlerResult({"branch": "always"}, "always")


async def test_delay_asks_for_a_length_of_time() -> None:
    expected = HandlerResult({"delayedMs": 5_000}, queue_delay=5_000)
    assert await run("delay", {"duration": "5s"}) == expected
    assert await run("delay", {"duration": "{{ctx.s}}s"}, {"s": 5}) == expected
    assert await run("delay", {"duration": "{{ctx.ms}}"}, {"ms": 5_000}) == expected


async def test_delay_until_counts_from_now_and_the_past_is_now() -> None:
    assert await run("delay", {"until": "2026-01-01T02:00:01+02:00"}) == HandlerResult(
        {"delayedMs": 1_000}, None, 1_000
    )
    assert await run("delay", {"until": "{{ctx.at}}"}, {"at": "2001-01-01T00:00:00Z"}) == HandlerResult(
        {"delayedMs": 0}, None, 0
    )


async def test_delay_until_a_time_beyond_the_longest_wait_is_a_config_error() -> None:
    assert NOW_MS + DURATION_MS_MAX < 2_000_000_000_000
    assert (await _refused("delay", {"until": "2099-01-01T00:00:00Z"})).code == "NODE_CONFIG_INVALID"


async def test_loop_hands_over_the_list_that_its_source_resolves_to() -> None:
    items = [1, {"a": 2}]
    result = await run("loop", {"source": "{{ctx.items}}", "yield": "{{ctx.later}}"}, {"items": items})
    assert result == HandlerResult([1, {"a": 2}])
    assert await run("loop", {"source": ["{{ctx.n}}"]}, {"n": 1}) == HandlerResult([1])


@pytest.mark.parametrize("source", [None, 5, "abc", {"a": 1}, True])
async def test_loop_over_what_is_no_list_fails_for_good(source: Any) -> None:
    assert (await _refused("loop", {"source": "{{ctx.source}}"}, {"source": source})).code == "LOOP_SOURCE_NOT_A_LIST"


async def test_loop_over_more_than_its_maximum_fails_for_good() -> None:
    config = {"source": "{{ctx.items}}", "maxIterations": 2}
    assert await run("loop", config, {"items": [1, 2]}) == HandlerResult([1, 2])
    assert (await _refused("loop", config, {"items": [1, 2, 3]})).code == "LOOP_LIMIT"
    default = {"source": "{{ctx.items}}"}
    assert (await _refused("loop", default, {"items": [0] * 100_001})).code == "LOOP_LIMIT"


async def test_loop_leaves_its_while_and_yield_to_the_rules() -> None:
    assert await run("loop", {"while": "{{ctx.absent}}", "yield": "{{ctx.absent}}"}) == HandlerResult(None)


async def test_set_makes_an_object_in_the_order_written() -> None:
    result = await run("set", {"values": {"b": "{{ctx.n}}", "a": {"c": ["{{ctx.n}}!"]}}}, {"n": 1})
    assert isinstance(result, HandlerResult)
    assert list(result.output.items()) == [("b", 1), ("a", {"c": ["1!"]})]


async def test_set_does_not_resolve_what_a_template_gave() -> None:
    result = await run("set", {"values": {"a": "{{ctx.t}}"}}, {"t": "{{ctx.secret}}"})
    assert result == HandlerResult({"a": "{{ctx.secret}}"})


async def test_wait_for_event_resolves_its_match_once() -> None:
    config = {"event": "paid-{{ctx.id}}", "match": {"id": "{{ctx.id}}"}, "timeout": "1h"}
    assert await run("waitForEvent", config, {"id": 7}) == AwaitsSignal("paid-7", Payload.of({"id": 7}), 3_600_000)
    assert await run("waitForEvent", {"event": "paid"}) == AwaitsSignal("paid", None, None)


@pytest.mark.parametrize(
    ("type_name", "config", "place"),
    [
        ("delay", {"duration": "{{ctx.v}}"}, "config/duration"),
        ("set", {"values": "{{ctx.v}}"}, "config/values"),
        ("end", {"outputParameters": [{"name": "{{ctx.v}}", "value": 1}]}, "config/outputParameters/0/name"),
        ("waitForEvent", {"event": "{{ctx.v}}"}, "config/event"),
    ],
)
async def test_a_resolved_value_of_the_wrong_kind_is_a_config_error_with_its_place(
    type_name: str, config: dict[str, Any], place: str
) -> None:
    refusal = await _refused(type_name, config, {"v": False})
    assert refusal.code == "NODE_CONFIG_INVALID"
    assert place in str(refusal)
