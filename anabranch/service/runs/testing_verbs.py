"""Test runs: execute a graph that is not saved.

A mixin of `WorkflowService`, above `run_verbs`. A test run is executed like every other run, but its definition
is in its log instead of among the versions, and it can be removed early.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.log_pages import log_pages
from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.events import ActivationKey
from anabranch.engine.rules.graph.document import DOCUMENT_BYTES_MAX
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.history import ActivationView, History, RunCreated
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.test_runs import WHOLE, TestRunPlan
from anabranch.engine.rules.values import Payload, checked_payload
from anabranch.errors import InvalidRequest, NotFound, RunIsTerminal, RunTooLarge
from anabranch.service.definitions.workflow_documents import INPUT_FIELD, check_test_fields
from anabranch.service.runs.run_verbs import RunVerbs
from anabranch.service.runs.start_verbs import input_payload, refuse_input, test_head
from anabranch.service.runs.test_options import (
    OPTION_FIELDS,
    Origin,
    TrialOptions,
    before,
    check_options,
    entry_point_of,
    pins_from,
    read_options,
    trial_plan,
)

# 500 runs per look: a few hundred kilobytes.
_FAMILY_PAGE = 500

# 200,000 rows of the run to continue from: folding them takes some two seconds.
ORIGIN_ROWS_MAX = 200_000


@dataclass(slots=True)
class _Known:
    """The part of another run that a test run can use: its input, where it began, its activations with an output."""

    input: Any = None
    trigger: str | None = None
    activations: dict[ActivationKey, ActivationView] = field(default_factory=dict)


class TestingVerbs(RunVerbs):
    """Test runs, started and stopped."""

    async def test_workflow(self, request: Any, *, tenant_id: str) -> str:
        """Start a test run of a definition that is not saved; its id. It is durable when this returns.

        `request` is the definition with `input` and the options `pins`, `until`, `from`, `trigger`, `listen` beside it.
        Kept for a day after its end. Raises InvalidRequest for options that are unknown or do not fit the graph,
        UnknownTrigger, NoManualStart, NotFound for an unknown run to continue from, InvalidWorkflow, InvalidInput,
        TooManyPending, StoreUnavailable.
        """
        if not isinstance(request, Mapping):
            await self._refuse_invalid(request, tenant_id)
        check_test_fields(request, OPTION_FIELDS)
        options = read_options(request)
        document = {
            field: value for field, value in request.items() if field not in OPTION_FIELDS and field != INPUT_FIELD
        }
        await self._refuse_invalid(document, tenant_id)
        definition = Payload.of(document, bytes_max=DOCUMENT_BYTES_MAX)
        plan = await self.checks.run(tenant_id, self._engine.plans.compile, definition.value)
        check_options(options, plan)
        given = request.get(INPUT_FIELD, {})
        differs, known = WHOLE, None
        if options.differ:
            known = None if options.origin is None else await self._known_of(options.origin, tenant_id)
            differs = await self._differs(options, known, definition.value, plan, tenant_id)
            plan = await self.checks.run(tenant_id, self._engine.plans.compile, definition.value, differs)
        if known is not None and INPUT_FIELD not in request:
            given = known.input
        trigger = options.trigger
        if known is not None and trigger is None and known.trigger in plan.entry_point_by_trigger:
            trigger = known.trigger
        trigger = entry_point_of(plan, trigger)
        if options.listens:
            payload = checked_payload({}, "the input")  # until the request is there
        else:
            payload = await input_payload(given, plan, self.checks, tenant_id=tenant_id, trigger=trigger)
        head = test_head(definition.value, plan, tenant_id=tenant_id, now=self._engine.clock.now())
        hold = self._engine.orchestrator.owned.may_begin(head)
        if not hold:
            await self._pending_limit.admit(tenant_id)
        started = Started(
            payload, trigger, begin=hold, definition=definition, differs=None if differs.is_whole else differs.payload
        )
        new_run = await self._engine.orchestrator.create_run(head, plan, started)
        return new_run.instance_id

    async def check_test_input(self, value: Any, schema: Any, *, trigger: str, tenant_id: str) -> None:
        """Check the request that a listening test run is about to get. Raises InvalidInput, TooManyChecks."""
        if schema is not None:
            refuse_input(await self.checks.input_problems(tenant_id, schema, value), trigger)

    async def stop_test_workflow(self, instance_id: str, *, tenant_id: str) -> None:
        """Cancel a test run and delete it with all runs below it. Raises NotFound for any other run.

        If interrupted, it can be called again: the run itself is deleted last.
        """
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if not row.head.test or row.head.parent_id is not None:
            raise NotFound(f"there is no test run {instance_id}", hint="Use cancel for runs of saved workflows.")
        await self._cancel_test(row)
        # A descendant may have started others before it was cancelled. Once all have ended or are gone, no run can be
        # created below them.
        while below := await self._store.descendants(instance_id, limit=_FAMILY_PAGE):
            for each in below:
                await self._cancel_test(each)
            for each in below:
                await self._remove_test(each)
        await self._remove_test(row)

    # -- within ---------------------------------------------------------------------------
    async def _known_of(self, origin: Origin, tenant_id: str) -> _Known:
        """The results of a run so far. Raises NotFound, InvalidRequest for a coded run, RunTooLarge."""
        row = await self.get_run_status(origin.instance_id, tenant_id=tenant_id)
        if row.head.kind == CODED_KIND:
            raise InvalidRequest(f"run {origin.instance_id} is coded: a test run can only continue from a drawn run")
        if row.last_seq > ORIGIN_ROWS_MAX:
            raise RunTooLarge(
                f"run {origin.instance_id} has {row.last_seq:,} rows; at most {ORIGIN_ROWS_MAX:,} are read"
            )
        history, found = History(left_out=row.head.left_out), _Known()
        async for page in log_pages(self._store, origin.instance_id):
            for event in page:
                change = history.take(event)
                if isinstance(change, RunCreated):
                    found.input, found.trigger = change.input, change.trigger
                elif isinstance(change, ActivationView) and (change.leaves_value or change.node_id == origin.node_id):
                    found.activations[change.key] = change
        return found

    async def _differs(
        self, options: TrialOptions, known: _Known | None, document: Any, plan: Plan, tenant_id: str
    ) -> TestRunPlan:
        if known is None or options.origin is None:
            return trial_plan(options, {}, plan)
        wanted = await self.checks.run(tenant_id, before, document, options.origin.node_id)
        return trial_plan(options, pins_from(known.activations.values(), wanted, plan, options.origin), plan)

    async def _cancel_test(self, row: InstanceRow) -> None:
        if not row.status.is_terminal:
            with suppress(RunIsTerminal, NotFound):  # it has ended, or was stopped twice at once
                await self.cancel_run(row.head.instance_id, tenant_id=row.head.tenant_id, reason=_REASON)

    async def _remove_test(self, row: InstanceRow) -> None:
        """A worker that still owns it loses its next commit, because the guarded row is gone."""
        with suppress(NotFound):
            await self._store.delete_test_instance(tenant_id=row.head.tenant_id, instance_id=row.head.instance_id)


_REASON = "the test was stopped"
