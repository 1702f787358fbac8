"""The holes of the engine's ancestor, and some of our own, put back one at a time.

A simulation that does not find these finds nothing. Each mutant names its hole and the smallest
change of today's source that opens it again; `hunting` sets the simulation on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.patching import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect on purpose."""

    name: str
    hole: str
    patches: tuple[Patch, ...]
    coded: bool = False
    """It is hunted in the worlds of coded runs."""


def mutant(name: str, hole: str, *patches: tuple[str, str, str], coded: bool = False) -> Mutant:
    """A mutant by its patches (function, old, new)."""
    return Mutant(name, hole, tuple(Patch(*patch) for patch in patches), coded)


_DATABASE = "testing.memory_store.database:MemoryDatabase"
_BLAME = "rules.shared.blame"
_ORCHESTRATOR = "orchestrator:Orchestrator"

# Once a decision is settled, a run with pure nodes that are left is offered their evaluation.
_OFFERED = "if self._evaluates and not owned.state.stands_still:"

MUTANTS = (
    mutant(
        "cause-without-consequences",
        "the result row is written, and what follows from it is left for later",
        ("rules.decide:_answer", "    _propagate(builder)", "    pass"),
    ),
    mutant(
        "lost-commit-forgotten",
        "the stimuli of a commit of unknown fate are not decided again",
        ("ownership.reconcile:Reconciler._refold", "owned.mailbox.stimuli[:0] = pending.stimuli", "pass"),
    ),
    mutant(
        "lost-commit-believed",
        "a commit of unknown fate is taken for written",
        ("rules.transitions:was_written", "return all(", "return True or all("),
    ),
    mutant(
        "external-rows-believed",
        "somebody else's rows are taken for those of our lost commit",
        ("rules.transitions:_same_row", "return stored is not None and (", "return stored is not None or ("),
    ),
    mutant(
        "new_run-decided-twice",
        "a start that was stored after all is decided again",
        ("rules.decide:decide", "isinstance(stimulus, Started) and state.last_seq > 0", "False"),
    ),
    mutant(
        "job-only-in-memory",
        "a dispatch that is in the log but not in a queue is performed by nobody",
        (f"{_ORCHESTRATOR}.adopt", "owes_all=True", "owes_all=False"),
    ),
    mutant(
        "nothing-performed-after-unclear-commit",
        "after an unclear commit nothing outstanding is performed",
        ("ownership.reconcile:Reconciler._refold", "owned.owes_all = True", "pass"),
    ),
    mutant(
        "attempt-ignored",
        "a late result of attempt 1 is taken for attempt 2's",
        ("rules.shared.run_state:RunState.awaits", " and activation.attempt == attempt", ""),
    ),
    mutant(
        "version-ignored",
        "two writers that each see only themselves both commit",
        ("testing.memory_store.database:_guard_holds", "row.version == transition.expected_version\n        and ", ""),
    ),
    mutant(
        "claim-keeps-version",
        "a worker that lost its lease without knowing wins its next commit",
        (f"{_DATABASE}.claim", "version=row.version + 1", "version=row.version"),
        ("testing.memory_store.database:_guard_holds", "        and row.worker_id == transition.worker_id\n", ""),
    ),
    mutant(
        "external-write-keeps-version",
        "a row is appended beside the version check, and log order is not commit order",
        (f"{_DATABASE}._append", "before.version + 1", "before.version"),
    ),
    mutant(
        "all-join-hangs-below-a-condition",
        "`all` waits until every edge is live",
        (
            "rules.drawn.joins:join_decision",
            "live + scope.dead.get(node.id, 0) < node.in_count",
            "live < node.in_count",
        ),
    ),
    mutant(
        "skip-stays-where-it-is",
        "a skipped node does not kill its edges",
        ("rules.shared.decisions:DrawnDecisionBuilder.skip", "    self.todo.append((scope, node))", "    pass"),
    ),
    mutant(
        "all-join-runs-early",
        "`all` is dispatched by its first live edge",
        ("rules.drawn.joins:join_decision", "if live and node.join_any", "if live"),
    ),
    mutant(
        "any-join-runs-again",
        "`any` is dispatched again by a late edge",
        (
            "rules.decide:_follow",
            " or target.id in scope.ended or target.id in scope.open",
            "",
        ),
    ),
    mutant(
        "iterations-collide",
        "iterations of an inner loop share the scopes of another's",
        ("rules.drawn.outcomes:go_on", "if activation.scope.path else", "if False else"),
    ),
    mutant(
        "parked-without-a-time",
        "due times live in timers only: a parked run is woken by nobody",
        (
            "rules.transitions:_set_lease",
            "transition.release, transition.available_at = True, _available_at(state, now)",
            "transition.release, transition.available_at = True, None",
        ),
    ),
    mutant(
        "short-timers-forgotten",
        "a wait that keeps its worker is not put on the heap",
        (f"{_ORCHESTRATOR}._go_on", "self._owned.schedule(owned, next_due)", "pass"),
    ),
    mutant(
        "parked-while-it-runs",
        "a run is parked although a handler's answer is outstanding",
        ("rules.transitions:_pending", "parks = _is_idle(leased, stimuli, now)", "parks = True"),
    ),
    mutant(
        "retry-never-woken",
        "a failed attempt has a due time and nobody is told of it",
        ("rules.drawn.outcomes:attempt_failed", "    builder.wake(activation)", "    pass"),
    ),
    mutant(
        "timer-by-our-own-clock",
        "a timer fires by the worker's clock, early by the store's",
        (
            "rules.transitions:_pending",
            "transition.not_before, transition.cancels = not_before, cancels",
            "transition.cancels = cancels",
        ),
    ),
    mutant(
        "live-runs-taken-at-start-up",
        "a start-up takes the live runs of other workers",
        (f"{_DATABASE}.claim", "if _is_due(row, now) or", "if row.worker_id is not None or _is_due(row, now) or"),
    ),
    mutant(
        "counted-in-company",
        "a crash is counted against everybody who was there",
        (f"{_BLAME}:judged", "if blame.company > 1:", "if blame.company > 1_000:"),
    ),
    mutant(
        "company-not-halved",
        "suspects stay together for ever, and nobody is ever found to be guilty",
        (f"{_BLAME}:judged", "blame.company // 2", "blame.company"),
    ),
    mutant(
        "suspended-at-the-first-crash",
        "a run is suspended for a crash that may have been an accident",
        (f"{_BLAME}:judged", "if crashes >= crashes_max:", "if True:"),
    ),
    mutant(
        "cleared-by-a-sibling-branch",
        "a healthy branch ends the suspicion of its run",
        (
            "rules.evolve:_evolve_suspect",
            "if not suspicion.unanswered:",
            "if not suspicion.unanswered or event.type == 'NODE_COMPLETED':",
        ),
    ),
    mutant(
        "sigterm-counted",
        "what a stopping worker gives back is taken for lost",
        (f"{_DATABASE}.release", "worker_id=None, available_at=now", "worker_id=worker_id, available_at=now"),
    ),
    mutant(
        "company-exceeded",
        "a process takes any number of suspects",
        (f"{_BLAME}:may_join", "capacity.owned + len(companies) <= limit", "True"),
    ),
    mutant(
        "started-beside-a-suspect",
        "a process goes on with everything else beside a run that is to be alone",
        ("queues.task_queue:LocalTaskQueue.add", "if self._alone not in (None, job.instance_id):", "if False:"),
    ),
    mutant(
        "complete-overwrites-cancel",
        "what comes after the end of a run is decided all the same",
        ("rules.decide:decide", "if state.terminal is not None:", "if False:"),
    ),
    mutant(
        "lease-kept-in-spite-of-everything",
        "a worker that cannot reach the store runs on beside its successor",
        ("ownership.leases:Leases.drop_unextended", "if extended_at < latest:", "if False:"),
    ),
    mutant(
        "external-writes-unnoticed",
        "a cancel or signal from another process waits for our next commit",
        ("ownership.external_changes:ExternalChanges._compare", "if changed:", "if False:"),
    ),
    mutant(
        "handlers-not-stopped",
        "a handler whose result nobody awaits runs on",
        (f"{_ORCHESTRATOR}._perform", "self._task_worker.stop_job(owned.instance_id, stop)", "pass"),
    ),
    mutant(
        "job-run-twice-at-once",
        "dispatching an attempt again in the same process runs it again",
        (f"{_ORCHESTRATOR}._dispatch", " or dispatch in owned.performing", ""),
        ("task_worker:TaskWorker.execute", "if known is None or known.stopped:", "if True:"),
        (
            "task_worker:TaskWorker._process",
            "of_instance.get(execution.dispatch) is not execution",
            "execution.dispatch not in of_instance",
        ),
    ),
    mutant(
        "first-in-first-out",
        "the jobs of a busy tenant keep another tenant's waiting until all of them are done",
        (
            "queues.task_queue:_Round.begin",
            "self.jobs[job.tenant_id] = deque((job,))\n    self.tenants.append(job.tenant_id)",
            'self.jobs[""] = deque((job,))\n    self.tenants.append("")',
        ),
        ("queues.task_queue:FairJobs.add", "of.jobs.get(job.tenant_id)", 'of.jobs.get("")'),
    ),
    mutant(
        "transition-never-passed-on",
        "a tenant is served again and again while others wait for their turn",
        ("queues.task_queue:_Round.pop", "tenants.append(tenant_id)", "tenants.appendleft(tenant_id)"),
    ),
    mutant(
        "signal-consumed-twice",
        "a signal that a wait has taken stays where it is",
        ("rules.shared.signals:RunSignals._take", "    del signals[taken.seq]\n", ""),
    ),
    mutant(
        "signal-key-ignored",
        "a signal that is sent again with its key is delivered again",
        (
            "rules.shared.decisions:receive_signal",
            "signal.key is not None and signal.key in signals.answers",
            "False",
        ),
        (f"{_DATABASE}.append_signal", 'signal.key is not None and ("signal", signal.key) in record.unique', "False"),
    ),
    mutant(
        "start-key-ignored",
        "a start that is repeated with its key starts another run",
        (f"{_DATABASE}.commit", "if holder is not None or record is not None:", "if record is not None:"),
    ),
    mutant(
        "context-of-the-day",
        "a retry sees what was written since the first attempt",
        (
            "rules.evolve:_node_dispatched",
            "activation.phase = _DISPATCHED",
            "activation.phase, activation.context = _DISPATCHED, state.context_of(scope)",
        ),
    ),
    mutant(
        "results-dropped-at-refresh",
        "what arrives while an external change is read in is not decided afterwards",
        (
            f"{_ORCHESTRATOR}.refresh",
            "self._owned.put_back(settled)",
            "[setattr(owned.mailbox, 'in_flight', False) for owned in settled]",
        ),
    ),
    mutant(
        "end-of-a-child-wakes-nobody",
        "a parent that has asked about its child and is parked then never hears of it again",
        (f"{_DATABASE}.commit", "woken_parents(transitions, won)", "[]"),
    ),
    mutant(
        "parked-before-asking-for-children",
        "a parent is parked although its child may have ended before it began to wait",
        ("rules.transitions:_is_idle", " or leased.unchecked", ""),
    ),
    mutant(
        "log-beyond-its-limit",
        "a row is written for which the log has no room",
        ("rules.shared.decisions:DecisionBuilder.append", "seq > limit.rows_max", "seq > limit.rows_max + 1"),
    ),
    mutant(
        "children-left-behind",
        "children run on although their parent has failed, or the activation that awaits them was skipped",
        (f"{_DATABASE}.commit", "cancelled_children(transitions, won)", "[]"),
    ),
    mutant(
        "grandchildren-left-behind",
        "what a cancelled child waits for runs on",
        (f"{_DATABASE}._cancel", "todo += self._awaited_by(instance_id)", "pass"),
    ),
    mutant(
        "left-by-a-limit-for-ever",
        "pure nodes that a decision had no room for are evaluated by nobody",
        (f"{_ORCHESTRATOR}._go_on", _OFFERED, "if self._evaluates and not pending.evaluated:"),
    ),
    mutant(
        "left-by-a-start-for-ever",
        "a run that was just created has its first node evaluated by nobody",
        (f"{_ORCHESTRATOR}._go_on", _OFFERED, "if self._evaluates and owned.version > 1:"),
    ),
    mutant(
        "left-by-a-takeover-for-ever",
        "after a lost worker, pure nodes are evaluated by nobody",
        (f"{_ORCHESTRATOR}._go_on", _OFFERED, "if self._evaluates and owned.state.suspicion is None:"),
    ),
    mutant(
        "start-evaluates",
        "a start is answered only when its pure nodes are evaluated",
        (
            "rules.decide:_begin",
            "_follow_ended(builder)",
            "_follow_ended(builder)\n    _propagate(builder)",
        ),
    ),
    mutant(
        "evaluation-for-nothing",
        "pure nodes cost nothing, and a batch of them holds up all other runs",
        ("rules.drawn.outcomes:evaluate_next", "builder.worked += EVALUATION_UNITS + work.spent", "pass"),
    ),
    mutant(
        "evaluated-before-its-neighbours-follow",
        "a pure node is evaluated before what has ended has had its consequences",
        (
            "rules.decide:_propagate",
            "if todo:",
            "if unevaluated and evaluate_next(builder):\n            pass\n        elif todo:",
        ),
    ),
    mutant(
        "skipped-and-evaluated",
        "a pure node that was skipped while it waited for its evaluation is evaluated",
        (
            "rules.evolve:_node_skipped",
            "    scope, node = _end_activation(state, event)",
            "    key = event.node_id, event.scope\n"
            "    skipped = state.unevaluated.get(key)\n"
            "    scope, node = _end_activation(state, event)\n"
            "    if skipped is not None:\n"
            "        state.unevaluated[key] = skipped",
        ),
    ),
    mutant(
        "context-of-the-evaluation",
        "a pure node sees what was written between its dispatch and its evaluation",
        (
            "rules.drawn.outcomes:evaluate_next",
            "node.evaluate(activation.context, work)",
            "node.evaluate(builder.state.context_of(activation.scope), work)",
        ),
    ),
    mutant(
        "evaluated-right-after-a-crash",
        "what may have killed a worker is evaluated before a handler's result is stored",
        ("rules.transitions:_evaluations_allowed", "leased.state.suspicion is None and ", ""),
    ),
    mutant(
        "evaluator-with-a-counter",
        "a pure node comes to something else when it is evaluated again",
        (
            "rules.drawn.outcomes:evaluate_next",
            "Payload.of(value, node.output_bytes_max)",
            "Payload.of({'times': builder.state.last_seq}, node.output_bytes_max)",
        ),
    ),
    mutant(
        "taken-by-two-commit-loops",
        "a run that is being committed is decided by another commit loop, on a state that may be lost",
        ("ownership.owned_instances:OwnedInstances.enqueue", "and not mailbox.in_flight ", ""),
        ("ownership.owned_instances:OwnedInstances.take", "if mailbox.in_flight:", "if False:"),
    ),
    mutant(
        "child-created-too-late",
        "a new_run that was on its way when its activation ended takes place all the same",
        (f"{_DATABASE}.commit", " and self._is_wanted(transition.new_run)", ""),
    ),
    mutant(
        "news-of-a-child-lost-in-the-services",
        "a process that ends a child takes over the parent's new version, and does not tell what it is about",
        (
            f"{_ORCHESTRATOR}._notify_parents",
            "self._owned.offer(parent, ChildEnded(state.head.instance_id, state.terminal, state.outcome))",
            "pass",
        ),
    ),
    mutant(
        "attempts-restarted",
        "a retried node begins with its first attempt again",
        ("rules.shared.run_state:_redo", "activation.attempt = redo.attempt", "activation.attempt = 0"),
    ),
    mutant(
        "cleared-by-a-signal",
        "a signal ends the suspicion against its run",
        (
            "rules.shared.run_state:signal_received",
            "arrived = read_signal(event.payload)",
            "state.suspicion, arrived = None, read_signal(event.payload)",
        ),
    ),
    mutant(
        "timer-fires-while-suspended",
        "delays, retries and timeouts fire although their run is suspended",
        ("rules.decide:_catch_up", "if not builder.state.stands_still:", "if True:"),
    ),
    mutant(
        "unknown-type-claimed",
        "a worker claims what it lacks the node types for",
        (f"{_DATABASE}.claim", "if wanted.known_code is not None:", "if False:"),
    ),
    mutant(
        "paused-workflow-claimed",
        "a worker claims what is paused with its workflow or tenant",
        (f"{_DATABASE}.may_go_on", "(tenant_id, None) not in self.pauses and", "True or"),
    ),
    mutant(
        "begun-in-spite-of-a-pause",
        "an owner that has heard of a pause goes on with what it had begun",
        (f"{_ORCHESTRATOR}._dispatch", "if not state.may_perform:", "if False:"),
        (f"{_ORCHESTRATOR}._begin_nothing", "queued = self._task_worker.withdraw(owned.instance_id)", "queued = ()"),
    ),
    mutant(
        "start-lost-in-a-pause",
        "a run that is created while its workflow is paused is not available after that",
        ("rules.transitions:_available_at", "return now if state.is_paused else due_at", "return due_at"),
    ),
    mutant(
        "cancelled-child-not-reopened",
        "a retried parent waits again for a child that stays cancelled",
        (
            "service.repair.retry_verbs:RetryVerbs._plan_child",
            "if was_taken_along:",
            "if was_taken_along:\n        return None\n    if was_taken_along:",
        ),
    ),
    mutant(
        "keys-of-the-source",
        "what a fork executes has the keys of the run that it was forked from",
        (
            "task_worker:Execution.__init__",
            "self.instance_id = head.instance_id",
            "self.instance_id = head.forked_from or head.instance_id",
        ),
    ),
    mutant(
        "child-of-the-source-awaited",
        "a fork awaits the child of the run that it was forked from",
        (
            "service.runs.child_runs:ChildRuns.start",
            "child_id(helpers.instance_id,",
            "child_id(parent.forked_from or helpers.instance_id,",
        ),
    ),
    mutant(
        "trigger-forgotten",
        "whoever takes over a run before it has begun lets it begin at the start",
        ("rules.evolve:_input_set", "state.trigger = read_trigger(event.payload)", "state.trigger = None"),
    ),
    mutant(
        "other-beginnings-open",
        "the edges of the entry points that have not fired stay open",
        ("rules.decide:_begin", "        if other is not entry_point:\n", "        if other is None:\n"),
    ),
    mutant(
        "item-taken-for-its-node",
        "a node that runs for one item is taken for the whole of its items",
        (
            "rules.graph.plan:PlanNode.within",
            "return self.item if self.item is not None and self.item.home is body",
            "return self.item if False",
        ),
    ),
    mutant(
        "cleanup-step-demanded",
        "after a retry a function must ask again for what only its failed attempt had asked for",
        ("durable.calls:Replay.__init__", "if step.created_in == attempt", "if step.created_in"),
        coded=True,
    ),
    mutant(
        "job-never-sent-again",
        "a job that the broker has lost is sent no second time",
        ("transport.job_sender:JobSender._send_again", "self._wait(sent)", "pass"),
    ),
    mutant(
        "unconfirmed-job-forgotten",
        "a job whose publication was not confirmed is taken for sent",
        ("transport.job_sender:JobSender._publish", "self._wait(sent)", "pass"),
    ),
    mutant(
        "ended-job-executed-again",
        "an executor executes a repeated job although it has its result",
        ("transport.job_executor:JobExecutor._accept", "self._ended.get(job.job_id)", "None"),
    ),
    mutant(
        "results-of-attempts-mixed",
        "the late result of an attempt is taken for that of the next one",
        (
            "transport.job_sender:job_id_of",
            'f"{execution.idempotency_key}-{execution.attempt}"',
            "execution.idempotency_key",
        ),
    ),
    mutant(
        "cancelled-job-executed-on",
        "executors are not told that nobody awaits a job any more",
        ("transport.job_sender:JobSender.cancel", "sent.is_announced and not self._is_leaving", "False"),
    ),
)
