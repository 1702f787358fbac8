"""Plausible mistakes in the rules and the runner of coded runs, put in one at a time; see `mutants`."""

from __future__ import annotations

from tests.simulation.mutants import Mutant, mutant

_BODY = "durable.body:BodyRun"
_DECIDE = "rules.coded.decide"


def _coded(name: str, hole: str, *patches: tuple[str, str, str]) -> Mutant:
    return mutant(name, hole, *patches, coded=True)


CODED_MUTANTS = (
    _coded(
        "answered-before-the-commit",
        "a step is answered when its end is decided, not when it is committed",
        (
            "orchestrator:Orchestrator._carry_out",
            "await self._commit(batch",
            "[held.note_settled() for held in batch.taken] and await self._commit(batch",
        ),
    ),
    _coded(
        "unsettled-row-acted-upon",
        "a body goes on by rows that are decided and not committed: it is answered, or another try begins, too early",
        ("durable.records:Records.is_settled", "step.seq <= self._desk.settled_seq", "True"),
        ("durable.records:Records.has_settled", "<= self._desk.settled_seq", ""),
    ),
    _coded(
        "completed-step-called-again",
        "a replay calls what has completed",
        (
            f"{_BODY}.answer",
            "record.has_ended:",
            "record.has_ended and (call.kind is not StepKind.RUN or self._replay.was_told(call.place)):",
        ),
    ),
    _coded(
        "branch-forgotten-at-suspension",
        "of what a gather waits for only the first wait is written down when the body is suspended",
        (f"{_BODY}._only_waits", "self._suspend(waits)", "self._suspend(waits[:1])"),
    ),
    _coded(
        "parked-with-a-runnable-branch",
        "a body is suspended by its waits although another branch executes a step",
        (f"{_BODY}._look", "if self._executing:", "if False:"),
        ("durable.resting:_all_answered_by", "all(", "any("),
    ),
    _coded(
        "suspended-in-the-middle-of-a-failure",
        "a gather of which one branch has just failed is taken for one that waits for the others",
        (f"{_BODY}._look", "elif not again:", "elif False:"),
    ),
    _coded(
        "crash-counted-as-an-attempt",
        "whoever takes over a run begins another attempt of its open steps",
        (
            f"{_DECIDE}:_decide",
            "if taken_over(notes, stimulus):\n",
            "if taken_over(notes, stimulus):\n"
            "                for step in list(notes.state.steps.values()) * stimulus.lapsed:\n"
            "                    if not step.has_ended and step.phase is Phase.DISPATCHED:\n"
            "                        again = step.attempt + 1\n"
            "                        notes.append(EventType.NODE_DISPATCHED, *step.place, again, EMPTY,\n"
            "                                     output_variable=step.mark)\n",
        ),
    ),
    _coded(
        "signal-fed-to-two-waits",
        "a kept signal that a wait has taken stays where it is",
        ("rules.waiting:wait", 'if "signalSeq" in note:', 'if note.get("signalSeq") in state.promises:'),
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
        ("rules.coded.state:CodedState.scope_for", "return scope_of_attempt(scope, attempt)", "return found"),
    ),
    _coded(
        "workflow-retried-for-ever",
        "the attempts of a workflow are not counted",
        (f"{_DECIDE}:_body_failed", "notes.state.plan.retry, body.attempt,", "notes.state.plan.retry, 1,"),
    ),
    _coded(
        "suspended-for-ever",
        "the end of a wait does not make a suspended body run",
        ("rules.coded.evolve:_end_step", "    _resume(state)\n", "    pass\n"),
    ),
    _coded(
        "woken-while-it-falls-asleep",
        "what ends while a body is being suspended does not make it run again",
        (f"{_DECIDE}:_body_suspended", "ready = not all(", "ready = False and not all("),
    ),
    _coded(
        "children-left-behind-by-code",
        "what a run has invoked runs on when the run has ended",
        (
            f"{_DECIDE}:CodedNotes.end_instance",
            "            self.cancels.append(child_id(self.state.head.instance_id, *step.place))\n    super()",
            "            pass\n    super(CodedNotes, self)",
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
        ("durable.context:Context.now", "self._body.now_ms", "self._body._clock.now()"),
    ),
)
