"""The limits that the documents promise, as numbers; and that each holds at its number and not beside it."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch import json_input as intake
from anabranch.engine.rules import transitions as transition
from anabranch.engine.rules import values
from anabranch.engine.rules.coded import coded_decide as coded
from anabranch.engine.rules.graph import document as graph
from anabranch.engine.rules.shared import decisions, signals
from anabranch.engine.rules.templates import text as template_text
from anabranch.engine.rules.templates.template import compile_config, compile_template, config_problems
from anabranch.engine.rules.templates.text import EXPRESSION_DEPTH_MAX
from anabranch.errors import TemplateError
from anabranch.service.runs import child_runs

MEGABYTE = 1_048_576


@pytest.mark.parametrize(
    ("limit", "promised"),
    [
        (graph.NODES_MAX, 2_000),
        (graph.EDGES_MAX, 10_000),
        (graph.DOCUMENT_BYTES_MAX, 4 * MEGABYTE),
        (graph.NAME_LENGTH_MAX, 64),
        (graph.NODE_ID_LENGTH_MAX, 128),
        (graph.TITLE_LENGTH_MAX, 255),
        (values.KEY_CHARACTERS_MAX, 255),
        (values.VALUE_BYTES_MAX, MEGABYTE),
        (values.VALUE_DEPTH_MAX, 64),
        (decisions.CONTEXT_BYTES_MAX, 16 * MEGABYTE),
        (intake.TEXT_BYTES_MAX, 16 * MEGABYTE),
        (signals.SIGNALS_KEPT_MAX, 10_000),
        (coded.STEPS_MAX, 10_000),
        (transition.BATCH_TRANSITIONS_MAX, 256),
        (transition.BATCH_BYTES_MAX, 4 * MEGABYTE),
        (child_runs.DEPTH_MAX, 16),
        (template_text.WORKFLOW_EXPRESSIONS_MAX, 5_000),
        (template_text.WORKFLOW_EXPRESSION_CHARACTERS_MAX, 262_144),
        (EXPRESSION_DEPTH_MAX, 24),
    ],
)
def test_a_limit_is_what_is_promised(limit: int, promised: int):
    assert limit == promised


def _deep(level: str, levels: int) -> str:
    """An expression of so many levels: each is `level` around the next one, and inside is a number."""
    text = "1"
    for _ in range(levels - 1):
        text = level.replace("_", text)
    return f"{{{{ {text} }}}}"


@pytest.mark.parametrize(
    "level",
    [
        "[_]", "{'a': _}", "(not _)", "(2 + _)", "(_ + 2)", "(- _)", "(2 and _)", "(_ or 2)", "(_ if 1)",
        "(1 if _ else 2)", "(2 if 1 else _)", "(2 < _)", "(_ < 2)", "(2 in [_])", "(2 ~ _)", "(_ | string)",
        "1 | default(_)", "1 | default(boolean=_)", "(_ | default(1))",
    ],
)  # fmt: skip
def test_an_expression_may_be_as_deep_as_the_limit_and_no_deeper(level: str):
    per_level = 2 if level == "(2 in [_])" else 1
    levels = (EXPRESSION_DEPTH_MAX - 1) // per_level + 1
    assert compile_template(_deep(level, levels)).is_expression
    with pytest.raises(TemplateError, match="24 levels"):
        compile_template(_deep(level, levels + 1))


def _within(levels: int, text: str) -> Any:
    """A text inside so many lists."""
    value: Any = text
    for _ in range(levels):
        value = [value]
    return value


def test_a_template_at_the_deepest_level_of_a_config_is_checked_and_resolved():
    config = _within(values.VALUE_DEPTH_MAX, "{{ 1 + 1 }}")
    assert compile_config(config).resolve({}) == _within(values.VALUE_DEPTH_MAX, 2)  # type: ignore[arg-type]
    assert [problem for _, problem in config_problems(_within(values.VALUE_DEPTH_MAX, "{{ 1 + }}"))]
    with pytest.raises(TemplateError, match="64 levels"):
        compile_config(_within(values.VALUE_DEPTH_MAX + 1, "{{ 1 + 1 }}"))
