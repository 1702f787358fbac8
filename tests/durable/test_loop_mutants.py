"""Plausible mistakes in the event loop and around it, put in one at a time: one of its promises is broken by each."""

from __future__ import annotations

import pytest

from tests.durable.loop_promises import PROMISES
from tests.simulation.patching import Patch, patched

_FUNCTION = "durable.function_run:FunctionRun"
_LOOP = "durable.workflow_loop:WorkflowLoop"

MUTANTS: dict[str, tuple[Patch, ...]] = {
    "two answers in one drain": (
        Patch(
            f"{_FUNCTION}.advance",
            "self._loop.drain()",
            "(self._calls.of(_ENDED)"
            " and self._replay.next(self._open_journal().endings, committed_seq=self._run_access.committed_seq))"
            " or self._loop.drain()",
        ),
    ),
    "answers in the order in which they were asked for": (
        Patch(
            f"{_FUNCTION}._deliver_next",
            "call, record = self._calls.at(key), journal.steps[key]",
            "key = next((each.key for each in self._calls.of(_ENDED)), key)\n"
            "    call, record = self._calls.at(key), journal.steps[key]",
        ),
    ),
    "tasks hash by their addresses": (
        Patch("durable.workflow_loop:WorkflowTask.__hash__", "self.number", "id(self) // 16"),
    ),
    "timers are named by the order of their calls": (
        Patch(f"{_FUNCTION}._timer_set", "scope_of_timer(due_at, timer.number)", "f'#{self._loop._made}'"),
    ),
    "a timer is told before its commit": (
        Patch(
            f"{_FUNCTION}._timers_come",
            "self._hand_in(call, self._report_of(call, 1, call.wait), journal)",
            "self._hand_in(call, self._report_of(call, 1, call.wait), journal)\n"
            "            self._loop.fire(call.timer)\n"
            "            self._loop.drain()",
        ),
    ),
    "a timer that is cancelled keeps its row open": (
        Patch(f"{_FUNCTION}._timer_cancelled", "self._cancel_step(timer.owner)", "pass"),
    ),
    "a timer is recorded as soon as it is set": (
        Patch(
            f"{_FUNCTION}._begin_new",
            "if call.timer is not None:\n            continue",
            "if call.timer is not None:\n"
            "            self._hand_in(call, self._report_of(call, 1, call.wait))\n"
            "            continue",
        ),
    ),
    "time is the clock's": (
        Patch(
            f"{_FUNCTION}._set_time",
            "at_ms - self._began_at",
            "self._clock.now() - self._began_at + self._loop._made % 7",
        ),
    ),
    "unwound by a cancellation": (
        Patch("durable.workflow_loop:_unwound", "Suspended())", "__import__('asyncio').CancelledError())"),
    ),
    "questions are allowed while unwinding": (
        Patch(f"{_FUNCTION}.ask", "journal = self._open_journal()", "journal = self._run_access.journal"),
    ),
    "finished futures are told while unwinding": (
        Patch(f"{_LOOP}.call_soon", "if not self._is_open:", "if False:"),
        Patch(
            f"{_LOOP}.unwind",
            "task, coroutine, context = self._tasks[number]",
            "while self._ready:\n"
            "                self._ready.popleft()._run()\n"
            "            task, coroutine, context = self._tasks[number]",
        ),
    ),
    "all runs have the same seed": (Patch("rules.coded.replaying:seed_of", "return ", "return 0 and "),),
    "every call of a function has a seed of its own": (
        Patch("rules.coded.replaying:seed_of", "return ", "return id(object()) + __import__('time').time_ns() + "),
        Patch(
            f"{_FUNCTION}.__init__",
            "seed_of(run_id) if activation.seed is None else activation.seed",
            "seed_of(run_id)",
        ),
    ),
    "tasks left behind are not named": (Patch(f"{_FUNCTION}._leave", "if ended and (left", "if False and (left"),),
    "touched from outside": (Patch(f"{_LOOP}.call_soon", "if not self._is_open:", "if False:"),),
    "the rules of older versions hold for new logs": (
        Patch(f"{_FUNCTION}._fire_unrecorded", "since = self._new_rules_since", "since = None"),
    ),
    "older versions are replayed by new rules": (
        Patch(f"{_FUNCTION}._fire_unrecorded", "since = self._new_rules_since", "since = 0"),
    ),
    "what a cancelled step comes to is told": (
        Patch(f"{_FUNCTION}._cancel_step", "self._calls.end(call)\n", "pass\n"),
    ),
    "a cancelled step goes on": (Patch(f"{_FUNCTION}._cancel_step", "call.task.cancel()", "pass"),),
    "as_completed takes coroutines": (
        Patch("durable.workflow_loop:_is_made_by_as_completed", "return True", "return False"),
    ),
}


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_mistake_breaks_a_promise(mistake: str) -> None:
    with patched(MUTANTS[mistake]):
        for check in reversed(PROMISES.values()):  # the quick ones first
            try:
                check()
            except Exception:  # noqa: BLE001 -- whatever it is, it is seen
                return
    pytest.fail(f"{mistake}: nobody notices")
