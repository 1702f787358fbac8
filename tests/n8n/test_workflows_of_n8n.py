"""Imported workflows of n8n give what n8n's documentation says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import Imported, import_workflow
from anabranch.testing import Answer, run_workflow
from tests.n8n.drawn import DRAWN, Drawn
from tests.n8n.drawn_code import DRAWN_CODE
from tests.n8n.drawn_data import DRAWN_DATA
from tests.n8n.drawn_lists import DRAWN_LISTS, DRAWN_SETS
from tests.n8n.drawn_merges import DRAWN_MERGES
from tests.n8n.drawn_pairs import DRAWN_PAIRS

TYPES = builtin_types()


def imported(export: Mapping[str, Any]) -> Imported:
    """The only workflow of an export."""
    [workflow] = read_exports(export)
    return import_workflow(workflow, TYPES)


@pytest.mark.parametrize(
    "drawn",
    [*DRAWN, *DRAWN_CODE, *DRAWN_DATA, *DRAWN_LISTS, *DRAWN_SETS, *DRAWN_PAIRS, *DRAWN_MERGES],
    ids=lambda drawn: drawn.name,
)
def test_a_workflow_gives_what_the_documentation_says(drawn: Drawn) -> None:
    made = imported(drawn.export())
    assert made.report.status == "exact", [(node.name, node.why) for node in made.report.nodes]
    answers = drawn.answers

    run = asyncio.run(
        run_workflow(made.document, {"n8nItems": list(drawn.items)}, http=lambda request: Answer(answers[request.path]))
    )

    assert (run.status, run.error) == ("COMPLETED", None)
    assert (run.output or {}).get("n8nItems", []) == list(drawn.gives)
