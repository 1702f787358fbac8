"""Plausible mistakes in the rules and the runner of coded runs, put in one at a time; see `mutants`."""

from __future__ import annotations

from tests.simulation.mutants import Mutant, mutant

_FUNCTION = "durable.function_run:FunctionRun"
_DECIDE = "rules.coded.coded_decide"


def _coded(name: str, hole: str, *patches: tuple[str, str, str]) -> Mutant:
    return mutant(name, hole, *patches, coded=True)


CODED_MUTANTS = (
    _coded(
        "answered-before-the-commit",
        "a step is answered when its end is decided, not when it is committed",
        (
            "orchestrator:Orchestrator._carry_out",
            "await self._commit(batch",
            "[setattr(owned, 'committed_seq', owned.state.last_seq) or (owned.listener and owned.listener())"
            " for owned in batch.owned] and await self._commit(batch",
        ),
    ),
    _coded(
        "unsettled-row-acted-upon",
        "a function goes on by rows that are decided and not committed: it is told, or an attempt begins, too early",
        (
            f"{_FUNCTION}.advance",
            "committed_seq = self._run_access.journal, self._run_access.committed_seq",
            "committed_seq = (journal := self._run_access.journal), journal and journal.last_seq",
        ),
    ),
    _coded(
        "completed-step-called-again",
        "a replay calls what has completed",
        (
            f"{_FUNCTION}._look_at_new",
            "if record is None:",
            "if record is None or (record.has_ended and call.kind is StepKind.RUN and not self._replay.unasked):",
        ),
    ),
    _coded(
        "branch-forgotten-at-suspension",
        "of what a gather waits for only the first wait is written down when the function is suspended",
        (
            f"{_FUNCTION}._only_waits",
            "for call in waits if call.asked is not None]",
            "for call in waits[:1] if call.asked]",
        ),
    ),
    _coded(
        "parked-with-a-runnable-branch",
        "a function is suspended by its waits although another branch executes a step",
        (
            f"{_FUNCTION}._take_turn",
            "if calls.running or calls.reported:",
            "if False:",
        ),
    ),
    _coded(
        "crash-counted-as-an-attempt",
        "whoever takes over a run begins another attempt of its open steps",
        (
            f"{_DECIDE}:_decide",
            "if taken_over(builder, stimulus):\n",
            "if taken_over(builder, stimulus):\n"
            "                for step in list(builder.state.steps.values()) * (stimulus.blame is not None):\n"
            "                    if not step.has_ended and step.phase is Phase.DISPATCHED:\n"
            "                        again = step.attempt + 1\n"
            "                        builder.append(EventType.NODE_DISPATCHED, *step.key, again, EMPTY,\n"
            "                                     mark=step.mark)\n",
        ),
    ),
    _coded(
        "signal-fed-to-two-waits",
        "a kept signal that a wait has taken stays where it is",
        (
            "rules.shared.signals:RunSignals.wait_recorded",
            "if taken is not None:",
            "if taken is not None and taken.seq in self.promises:",
        ),
    ),
    _coded(
        "version-pin-ignored",
        "a run is taken up by the newest version that the worker knows",
        (
            "durable.runner:Runner.execute",
            "self.registry.find(name, version)",
            "self.registry.find(name, 2) or self.registry.find(name, version)",
        ),
    ),
    _coded(
        "retry-keeps-its-failed-step",
        "the next attempt of a workflow is told the failure of the one before",
        ("rules.coded.coded_state:CodedState.scope_for", "return scope_of_attempt(scope, attempt)", "return found"),
    ),
    _coded(
        "workflow-retried-for-ever",
        "the attempts of a workflow are not counted",
        (
            f"{_DECIDE}:_function_failed",
            "builder.state.plan.retry, function.counted_attempt,",
            "builder.state.plan.retry, 1,",
        ),
    ),
    _coded(
        "suspended-for-ever",
        "the end of a wait does not make a suspended function run",
        ("rules.coded.coded_state:_end_step", "    _resume(state)\n", "    pass\n"),
    ),
    _coded(
        "children-left-behind-by-code",
        "what a run has invoked runs on when the run has ended",
        (
            f"{_DECIDE}:CodedDecisionBuilder.end_instance",
            "            self.cancels.append(step.child_of(self.state.head.instance_id))\n    super()",
            "            pass\n    super(CodedDecisionBuilder, self)",
        ),
    ),
    _coded(
        "signal-without-a-key",
        "a step that is called again after a crash signals again",
        ("durable.steps:Steps._signal", "key=helpers.idempotency_key", "key=None"),
    ),
    _coded(
        "clock-of-the-moment",
        "`ctx.now()` is the time of the call, not that of the log",
        ("durable.context:Context.now", "self._function_run.now_ms", "self._function_run._clock.now()"),
    ),
)
