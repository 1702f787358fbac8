"""The node types alone: no database, no server."""

from __future__ import annotations

import asyncio

import anabranch_text.nodes  # noqa: F401  # declares the types
import pytest

from anabranch import NonRetryable
from anabranch.testing import check_config, run_handler


def test_the_most_frequent_words_are_listed():
    result = asyncio.run(run_handler("textCount", {"text": "{{ctx.input}}", "most": 1}, {"input": "a b a"}))
    assert result.output == {"words": 3, "frequent": [{"word": "a", "times": 2}]}


def test_an_empty_text_is_not_tried_again():
    with pytest.raises(NonRetryable):
        asyncio.run(run_handler("textCount", {"text": ""}))


def test_a_long_text_leaves_by_its_own_handle():
    assert asyncio.run(run_handler("textRoute", {"text": "x" * 101})).next_handle == "long"
    assert asyncio.run(run_handler("textRoute", {"text": "x"})).next_handle is None


def test_a_wrong_config_is_found_when_the_workflow_is_saved():
    assert [problem.pointer for problem in check_config("textCount", {"text": "x", "most": 0})] == ["/most"]
    assert check_config("textCount", {"text": "{{ctx.input}}"}) == []
