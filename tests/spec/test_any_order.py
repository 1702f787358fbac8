"""Whatever arrives in whatever order, over whatever graph: the laws hold, and the run comes to an end.

Results good and bad, duplicates, strays, timers, signals from here and from elsewhere, cancels,
crashes and takeovers, mixed at random. `scenario` checks the laws after every one of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.outcomes import LOOP_WORK_MAX
from anabranch.engine.rules.drawn.scopes import base_of, is_pass, scope_key_of
from anabranch.engine.rules.events import ENDINGS, ActivationKey, EventType
from anabranch.engine.rules.evolve import outstanding
from anabranch.engine.rules.graph.plan import Body
from anabranch.engine.rules.stimuli import NodeResult
from tests.spec import scenario
from tests.spec.scenario import HANDED_OVER, LAPSED, TAIL, Scenario, asks_for, cancel, completed, failed, signal
from tests.spec.shapes import random_shape

# 40 stimuli reach the second iteration of an inner loop in most shapes; a run that is still open is
# then finished in at most that many steps more.
STIMULI = 40
STEPS_TO_FINISH_MAX = 2_000

# Mostly loops open what they may; some decisions have worked enough after one iteration.
PATIENCE = (LOOP_WORK_MAX, LOOP_WORK_MAX, 1)

dice = st.randoms(use_true_random=False)
patiently = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])


@patiently
@given(dice)
def test_the_laws_hold_after_every_stimulus(rng: random.Random):
    deadline_in_ms = rng.choice([None, None, None, 30_000])
    run = scenario.given(random_shape(rng), deadline_in_ms=deadline_in_ms, work_max=rng.choice(PATIENCE))
    Weather(rng, run).blow(STIMULI)  # the scenario checks all laws after each stimulus
    assert run.state.started, "the run was begun"


@patiently
@given(dice)
def test_every_run_comes_to_an_end_once_the_trouble_stops(rng: random.Random):
    run = scenario.given(random_shape(rng), work_max=rng.choice(PATIENCE))
    Weather(rng, run).blow(STIMULI)
    finish(run)
    if run.status == "COMPLETED" and not _terminated(run):
        assert _unended(run) == []


@patiently
@given(dice)
def test_duplicates_of_every_result_change_nothing(rng: random.Random):
    run = scenario.given(random_shape(rng))
    weather = Weather(rng, run)
    while run.owed:
        result = weather.result(rng.choice(sorted(run.owed)))
        run.when(result)
        assert run.when(result).nothing


@patiently
@given(st.integers(0, 10**6))
def test_a_crash_after_any_row_changes_nothing(seed: int):
    """Two runs of one shape with the same stimuli; one forgets its memory before each of them."""
    steady, forgetful = (scenario.given(random_shape(random.Random(seed))) for _ in range(2))
    rng = random.Random(seed)
    for _ in range(STIMULI):
        if not steady.owed:
            break
        result = Weather(rng, steady).result(rng.choice(sorted(steady.owed)))
        steady.when(result)
        forgetful.crashed().when(result)
    assert _rows(steady) == _rows(forgetful)


class Weather:
    """Random stimuli for one run."""

    def __init__(self, rng: random.Random, run: Scenario) -> None:
        self._rng = rng
        self._run = run
        self._sent: list[NodeResult] = []

    def blow(self, stimuli: int) -> None:
        """Offer so many stimuli, or as many as the run lives for (and then a few more)."""
        kinds: list[tuple[int, Callable[[], object]]] = [
            (60, self._answer),
            (8, self._duplicate),
            (5, self._stray),
            (10, lambda: self._run.later(self._rng.choice([0, 1, 500, 1_000, 5_000]))),
            (8, lambda: self._run.when(self._signal())),
            (4, self._external_signal),
            (4, lambda: self._run.crashed().when(self._rng.choice([LAPSED, HANDED_OVER]))),
            (1, lambda: self._run.when(cancel()) if self._rng.random() < 0.3 else None),
        ]
        weights = [weight for weight, _ in kinds]
        for _ in range(stimuli):
            self._rng.choices([act for _, act in kinds], weights)[0]()

    def result(self, node: str) -> NodeResult:
        """What the handler of a running attempt may come to."""
        rng = self._rng
        node_id, scope, _ = scenario.parts_of(node)
        planned = self._run.plan.node_at(node_id, scope)
        assert planned is not None
        handle = rng.choice([None, None, *sorted(planned.handles)])
        output = {node_id: rng.randint(0, 9)} if planned.is_end else rng.choice([None, 1, "text", [1], {"k": 1}])
        if planned.loop is not None:
            output = [rng.randint(0, 9) for _ in range(rng.randint(0, 3))] if planned.loop.mode == "forEach" else None
        fate = rng.random()
        if fate < 0.15:
            result = failed(node, retryable=rng.random() < 0.6)
        elif fate < 0.25 and planned.loop is None:
            result = completed(node, output, handle=handle, delay_ms=rng.choice([0, 10, 3_000]))
        elif fate < 0.35 and planned.loop is None and not planned.is_end:
            match = rng.choice([None, {"k": 0}, {"k": 1}])
            result = asks_for(node, rng.choice("pq"), match=match, timeout_ms=rng.choice([None, 500]))
        else:
            result = completed(node, output, handle=handle)
        self._sent.append(result)
        return result

    def _answer(self) -> None:
        if self._run.owed:
            self._run.when(self.result(self._rng.choice(sorted(self._run.owed))))

    def _duplicate(self) -> None:
        if self._sent:
            self._run.when(self._rng.choice(self._sent))

    def _stray(self) -> None:
        node = self._rng.choice(sorted(self._run.plan.nodes))
        scope = self._rng.choice(["", f"{node}[0]/", "nowhere[7]/"])
        self._run.when(completed(f"{scope}{node}#{self._rng.randint(1, 3)}", {}))

    def _signal(self) -> object:
        key = self._rng.choice([None, None, "k1", "k2"])
        return signal(self._rng.choice("pq"), self._rng.choice([None, {"k": 0}, {"k": 1, "more": True}]), key=key)

    def _external_signal(self) -> None:
        if not self._run.state.is_terminal:
            self._run.written_elsewhere(signal(self._rng.choice("pq"), {"k": self._rng.randint(0, 1)}))
            self._run.crashed().when(TAIL)


def finish(run: Scenario) -> None:
    """Answer everything kindly until the run has ended."""
    for _ in range(STEPS_TO_FINISH_MAX):
        if run.state.is_terminal:
            return
        if run.owed:
            run.when(_kind_answer(run, min(run.owed)))
        elif run.due:
            run.later(max(0, min(run.due.values())))
        else:
            event, waits = next(iter(run.state.signals.waits.items()))
            wait = next(iter(waits.values()))
            match = wait.events[event]
            run.when(signal(event, None if match is None else match.value))
    raise AssertionError(f"the run does not come to an end: {run.status}, owed {run.owed}, due {run.due}")


def _kind_answer(run: Scenario, node: str) -> NodeResult:
    planned = run.plan.node_at(*scenario.parts_of(node)[:2])
    assert planned is not None
    if planned.loop is not None:
        return completed(node, [1] if planned.loop.mode == "forEach" else None)
    return completed(node, {}, handle="else" if planned.type == "condition" else None)


def _terminated(run: Scenario) -> bool:
    return any(event.type is EventType.NODE_COMPLETED and run.plan.nodes[event.node_id].terminate for event in run.log)


def _unended(run: Scenario) -> list[ActivationKey]:
    """Nodes of opened scopes that have no ending."""
    ended = {(event.node_id, event.scope) for event in run.log if event.type in ENDINGS}
    scopes = {event.scope for event in run.log}
    scopes |= {base_of(scope) for scope in scopes}
    begun = {(scope_key.node_id, scope_key.scope) for scope_key in map(scope_key_of, filter(is_pass, scopes))}
    expected = {(node.id, scope) for scope in scopes for node in _body_of(run, scope).nodes} - begun
    assert not [command for command in outstanding(run.state) if isinstance(command, Dispatch)]
    return sorted(expected - ended)


def _body_of(run: Scenario, scope: str) -> Body:
    if not scope:
        return run.plan.root
    node = run.plan.nodes[scope_key_of(scope).node_id]
    part = node.region if is_pass(scope) else node.loop
    assert part is not None
    return part.body


def _rows(run: Scenario) -> list[tuple[object, ...]]:
    return [(e.seq, e.type, e.node_id, e.scope, e.attempt, e.payload.raw, e.next_handle) for e in run.log]
