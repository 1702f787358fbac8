"""Start runs: turn a version of a workflow and the options of a request into a stored run.

A mixin of `WorkflowService`, above `read_verbs`, and the functions that make a run's id, input and head, which tests,
forks and `child_runs` use, too. A start returns once the run is durable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.lifecycle import Engine
from anabranch.engine.plans import TEST_VERSION, ActiveVersions
from anabranch.engine.ports import InstanceRow, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, CodedPlan
from anabranch.engine.rules.event_payloads import read_input, read_trigger
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.document import derive_name
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.pools import Needs
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import VALUE_BYTES_MAX, Payload, checked_payload, is_key
from anabranch.errors import (
    InvalidInput,
    InvalidRequest,
    NoManualStart,
    NotFound,
    TooManyPending,
    UnknownNodeType,
    UnknownTrigger,
    UnknownWorkflow,
)
from anabranch.run_requests import (
    SAME_INPUT,
    START_NOW,
    StartedRun,
    StartOptions,
    check_start,
    check_start_key,
    is_reserved,
)
from anabranch.service.definitions.checks import Checks
from anabranch.service.definitions.workflow_references import References
from anabranch.service.runs.pending_limit import PendingLimit
from anabranch.service.runs.read_verbs import ReadVerbs

# A day, whatever the workflow sets for real runs: results of tests are looked at right away.
TEST_RETENTION_DAYS = 1

# The name of a test run of a workflow without name and title.
TEST_NAME = "test"

_DAY_MS = 86_400_000

START_REFUSALS = (NotFound, InvalidInput, InvalidRequest, NoManualStart, TooManyPending)
"""Errors of a start that return the earlier run instead if its key was used before."""

# 100 re-runs of re-runs: more than is ever useful.
RERUNS_FOLLOWED_MAX = 100


class StartVerbs(ReadVerbs):
    """Starts of runs."""

    def __init__(
        self,
        *,
        engine: Engine,
        node_types: NodeTypes,
        retention_days_max: int,
        pending_max: int,
        pending_per_tenant_max: int | None = None,
        references: References | None = None,
    ) -> None:
        super().__init__(engine=engine, node_types=node_types, references=references)
        self.retention_days_max = retention_days_max
        self._active = ActiveVersions()
        self._run_ids = RunIds()
        self._pending_limit = PendingLimit(
            store=engine.store, clock=engine.clock, runs_max=pending_max, runs_per_tenant_max=pending_per_tenant_max
        )

    def check_can_run(self, *, kind: str, workflow: str, version: int, node_types: Sequence[str] = ()) -> None:
        """Raise UnknownWorkflow or UnknownNodeType for a run that needs what this process does not have; for processes
        that run nothing else."""
        needs = Needs(kind == CODED_KIND, workflow, version, node_types)
        if self._engine.plans.can_run(needs):
            return
        if needs.coded:
            raise UnknownWorkflow(
                f"{needs.workflow} in version {needs.version} is a Python function, and no imported module declares it",
                hint=f"Pass `--import FILE` with the file that declares version {needs.version}.",
            )
        raise UnknownNodeType(
            f"the run has nodes of the types {', '.join(needs.node_types)}, and not all of them are installed here",
            hint="Pass `--import FILE` with the file that declares them.",
        )

    async def execute_workflow(
        self, workflow: str, input_: Any, options: StartOptions = START_NOW, *, tenant_id: str
    ) -> StartedRun:
        """Start a run; it is durable when this returns.

        A key that was used before returns the first run, even if the rest of the request would be rejected.
        Raises NotFound, InvalidInput, InvalidRequest (for reserved keys, too), NoManualStart, UnknownTrigger,
        TooManyPending, StoreUnavailable.
        """
        if options.idempotency_key is not None:
            check_start_key(options.idempotency_key)
        return await self._start_checked(workflow, input_, options, tenant_id=tenant_id)

    async def start_triggered_run(
        self, workflow: str, input_: Any, options: StartOptions, *, tenant_id: str
    ) -> StartedRun:
        """The same for triggers, under one of the keys that are reserved for them."""
        key = options.idempotency_key
        assert key is not None and is_reserved(key), "the key of a trigger must be a reserved one"
        return await self._start_checked(workflow, input_, options, tenant_id=tenant_id)

    async def _start_checked(self, workflow: str, input_: Any, options: StartOptions, *, tenant_id: str) -> StartedRun:
        now = self._engine.clock.now()
        # Both attempts use one id: if the first was written although it failed, the second finds it.
        request = _StartRequest(workflow, input_, options, tenant_id, self._run_ids.new(now), now)
        try:
            if options.version is not None or options.retention_days is not None:
                check_start(version=options.version, retention_days=options.retention_days)
            return await self._start_version(request)
        except START_REFUSALS:
            # Looked up only here: nearly every start has a new key and must not pay for a read.
            first = await self.find_first_run(workflow, options.idempotency_key, tenant_id=tenant_id)
            if first is None:
                raise
            return first

    async def rerun(
        self, instance_id: str, options: StartOptions = START_NOW, *, tenant_id: str, input_: Any = SAME_INPUT
    ) -> StartedRun:
        """Start a new run like another one: with its input unless another is given, of its version unless one is named.

        It begins where that one began.

        Raises NotFound, also if the workflow is deleted; InvalidInput, InvalidRequest (for test runs, too),
        TooManyPending, StoreUnavailable.
        """
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.head.workflow_id is None:
            raise InvalidRequest(f"run {instance_id} is a test run of a graph that is not saved", hint="Test it again.")
        created = (await self._store.read_log(instance_id, limit=1))[0].payload
        if input_ is SAME_INPUT:
            input_ = read_input(created)
        version = options.version or row.head.workflow_version
        options = replace(options, rerun_of=instance_id, version=version, trigger=read_trigger(created))
        try:
            return await self.execute_workflow(row.head.workflow_id, input_, options, tenant_id=tenant_id)
        except NotFound:
            raise await self._no_version_of(row.head, version, tenant_id=tenant_id) from None

    async def newest_rerun(self, instance_id: str, *, tenant_id: str) -> InstanceRow | None:
        """The newest run that repeats this one, directly or through others; None if there is none."""
        newest = None
        for _ in range(RERUNS_FOLLOWED_MAX):
            found = await self._store.list_instances(RunFilter(rerun_of=instance_id), tenant_id=tenant_id, limit=1)
            if not found:
                break
            newest, instance_id = found[0], found[0].head.instance_id
        return newest

    async def find_first_run(self, workflow: str, idempotency_key: str | None, *, tenant_id: str) -> StartedRun | None:
        """The run that was started with this key, in any state; None if there is none."""
        if idempotency_key is None or not is_key(idempotency_key):
            return None
        try:
            found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        except NotFound:
            return None
        first = await self._store.find_start(
            tenant_id=tenant_id, workflow_name=found.name, idempotency_key=idempotency_key
        )
        return None if first is None else StartedRun(first.head.instance_id, first.status, created=False)

    async def _start_version(self, request: _StartRequest) -> StartedRun:
        """Start the requested version, or the active one, which is not read again if it is known."""
        tenant_id, workflow, version = request.tenant_id, request.workflow, request.options.version
        known = self._active.get(tenant_id, workflow) if version is None else None
        if known is not None:
            # Only a created run proves that the cached version is still active. Otherwise read it.
            try:
                started = await self._start(request, known, only_active=True)
            except START_REFUSALS:
                pass
            else:
                if started.created:
                    return started
        found = await self.get_startable(workflow, tenant_id=tenant_id, version=version)
        if version is None and found.tenant_id == tenant_id:  # a coded one has options that change with its code
            self._active.note(tenant_id, workflow, found)
        return await self._start(request, found, only_active=False)

    async def _start(self, request: _StartRequest, found: WorkflowVersion, *, only_active: bool) -> StartedRun:
        options, tenant_id = request.options, request.tenant_id
        plan = await self._engine.plans.plan(found.workflow_id, found.version)
        check_entry_point(plan, options.trigger)
        payload = await input_payload(request.input, plan, self.checks, tenant_id=tenant_id, trigger=options.trigger)
        head = root_head(
            found,
            plan,
            options=options,
            tenant_id=tenant_id,
            instance_id=request.run_id,
            now=request.now,
            retention_days_max=self.retention_days_max,
        )
        hold = self._engine.orchestrator.owned.may_begin(head) and self._engine.plans.can_run_plan(head, plan)
        if not hold or head.available_at > head.created_at:
            await self._pending_limit.admit(tenant_id)
        started = Started(payload, options.trigger, hold, None, None, only_active)
        new_run = await self._engine.orchestrator.create_run(head, plan, started)
        status = new_run.status
        if not new_run.created:
            existing = await self._store.get_instance(new_run.instance_id, tenant_id=tenant_id)
            status = status if existing is None else existing.status
        return StartedRun(new_run.instance_id, status, new_run.created)


@dataclass(slots=True, eq=False)
class _StartRequest:
    """A start on its way, whichever version it comes to."""

    workflow: str
    input: Any
    options: StartOptions
    tenant_id: str
    run_id: str
    now: int
    """When it was asked for (ms)."""


def check_entry_point(plan: AnyPlan, trigger: str | None) -> None:
    """Raise NoManualStart or UnknownTrigger if no run of the plan can begin there (None: at `start`)."""
    if isinstance(plan, CodedPlan):
        if trigger is not None:
            raise UnknownTrigger(f"a coded workflow has no nodes, and so no trigger {trigger!r}")
    elif trigger not in plan.entry_point_by_trigger:
        if trigger is not None:
            raise UnknownTrigger(f"the workflow has no trigger {trigger!r} that can begin a run")
        shown = ", ".join(f"{node.id!r} ({node.type})" for node in plan.entry_points)
        raise NoManualStart(f"the workflow has no start node: its runs begin at {shown}")


async def input_payload(
    input_: Any,
    plan: AnyPlan,
    checks: Checks,
    *,
    tenant_id: str,
    trigger: str | None = None,
    bounded: bool = True,
) -> Payload:
    """A run's input, checked against its limits and the schema of where it begins: the workflow's `inputSchema`, or
    that of the trigger.

    Raises InvalidInput; TooManyChecks unless `bounded` is false.
    """
    bytes_max, schema = VALUE_BYTES_MAX, plan.input_schema
    if trigger is not None and not isinstance(plan, CodedPlan):
        entry_point = plan.entry_point_by_trigger.get(trigger)
        if entry_point is not None:
            bytes_max = entry_point.output_bytes_max
            schema = plan.trigger_schemas.get(trigger)
    payload = checked_payload(input_, "the input", bytes_max=bytes_max)
    if schema is not None:
        refuse_input(await checks.input_problems(tenant_id, schema, payload.value, bounded=bounded), trigger)
    return payload


def refuse_input(problems: Sequence[tuple[str, str]], trigger: str | None) -> None:
    """Raise InvalidInput if the check of an input has found problems."""
    if not problems:
        return
    details = [{"pointer": pointer, "message": message} for pointer, message in problems]
    pointer, message = problems[0]
    at = f" at {pointer}" if pointer else ""
    whose = "the workflow's inputSchema" if trigger is None else f"the inputSchema of trigger {trigger!r}"
    raise InvalidInput(f"the input does not fit {whose}{at}: {message}", details=details)


class RunIds:
    """Makes the identifiers of runs: UUIDs of version 7 (RFC 9562), so that new runs lie side by side in the index.

    Those of one millisecond are numbered (RFC 9562, 6.2, method 1): lists show runs in the order in which one process
    started them.
    """

    def __init__(self) -> None:
        self._last_ms = self._number = 0

    def new(self, now_ms: int) -> str:
        """The next identifier. The 4,097th of a millisecond may be listed before those of the same millisecond."""
        self._number = self._number + 1 if now_ms == self._last_ms else 0
        self._last_ms = now_ms
        value = (now_ms & (2**48 - 1)) << 80 | 0x7 << 76 | (self._number & 0xFFF) << 64 | 0b10 << 62
        # Written out here: two objects of `uuid.UUID` take twice as long, and every start would pay for them.
        digits = f"{value | int.from_bytes(os.urandom(8)) & (2**62 - 1):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_run_id(now_ms: int) -> str:
    """The identifier of a single run, such as a test run or a fork."""
    return RunIds().new(now_ms)


def root_head(
    found: WorkflowVersion,
    plan: AnyPlan,
    *,
    options: StartOptions,
    tenant_id: str,
    instance_id: str,
    now: int,
    retention_days_max: int,
) -> InstanceHead:
    """The head of a run that is started from outside. Raises InvalidRequest."""
    available_at, deadline_at, retention_days = options.available_at, options.deadline_at, options.retention_days
    begins_at = max(now, available_at or now)  # a past availableAt means now
    if deadline_at is not None and available_at is not None and deadline_at <= available_at:
        message = f"deadlineAt ({to_iso(deadline_at)}) is not after availableAt ({to_iso(available_at)})"
        raise InvalidRequest(message, details=[{"code": "INVALID_VALUE", "pointer": "/deadlineAt", "message": message}])
    if retention_days is None:
        retention_days = retention_days_of(plan)
    return InstanceHead(
        instance_id=instance_id,
        tenant_id=tenant_id,
        workflow_id=found.workflow_id,
        workflow_name=found.name,
        workflow_version=found.version,
        created_at=now,
        available_at=begins_at,
        deadline_at=deadline_of(plan, begins_at) if deadline_at is None else deadline_at,
        retention_days=min(retention_days, retention_days_max),
        idempotency_key=options.idempotency_key,
        kind=found.kind,
        rerun_of=options.rerun_of,
        started_by=options.started_by,
    )


def test_head(document: Mapping[str, Any], plan: AnyPlan, *, tenant_id: str, now: int) -> InstanceHead:
    """The head of a test run of a definition that is not stored."""
    return InstanceHead(
        instance_id=new_run_id(now),
        tenant_id=tenant_id,
        workflow_id=None,
        workflow_name=document.get("name") or derive_name(document.get("title") or TEST_NAME),
        workflow_version=TEST_VERSION,
        created_at=now,
        available_at=now,
        deadline_at=deadline_of(plan, now),
        retention_days=TEST_RETENTION_DAYS,
        test=True,
    )


def deadline_of(plan: AnyPlan, begins_at: int) -> int | None:
    """The deadline (ms) that its workflow sets for a run; None: it has none."""
    return None if plan.deadline_ms is None else begins_at + plan.deadline_ms


def retention_days_of(plan: AnyPlan) -> int:
    """How many days its workflow keeps a run."""
    return 30 if plan.retention_ms is None else -(-plan.retention_ms // _DAY_MS)
