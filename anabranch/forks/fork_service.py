"""ForkService: start forks, or plan them without starting.

Only the code of a coded workflow can tell whether its function makes the calls of a log. If the code is here, the dry
run calls it with the log; otherwise a system run (`fork_check`) does, on a worker that has the code. If the function
does not make these calls, the dry run looks for the steps that have to run again, too, so that it does.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.deferred import deferred
from anabranch.durable.definition import Workflow, WorkflowRegistry
from anabranch.engine.ports import Store
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, CodedPlan
from anabranch.engine.rules.events import ActivationKey, Status
from anabranch.errors import AnabranchError, ForkRefused, NonRetryable, NotFound, StoreUnavailable
from anabranch.forks.fork_check import CHECK_OPTIONS, check_name, is_check
from anabranch.run_requests import SAME_INPUT, ForkOptions, StartOptions, read_fork
from anabranch.service.repair.fork_verbs import PlannedFork
from anabranch.service.runs.run_waits import RunWaits
from anabranch.service.workflow_service import WorkflowService

# Needed only to fork a run:
if TYPE_CHECKING:
    from anabranch.durable import history_replay
else:
    history_replay = deferred("anabranch.durable.history_replay")

# 30 s for a worker that has the code: it takes the check within a second, and calls the function for at most five.
CHECK_S = 30.0

# 20 steps are added to those that run again, within 5 s: of more than that nobody reuses what is left.
STEPS_ADDED_MAX = 20
ADDING_S = 5.0


class ForkService:
    """Forks runs of tenants, and plans forks."""

    def __init__(self, code: WorkflowRegistry, *, system: Collection[str] = ()) -> None:
        """`code` are the coded workflows that can be called here; `system` names those of the system's own."""
        self._code = code
        self._system = frozenset(system)
        self._workflows: WorkflowService | None = None
        self._store: Store | None = None

    def connect(self, workflows: WorkflowService, store: Store) -> None:
        """Fork the runs of this service from now on."""
        self._workflows, self._store = workflows, store

    async def fork(
        self, instance_id: str, request: Mapping[str, Any], options: ForkOptions, *, tenant_id: str, waits: RunWaits
    ) -> dict[str, Any]:
        """Start a fork, or with `dry_run` its plan, or the run that makes the plan if that takes longer.

        `request` is what the options were read from. Raises what `WorkflowService.fork_run` raises.
        """
        workflows, input_ = self._connected, request.get("input", SAME_INPUT)
        head = (await workflows.get_run_status(instance_id, tenant_id=tenant_id)).head
        if head.kind == CODED_KIND and (head.workflow_name in self._system or is_check(head.workflow_name)):
            raise ForkRefused(f"run {instance_id} is one of the system's own", hint="Start another one.")
        if not options.dry_run:
            return await workflows.fork_run(instance_id, options, tenant_id=tenant_id, input_=input_)
        planned = await workflows.planned_fork(instance_id, options, tenant_id=tenant_id, input_=input_)
        if not isinstance(planned.plan, CodedPlan):
            return planned.as_json()
        found = self._code.find(planned.head.workflow_name, planned.head.workflow_version)
        if found is not None:
            return await self._judged(planned, found, tenant_id=tenant_id, input_=input_)
        return await self._checked_elsewhere(planned, request, waits)

    async def check(self, check_id: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The step of a check: the plan of the fork that its input asks for. Raises NonRetryable for refusals."""
        assert self._store is not None, "connect comes before any run"
        check = await self._store.get_instance(check_id)
        if check is None:
            raise NonRetryable(f"run {check_id} was removed", code=NotFound.code)
        try:
            options, input_ = read_fork(asked["request"])
            tenant_id = check.head.tenant_id
            planned = await self._connected.planned_fork(
                asked["instanceID"], options, tenant_id=tenant_id, input_=input_
            )
            head = planned.head
            found = self._code.find(head.workflow_name, head.workflow_version)
            assert found is not None, "a worker takes checks of what it knows"
            return await self._judged(planned, found, tenant_id=tenant_id, input_=input_)
        except StoreUnavailable:
            raise
        except AnabranchError as refusal:
            raise NonRetryable(refusal.message, code=refusal.code) from None

    async def _checked_elsewhere(
        self, planned: PlannedFork, request: Mapping[str, Any], waits: RunWaits
    ) -> dict[str, Any]:
        assert self._store is not None, "connect comes before any run"
        head, tenant_id = planned.head, planned.row.head.tenant_id
        known = await self._store.register_code(
            name=check_name(head.workflow_name),
            version=head.workflow_version,
            definition={"workflowOptions": dict(CHECK_OPTIONS)},
        )
        started = await self._connected.execute_workflow(
            known.workflow_id,
            {"instanceID": planned.row.head.instance_id, "request": {**request, "version": head.workflow_version}},
            StartOptions(version=head.workflow_version, started_by=planned.options.started_by),
            tenant_id=tenant_id,
        )
        await waits.until_ended(started.instance_id, tenant_id=tenant_id, wait_s=CHECK_S, is_gone=lambda: False)
        outcome = await self._connected.get_outcome(started.instance_id, tenant_id=tenant_id)
        if outcome["status"] == Status.COMPLETED:
            plan: dict[str, Any] = outcome["output"]
            return plan
        if outcome["status"] == Status.FAILED:
            raise ForkRefused(outcome["error"]["message"])
        return {"instanceID": started.instance_id, "status": outcome["status"]}

    async def _judged(self, planned: PlannedFork, found: Workflow, *, tenant_id: str, input_: Any) -> dict[str, Any]:
        """The plan, with what the function does when it is called with this log. Raises ForkRefused."""
        replayed = await _replayed(planned, found)
        answer = planned.as_json()
        answer["agreement"] = replayed.agreement.value
        if replayed.agreement is history_replay.Agreement.DIFFERENT:
            warning = (
                f"the function does not make the calls of this log: {replayed.message}; the fork would be SUSPENDED"
                " (NONDETERMINISM)"
            )
            added = await self._added_steps(planned, replayed, found, tenant_id=tenant_id, input_=input_)
            if added:
                answer["redo"] = [{"nodeID": name, "scope": scope} for name, scope in added]
                steps = " and ".join(f"{name}{scope}" for name, scope in added)
                warning += f" unless {steps} {'runs' if len(added) == 1 else 'run'} again, too (`redo`)"
            answer["warnings"].append(warning)
        elif replayed.agreement is history_replay.Agreement.UNKNOWN:
            answer["warnings"].append(
                f"whether the function makes the calls of this log is not known: {replayed.message}"
            )
        elif replayed.step is not None:
            name, scope = replayed.step
            planned_steps = [(each["nodeID"], each["scope"]) for each in (*answer["run"], *answer["undecided"])]
            if replayed.step not in planned_steps:
                answer["run"].append({"nodeID": name, "scope": scope, "because": "NEW", "effect": "first"})
        return answer

    async def _added_steps(
        self, planned: PlannedFork, replayed: history_replay.Replayed, found: Workflow, *, tenant_id: str, input_: Any
    ) -> list[ActivationKey]:
        """The steps that have to run again beside the chosen ones, so that the function makes the calls of the log;
        none if they are not found.

        Another step may have let them begin, by a lock, a queue or an event, which no row says; or the code has
        changed.
        """
        run_id, options, added = planned.row.head.instance_id, planned.options, list[ActivationKey]()
        give_up_at = time.monotonic() + ADDING_S
        while replayed.agreement is history_replay.Agreement.DIFFERENT:
            step = replayed.step
            is_reused = any((each["nodeID"], each["scope"]) == step for each in planned.fork.reuse)
            if step is None or not is_reused or len(added) == STEPS_ADDED_MAX or time.monotonic() > give_up_at:
                return []
            added.append(step)
            wanted = replace(options, chosen=(*options.chosen, *added), if_plan=None)
            planned = await self._connected.planned_fork(run_id, wanted, tenant_id=tenant_id, input_=input_)
            try:
                replayed = await _replayed(planned, found)
            except ForkRefused:
                return []
        return added if replayed.agreement is history_replay.Agreement.SAME else []

    @property
    def _connected(self) -> WorkflowService:
        assert self._workflows is not None, "connect comes before any run"
        return self._workflows


async def _replayed(planned: PlannedFork, found: Workflow) -> history_replay.Replayed:
    """What the function does when it is called with the log of a fork. Raises ForkRefused if nothing would run."""
    assert isinstance(planned.plan, CodedPlan), "only coded runs have a function"
    replay = history_replay.replay_function(found, planned.plan, planned.head, planned.fork.events)
    # In a context of its own: within a step no other one can be asked for.
    replayed = await asyncio.create_task(replay, context=contextvars.Context())
    if replayed.ends == "returns":
        raise ForkRefused("nothing would run: all outcomes of the recorded run are good for the new one")
    if replayed.ends == "raises":
        raise ForkRefused(f"the new run would fail at once: {replayed.message}")
    return replayed
