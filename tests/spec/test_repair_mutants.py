"""Each rule of retries and forks, broken on purpose, is missed by a spec: so the specs look where they must."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine.ports import Store
from anabranch.engine.store.opening import open_store
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore
from tests.conformance import test_needs as needs
from tests.conformance import test_pauses as pauses
from tests.conformance import test_reopening as stored
from tests.simulation.patching import Patch, patched
from tests.spec import test_bulk_actions as bulk
from tests.spec import test_coded_journal as journal
from tests.spec import test_forking as forking
from tests.spec import test_recovery_rules as recovery
from tests.spec import test_reopening as reopening
from tests.spec import test_suspension as suspension


@dataclass(frozen=True)
class Broken:
    """A rule that does not hold any more, and the spec that says so."""

    name: str
    patch: Patch
    spec: Callable[..., Any]
    on_sqlite: bool = False
    """The rule is the database's: the spec is played on one."""


def broken(
    name: str, function: str, old: str, new: str, spec: Callable[..., Any], *, on_sqlite: bool = False
) -> Broken:
    return Broken(name, Patch(function, old, new), spec, on_sqlite)


_RETRY = "rules.repair.retry_plan"
_FORK = "rules.repair.fork_plan:_Fork"
_EVENTS = "rules.shared.run_state"
_DATABASE = "testing.memory_store.database:MemoryDatabase"

