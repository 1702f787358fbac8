"""Fork: a new run that reuses results of another one.

A mixin of `WorkflowService`. `rules.repair` makes the plan; its rows are stored as the log of the new run, and a worker
executes its open nodes or its function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.log_pages import log_pages
from anabranch.engine.ports import InstanceHead, InstanceRow, Transition
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, CodedPlan
from anabranch.engine.rules.event_payloads import read_input, read_trigger
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.document import DOCUMENT_BYTES_MAX
from anabranch.engine.rules.graph.node_types import DATA_QUERY_TYPE
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from anabranch.errors import ForkRefused, InvalidRequest, NotFound, PlanChanged, RunTooLarge
from anabranch.run_requests import FORK, SAME_INPUT, ForkOptions, StartOptions, check_start_key
from anabranch.service.repair.retry_verbs import RetryVerbs
from anabranch.service.runs.start_verbs import check_entry_point, input_payload, new_run_id, root_head, test_head
from anabranch.service.runs.testing_verbs import TestingVerbs

# Needed only to fork a run:
if TYPE_CHECKING:
    from anabranch.engine.rules.repair import coded_fork, fork_plan
else:
    coded_fork = deferred("anabranch.engine.rules.repair.coded_fork")
    fork_plan = deferred("anabranch.engine.rules.repair.fork_plan")


@dataclass(frozen=True, slots=True)
class PlannedFork:
    """A fork that is not written."""

    row: InstanceRow
    """Of the recorded run."""
    options: ForkOptions
    head: InstanceHead
    """Of the new one."""
    plan: AnyPlan
    fork: fork_plan.ForkPlan

    def as_json(self) -> dict[str, Any]:
        """As a dry run answers."""
        fork, row = self.fork, self.row
        warnings = []
        if not row.status.is_terminal:
            run_id = row.head.instance_id
            warnings.append(f"run {run_id} is still open: what both of them execute happens twice")
        for node_id in fork.computed:
            warnings.append(f"{node_id!r} is computed and not executed: choose the nodes that shall run again")
        return {
            "plan": fork.digest,
            "at": self.options.at_seq or row.last_seq,
            "version": self.head.workflow_version,
            "reuse": fork.reuse,
            "run": fork.run,
            "undecided": fork.undecided,
            "drop": fork.drop,
            "signals": fork.signals,
            "secrets": fork.secrets,
            "rows": len(fork.events),
            "bytes": fork.state.log_bytes,
            "warnings": warnings,
        }


class ForkVerbs(TestingVerbs, RetryVerbs):
    """Commands that begin new runs with the outcomes of others."""

    async def fork_run(
        self, instance_id: str, options: ForkOptions = FORK, *, tenant_id: str, input_: Any = SAME_INPUT
    ) -> dict[str, Any]:
        """Start a run that reuses the applicable results of this one and executes the rest: `{instanceID, status,
        plan}`. A key that was used before returns its run, whatever else is asked for; then `plan` is None.

        Raises NotFound, InvalidRequest, InvalidWorkflow, InvalidInput, NoManualStart, UnknownTrigger, ForkRefused,
        PlanChanged, RunTooLarge, TooManyPending, StoreUnavailable.
        """
        first = await self._first_fork(instance_id, options, tenant_id=tenant_id)
        if first is not None:
            return first
        planned = await self.planned_fork(instance_id, options, tenant_id=tenant_id, input_=input_)
        return await self._written(planned.head, planned.fork, tenant_id=tenant_id)

    async def planned_fork(
        self, instance_id: str, options: ForkOptions = FORK, *, tenant_id: str, input_: Any = SAME_INPUT
    ) -> PlannedFork:
        """The plan of such a fork, without starting it. Raises the same."""
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if options.idempotency_key is not None:
            check_start_key(options.idempotency_key)
        self._check_fork(row, options)
        source_plan = await self._engine.plans.plan_of(row.head)
        pages = log_pages(self._store, instance_id, up_to=row.last_seq)
        log = [event async for page in pages for event in page]
        if input_ is SAME_INPUT:
            input_ = read_input(log[0].payload)
        head, plan, definition = await self._new_head(row, options, tenant_id=tenant_id)
        _check_keys(options, source_plan, plan, log)
        trigger = _renamed(read_trigger(log[0].payload), options.renames)
        check_entry_point(plan, trigger)
        payload = await input_payload(input_, plan, self.checks, tenant_id=tenant_id, trigger=trigger)
        source, now = fork_plan.RecordedRun(source_plan, row.head, log), head.created_at
        cut = await self._cut(row, options, plan)
        if isinstance(plan, CodedPlan):
            fork = await self.checks.run(
                tenant_id, coded_fork.plan_coded_fork, source, plan, head, payload, cut=cut, now=now
            )
        else:
            started = Started(payload, trigger, definition=definition)
            fork = await self.checks.run(tenant_id, fork_plan.plan_fork, source, plan, head, started, cut=cut, now=now)
        if options.if_plan not in (None, fork.digest):
            raise PlanChanged(f"the plan of the fork is {fork.digest} now")
        return PlannedFork(row, options, head, plan, fork)

    async def _first_fork(self, instance_id: str, options: ForkOptions, *, tenant_id: str) -> dict[str, Any] | None:
        """The run that a start with this key created; None if there is none. Test runs have no keys."""
        key = options.idempotency_key
        if key is None or options.graph is not None:
            return None
        check_start_key(key)
        name = (await self.get_run_status(instance_id, tenant_id=tenant_id)).head.workflow_name
        first = await self._store.find_start(tenant_id=tenant_id, workflow_name=name, idempotency_key=key)
        return None if first is None else _started(first, None)

    def _check_fork(self, row: InstanceRow, options: ForkOptions) -> None:
        head = row.head
        if row.last_seq > fork_plan.FORK_ROWS_MAX:
            raise RunTooLarge(
                f"run {head.instance_id} has {row.last_seq:,} rows; at most {fork_plan.FORK_ROWS_MAX:,} are forked"
            )
        if options.at_seq is not None and not 1 <= options.at_seq <= row.last_seq:
            raise InvalidRequest(f"the log of run {head.instance_id} has no row {options.at_seq}")
        if head.kind == CODED_KIND and options.graph is not None:
            raise ForkRefused(f"run {head.instance_id} is a coded run, and follows no graph")
        if head.kind == CODED_KIND and options.renames:
            raise InvalidRequest(f"run {head.instance_id} is a coded run: its steps cannot be renamed")
        if head.workflow_id is None and options.graph is None:
            raise InvalidRequest(f"run {head.instance_id} is a test run", hint="Give the graph that its fork follows.")

    async def _cut(self, row: InstanceRow, options: ForkOptions, plan: AnyPlan) -> fork_plan.ForkCut:
        queries: dict[str, int | None] = {}
        if isinstance(plan, Plan) and self._references is not None:
            keys = {node.config["dataQueryID"] for node in plan.nodes.values() if node.type == DATA_QUERY_TYPE}
            queries = await self._references.queries_since(keys, tenant_id=row.head.tenant_id)
        return fork_plan.ForkCut(
            seq=options.at_seq,
            chosen=options.chosen,
            redo_failed=options.redo_failed,
            renames=options.renames,
            signals=options.signals,
            queries=queries,
            log_limit=self._engine.options.log_limit,
        )

    async def _new_head(
        self, row: InstanceRow, options: ForkOptions, *, tenant_id: str
    ) -> tuple[InstanceHead, AnyPlan, Payload | None]:
        now = self._engine.clock.now()
        if options.graph is not None:
            document = dict(options.graph)
            await self._refuse_invalid(document, tenant_id)
            definition = Payload.of(document, bytes_max=DOCUMENT_BYTES_MAX)
            plan = await self.checks.run(tenant_id, self._engine.plans.compile, definition.value)
            head = test_head(definition.value, plan, tenant_id=tenant_id, now=now)
            return replace(head, forked_from=row.head.instance_id, started_by=options.started_by), plan, definition
        version = options.version or row.head.workflow_version
        try:
            found = await self.get_workflow_by_id(row.head.workflow_id or "", tenant_id=tenant_id, version=version)
        except NotFound:
            raise await self._no_version_of(row.head, version, tenant_id=tenant_id) from None
        if found.kind != row.head.kind:
            raise ForkRefused(f"version {version} of {found.name!r} is {found.kind}, and the run is {row.head.kind}")
        stored = await self._engine.plans.plan(found.workflow_id, found.version)
        start = StartOptions(version=version, idempotency_key=options.idempotency_key, started_by=options.started_by)
        head = root_head(
            found,
            stored,
            options=start,
            tenant_id=tenant_id,
            instance_id=new_run_id(now),
            now=now,
            retention_days_max=self.retention_days_max,
        )
        return replace(head, forked_from=row.head.instance_id), stored, None

    async def _written(self, head: InstanceHead, fork: fork_plan.ForkPlan, *, tenant_id: str) -> dict[str, Any]:
        await self._pending_limit.admit(tenant_id)
        state = fork.state
        outcome = await self._store.commit(
            [
                Transition(
                    instance_id=head.instance_id,
                    expected_version=0,
                    worker_id=None,
                    events=fork.events,
                    payload_bytes=state.log_bytes,
                    status=state.status,
                    available_at=head.available_at,
                    new_run=head,
                    needs=state.plan.needs,
                    started_at=head.created_at if state.started else None,
                )
            ]
        )
        instance_id = outcome.existing.get(head.instance_id, head.instance_id)
        stored = await self._store.get_instance(instance_id, tenant_id=tenant_id)
        if stored is None:
            raise NotFound(f"the workflow {head.workflow_name!r} is deleted")
        return _started(stored, fork.digest if instance_id == head.instance_id else None)


def _started(row: InstanceRow, plan: str | None) -> dict[str, Any]:
    return {"instanceID": row.head.instance_id, "status": row.status.value, "plan": plan}


def _renamed(trigger: str | None, renames: Mapping[str, str]) -> str | None:
    """The id that a node of the forked run has in the graph of its fork."""
    return next((new for new, old in renames.items() if old == trigger), trigger)


def _check_keys(options: ForkOptions, source: AnyPlan, plan: AnyPlan, log: Sequence[Event]) -> None:
    """Refuse ids that are mistyped: they would choose and rename nothing."""
    keys = {(event.node_id, event.scope) for event in log if event.node_id}
    names = {name for name, _ in keys} | (set(source.nodes) if isinstance(source, Plan) else set())
    for node_id, scope in options.chosen:
        if node_id not in names:
            raise InvalidRequest(f"the recorded run has no node or step {node_id!r}")
        if scope is not None and (node_id, scope) not in keys:
            raise InvalidRequest(f"{node_id!r} did not run in the scope {scope!r}")
    for new, old in options.renames.items():
        if isinstance(plan, Plan) and new not in plan.nodes:
            raise InvalidRequest(f"`renames`: the new run has no node {new!r}")
        if old not in names:
            raise InvalidRequest(f"`renames`: the recorded run has no node {old!r}")
