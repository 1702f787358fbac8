"""Mistakes in the rules of loops that are drawn with edges, cursors and mapped nodes: the oracle soon finds each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from anabranch.engine.rules import evolve as evolving
from anabranch.engine.rules.drawn import outcomes
from anabranch.engine.rules.drawn.drawn_state import Activation, InstanceState, RegionRun, Scope
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.graph import compile as compiling
from anabranch.engine.rules.graph.plan import AGAIN, PlanNode
from anabranch.engine.rules.values import Payload
from anabranch.handlers.types import loop as loop_type
from tests import driving
from tests.oracle.graphs import Case
from tests.oracle.looping_graphs import cursor_case, looping_case
from tests.oracle.mapped_graphs import mapped_case
from tests.oracle.test_random_graphs import assert_as_predicted

# 60 graphs show each mistake several times over.
GRAPHS = 60

# Some mistakes let a run go round for ever: no graph here takes a tenth of this.
STEPS_MAX = 20_000

Patch = Callable[[pytest.MonkeyPatch], None]


def pass_number_not_raised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcomes, "pass_path", lambda header, scope, number: f"{scope}/{header}#1".lstrip("/"))


def exit_verdict_at_every_pass(patch: pytest.MonkeyPatch) -> None:
    closes = evolving._close_pass

    def closed(state: InstanceState, owner: Activation, event: Event) -> bool:
        has_ended = closes(state, owner, event)
        if not has_ended and owner.region is not None:
            evolving._leave_region(owner.scope, owner.node, owner.region.exits)
        return has_ended

    patch.setattr(evolving, "_close_pass", closed)


def dead_exit_lost(patch: pytest.MonkeyPatch) -> None:
    def left(scope: Scope, header: PlanNode, live: Mapping[int, Payload]) -> None:
        before = dict(scope.dead)
        leaves(scope, header, live)
        scope.dead = before

    leaves = evolving._leave_region
    patch.setattr(evolving, "_leave_region", left)


def again_forgotten(patch: pytest.MonkeyPatch) -> None:
    leaves_by = evolving._leave_by

    def left_by(run: RegionRun, number: int, output: Payload) -> None:
        if number != AGAIN:
            leaves_by(run, number, output)

    patch.setattr(evolving, "_leave_by", left_by)


def next_pass_before_a_side_branch_has_ended(patch: pytest.MonkeyPatch) -> None:
    leaves_by = evolving._leave_by

    def left_by(run: RegionRun, number: int, output: Payload) -> None:
        leaves_by(run, number, output)
        if number == AGAIN and run.open_pass is not None:
            run.open_pass.remaining = 1  # as if nothing else were to end in it

    patch.setattr(evolving, "_leave_by", left_by)


def again_edges_counted_in_the_join(patch: pytest.MonkeyPatch) -> None:
    connects = compiling._PlanCompiler._connect

    def connected(compiler: Any) -> None:
        connects(compiler)
        for edge in compiler._structure.again:
            compiler._nodes[edge.target].in_count += 1

    patch.setattr(compiling._PlanCompiler, "_connect", connected)


def cursor_forgets_where_it_was(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scope, "advance", lambda scope, cursor, batch: None)


def items_ignore_their_failures_with_the_node(patch: pytest.MonkeyPatch) -> None:
    maps = compiling._PlanCompiler._mapped

    def mapped(compiler: Any, written: Any, mapping: Any, home: Any) -> PlanNode:
        node = maps(compiler, written, mapping, home)
        assert node.item is not None
        node.item.error_handling = written.error_handling
        return node

    patch.setattr(compiling._PlanCompiler, "_mapped", mapped)


def batches_not_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop_type, "batches_of", lambda items, size: items)


MISTAKES: tuple[Patch, ...] = (
    pass_number_not_raised,
    exit_verdict_at_every_pass,
    dead_exit_lost,
    again_forgotten,
    next_pass_before_a_side_branch_has_ended,
    again_edges_counted_in_the_join,
)


OTHERS: tuple[tuple[Patch, Callable[[int], Case]], ...] = (
    (cursor_forgets_where_it_was, cursor_case),
    (items_ignore_their_failures_with_the_node, mapped_case),
    (batches_not_made, mapped_case),
)

ALL = [*((mistake, looping_case) for mistake in MISTAKES), *OTHERS]


@pytest.mark.parametrize(
    ("mistake", "drawn"), [pytest.param(*each, id=each[0].__name__.replace("_", "-")) for each in ALL]
)
def test_a_mistake_is_found(mistake: Patch, drawn: Callable[[int], Case], monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    monkeypatch.setattr(driving, "STEPS_MAX", STEPS_MAX)
    assert any(_is_found(drawn(seed), seed) for seed in range(GRAPHS))


def _is_found(case: Case, seed: int) -> bool:
    try:
        assert_as_predicted(case, order=seed, duplicate=False, evaluations_max=0, is_ordered=False)
    except Exception:  # noqa: BLE001 -- the oracle's word, or an assertion of the rules themselves
        return True
    return False