ALL_BROKEN = (
    broken(
        "timer fires while suspended",
        "rules.decide:_catch_up",
        "if not builder.state.stands_still:",
        "if True:",
        suspension.test_no_delay_retry_or_timeout_fires_meanwhile_and_on_resume_the_oldest_comes_first,
    ),
    broken(
        "signal served while suspended",
        "rules.decide:_propagate",
        "stands_still = state.suspension is not None or state.is_paused",
        "stands_still = False",
        suspension.test_a_signal_is_promised_meanwhile_and_served_on_resume,
    ),
    broken(
        "unknown type claimed",
        f"{_DATABASE}.claim",
        "if wanted.known_code is not None:",
        "if False:",
        needs.test_a_worker_takes_only_what_it_can_run,
    ),
    broken(
        "cleared by a signal",
        f"{_EVENTS}:signal_received",
        "arrived = read_signal(event.payload)",
        "state.suspicion, arrived = None, read_signal(event.payload)",
        recovery.test_neither_signals_nor_healthy_branches_nor_timers_end_a_suspicion,
    ),
    broken(
        "paused workflow claimed",
        f"{_DATABASE}.may_go_on",
        "(tenant_id, None) not in self.pauses and",
        "True or",
        pauses.test_the_runs_of_a_paused_workflow_are_not_claimed_and_keep_their_status,
    ),
    broken(
        "tried without a row, and resumed at once",
        "rules.coded.coded_decide:_function_answered",
        "if was_on_trial and isinstance(outcome, Completed | Failed):",
        "if was_on_trial:",
        journal.test_it_is_tried_again_and_again_without_a_row,
    ),
    broken(
        "left out one row late",
        f"{_RETRY}:_of_node",
        "RetryPlan(((cause.seq, events[-1].seq),))",
        "RetryPlan(((cause.seq + 1, events[-1].seq),))",
        reopening.test_the_failed_node_is_tried_again_at_once_and_what_has_completed_is_not,
    ),
    broken(
        "the end alone is left out",
        f"{_RETRY}:_of_node",
        "RetryPlan(((cause.seq, events[-1].seq),))",
        "RetryPlan(((events[-1].seq, events[-1].seq),))",
        reopening.test_a_failure_in_an_iteration_leaves_out_the_iterations_that_it_ended,
    ),
    broken(
        "children retried whose failures are ignored",
        f"{_RETRY}:_would_end_run",
        "if failure_handle(node, scope.body) is not None:",
        "if False:",
        reopening.test_only_failures_that_nothing_handles_would_end_the_run_as_the_cause_did,
    ),
    broken(
        "sweep missing",
        "rules.decide:_sweep",
        "if not builder.state.head.generation or",
        "if True or",
        reopening.test_what_a_failing_decision_left_undrawn_is_drawn,
    ),
    broken(
        "budget not restarted",
        f"{_EVENTS}:_redo",
        "Redone(\n        redo.attempt,",
        "Redone(\n        0,",
        reopening.test_attempts_are_counted_on_and_the_budget_begins_anew,
    ),
    broken(
        "attempts restarted",
        f"{_EVENTS}:_redo",
        "activation.attempt = redo.attempt",
        "activation.attempt = 0",
        reopening.test_the_failed_node_is_tried_again_at_once_and_what_has_completed_is_not,
    ),
    broken(
        "wait timeouts not moved",
        f"{_EVENTS}:instance_reopened",
        "activation.due_at + recorded.closed_ms",
        "activation.due_at",
        reopening.test_waits_for_signals_time_out_later_by_the_time_that_the_run_was_closed,
    ),
    broken(
        "deadline kept",
        f"{_DATABASE}._reopen",
        "deadline_at=reopened.deadline_at",
        "deadline_at=before.head.deadline_at",
        stored.test_a_reopened_run_is_open_and_available_with_one_more_row,
    ),
    broken(
        "two retries win",
        f"{_DATABASE}._may_reopen",
        "row.status in (Status.FAILED, Status.CANCELLED) and row.last_seq == run.last_seq",
        "True",
        stored.test_only_what_is_as_it_was_planned_is_reopened,
    ),
    broken(
        "run counted twice",
        "store.sql.reopenings:_reopen",
        "if ended.completed_at <= counted_until:",
        "if False:",
        stored.test_a_run_is_counted_once_however_often_it_ends,
        on_sqlite=True,
    ),
    broken(
        "bulk acts twice",
        "bulk.bulk_actions:BulkActions._performer",
        'StartOptions(version=options.get("version"), idempotency_key=f"{bulk_id}:{run_id}", started_by=by)',
        'StartOptions(version=options.get("version"), started_by=by)',
        bulk.test_a_page_that_is_repeated_acts_with_the_same_keys_and_another_bulk_run_with_others,
    ),
    broken(
        "birth refused by an old ending",
        "testing.memory_store.records:InstanceRecord.has_ended",
        "if not is_left_out(left_out, event.seq)",
        "if left_out is not None",
        stored.test_a_child_is_created_although_an_end_of_its_activation_was_left_out,
    ),
    broken(
        "parent told the old end, too",
        f"{_DATABASE}.reopen",
        "changes.append(self._touch(parent))",
        "pass",
        stored.test_a_child_goes_on_only_while_its_parent_awaits_it,
    ),
    broken(
        "still suspended when reopened",
        f"{_EVENTS}:instance_reopened",
        "state.suspicion = state.suspension = None",
        "state.suspicion = None",
        reopening.test_what_was_suspended_when_it_ended_goes_on,
    ),
    broken(
        "new keys ignored",
        f"{_EVENTS}:_redo",
        "recorded.generation if recorded.new_keys else",
        "recorded.generation if False else",
        reopening.test_what_is_tried_again_has_its_old_key_or_a_new_one,
    ),
    broken(
        "handled failure redone",
        f"{_FORK}._why_not",
        "self._cut.redo_failed or",
        "True or",
        forking.test_handled_failures_are_reused_unless_they_are_to_be_redone,
    ),
    broken(
        "promised signal left",
        "rules.shared.signals:RunSignals.untaken",
        "[*self.promises, *(",
        "[*(",
        forking.test_a_signal_that_was_meant_for_an_open_wait_goes_along,
    ),
    broken(
        "reuse despite changed input",
        f"{_FORK}._why_not",
        "if changed is None:",
        "if True:",
        forking.test_changed_config_and_changed_input_run_again,
    ),
    broken(
        "answers out of order",
        f"{_FORK}._answer_next",
        "min(found,",
        "max(found,",
        forking.test_outcomes_are_given_in_the_order_in_which_they_came,
    ),
    broken(
        "the failure that ended the run is reused",
        f"{_FORK}._why_not",
        "self._ended_run(old)",
        "False",
        forking.test_the_failure_that_a_run_ended_with_is_not_reused,
    ),
    broken(
        "signals lose their keys",
        f"{_FORK}._read_source",
        "SignalSent(each.event, each.content, each.key)",
        "SignalSent(each.event, each.content, None)",
        forking.test_kept_signals_go_along_with_their_keys,
    ),
)


def play(spec: Callable[..., Any], file: Path | None = None) -> None:
    """Call a spec, with a store in memory if it takes one, or with one on this file."""
    if not inspect.iscoroutinefunction(spec):
        spec()
    elif file is not None:
        asyncio.run(_play_on(spec, open_store(f"sqlite:///{file}")))
    else:
        database = MemoryDatabase(now=lambda: time.time_ns() // 1_000_000)
        names = inspect.signature(spec).parameters
        asyncio.run(spec(**{name: MemoryStore(database) for name in names}))


async def _play_on(spec: Callable[..., Any], store: Store) -> None:
    await store.start()
    try:
        await spec(store)
    finally:
        await store.stop()


@pytest.mark.parametrize("each", ALL_BROKEN, ids=lambda each: each.name)
def test_a_broken_rule_is_missed(each: Broken, migrated_file: Path, tmp_path: Path) -> None:
    whole, cracked = (Path(shutil.copy(migrated_file, tmp_path / name)) for name in ("whole.db", "cracked.db"))
    play(each.spec, whole if each.on_sqlite else None)
    with patched([each.patch]), pytest.raises(Exception):  # noqa: B017 -- however it shows
        play(each.spec, cracked if each.on_sqlite else None)
