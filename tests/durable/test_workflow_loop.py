"""The event loop of workflow functions: what needs no outside world is the same on every replay."""

from __future__ import annotations

import pytest

from tests.durable.loop_promises import PROMISES


@pytest.mark.parametrize("name", PROMISES)
def test_a_workflow_function_may_rely_on_it_that(name: str) -> None:
    assert_promise = PROMISES[name]
    assert_promise()
