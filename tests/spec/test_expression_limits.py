"""How many expressions a workflow may have: counted before any is compiled, and each compiled once."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.graph.validate import validate
from anabranch.engine.rules.templates import template
from anabranch.engine.rules.templates.text import WORKFLOW_EXPRESSION_CHARACTERS_MAX, WORKFLOW_EXPRESSIONS_MAX
from anabranch.handlers.registry import builtin_types


def drawn(*texts: str) -> dict[str, Any]:
    """A workflow that has these texts in the configs of 100 nodes."""
    nodes = [
        {
            "id": f"n{number}",
            "type": "set",
            "config": {"values": {f"v{place}": text for place, text in enumerate(part)}},
        }
        for number, part in enumerate([texts[start::100] for start in range(100)])
    ]
    edges = [{"upstreamNodeID": "start", "downstreamNodeID": node["id"]} for node in nodes]
    return {"name": "many", "nodes": [{"id": "start", "type": "start"}, *nodes], "edges": edges}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that are compiled."""
    seen: list[str] = []
    real = template._compile_expression

    def noting(source: Any, **options: Any) -> Any:
        seen.append(source.text)
        return real(source, **options)

    monkeypatch.setattr(template, "_compile_expression", noting)
    template._compile_cached.cache_clear()
    return seen


def test_a_workflow_may_have_so_many_expressions_and_each_is_compiled_once(compiled: list[str]):
    texts = [f"{{{{ ctx.input.a{number} }}}}" for number in range(WORKFLOW_EXPRESSIONS_MAX)]
    assert validate(drawn(*texts), builtin_types()).valid
    assert len(compiled) <= 2 * WORKFLOW_EXPRESSIONS_MAX, "with and without the right to read secrets"


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["{{ 1 }}"] * (WORKFLOW_EXPRESSIONS_MAX + 1), id="many texts"),
        pytest.param(["{{1}}" * 400] * 13, id="many in a text"),
        pytest.param(
            ["{{ '" + "x" * 2_000 + "' }}"] * (WORKFLOW_EXPRESSION_CHARACTERS_MAX // 2_000 + 1), id="long ones"
        ),
    ],
)
def test_more_are_refused_without_compiling_any(compiled: list[str], texts: list[str]):
    report = validate(drawn(*texts), builtin_types())
    assert [problem.code for problem in report.errors] == ["TOO_MANY_EXPRESSIONS"]
    assert compiled == []


def test_text_without_expressions_does_not_count():
    assert validate(drawn(*["x" * 10_000] * 100), builtin_types()).valid
