"""What code certainly reads of its `ctx`; where that is unclear, it may read anything."""

from __future__ import annotations

import pytest

from anabranch.engine.rules.code_reads import names_read


@pytest.mark.parametrize(
    ("language", "code", "names"),
    [
        ("javascript", "return ctx.order.lines.length + ctx['fee']", {"order", "fee"}),
        ("javascript", "return ctx?.input", {"input"}),
        ("python", "return ctx['input']['text'] + ctx[\"v1\"]", {"input", "v1"}),
        ("python", "return 1", set()),
    ],
)
def test_names_that_are_written_out_are_all_that_is_read(language, code, names):
    assert names_read(code, language) == names


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("javascript", "const {order} = ctx; return order"),
        ("javascript", "return ctx.hasOwnProperty('order')"),
        ("javascript", "return arguments[0].order"),
        ("javascript", "return ctx[name]"),
        ("javascript", "return ctx.$order"),
        ("python", "return ctx.get('order')"),
        ("python", "return locals()['c' + 'tx']"),
        ("python", "return 'order' in ctx and ctx['order']"),
        ("python", "for name in ctx: pass"),
    ],
)
def test_whatever_else_is_done_with_ctx_may_read_all_of_it(language, code):
    assert names_read(code, language) is None
