"""New runs: their ids, their input, and their heads, from a version of a workflow and the options of the request.

Pure, except for random ids and the check of an input, which has threads of its own. Called by the service and by
`child_runs`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.plans import TEST_VERSION
from anabranch.engine.ports import InstanceHead, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.document import derive_name
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.values import VALUE_BYTES_MAX, Payload, checked_payload
from anabranch.errors import InvalidInput, InvalidRequest, NoManualStart, UnknownTrigger
from anabranch.run_requests import StartOptions
from anabranch.service.definitions.checks import Checks

# A day, whatever the workflow sets for real runs: results of tests are looked at right away.
TEST_RETENTION_DAYS = 1

# The name of a test run of a workflow without name and title.
TEST_NAME = "test"

_DAY_MS = 86_400_000


def check_beginning(plan: AnyPlan, trigger: str | None) -> None:
    """Raise NoManualStart or UnknownTrigger if no run of the plan can begin there (None: at `start`)."""
    if isinstance(plan, CodedPlan):
        if trigger is not None:
            raise UnknownTrigger(f"a coded workflow has no nodes, and so no trigger {trigger!r}")
    elif plan.beginning(trigger) is None:
        if trigger is not None:
            raise UnknownTrigger(f"the workflow has no trigger {trigger!r} that can begin a run")
        shown = ", ".join(f"{node.id!r} ({node.type})" for node in plan.beginnings)
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
    beginning = None if isinstance(plan, CodedPlan) or trigger is None else plan.beginning(trigger)
    bytes_max = VALUE_BYTES_MAX if beginning is None else beginning.output_bytes_max
    payload = checked_payload(input_, "the input", bytes_max=bytes_max)
    schema = plan.input_schema if isinstance(plan, CodedPlan) else plan.schema_of(trigger)
    if schema is not None:
        refuse_input(await checks.input_problems(tenant_id, schema, payload.value, bounded=bounded), trigger)
    return payload


def refuse_input(problems: Sequence[tuple[str, str]], trigger: str | None) -> None:
    """Raise InvalidInput if the check of an input has found problems."""
    if not problems:
        return
    details = [{"pointer": pointer, "message": message} for pointer, message in problems]
    pointer, message = problems[0]
    place = f" at {pointer}" if pointer else ""
    whose = "the workflow's inputSchema" if trigger is None else f"the inputSchema of trigger {trigger!r}"
    raise InvalidInput(f"the input does not fit {whose}{place}: {message}", details=details)


def new_run_id(now_ms: int) -> str:
    """A UUID of version 7 (RFC 9562): new runs lie side by side in the index."""
    random_bits = uuid.uuid4().int
    value = (now_ms & (2**48 - 1)) << 80 | 0x7 << 76 | (random_bits >> 50 & 0xFFF) << 64 | 0b10 << 62
    return str(uuid.UUID(int=value | random_bits & (2**62 - 1)))


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
        retention_days = _retention_days(plan)
    return InstanceHead(
        instance_id=instance_id,
        tenant_id=tenant_id,
        workflow_id=found.workflow_id,
        workflow_name=found.name,
        workflow_version=found.version,
        created_at=now,
        available_at=begins_at,
        deadline_at=_deadline(plan, begins_at) if deadline_at is None else deadline_at,
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
        deadline_at=_deadline(plan, now),
        retention_days=TEST_RETENTION_DAYS,
        test=True,
    )


def child_head(
    found: WorkflowVersion,
    plan: AnyPlan,
    *,
    now: int,
    retention_days_max: int,
    instance_id: str,
    parent: InstanceHead,
    node_id: str,
    scope: str,
    parent_waits: bool,
) -> InstanceHead:
    """The head of a run that an activation of `parent` starts; deadline and retention are its own workflow's.

    Children of a test run are kept no longer than test runs.
    """
    return InstanceHead(
        instance_id=instance_id,
        tenant_id=parent.tenant_id,
        workflow_id=found.workflow_id,
        workflow_name=found.name,
        workflow_version=found.version,
        created_at=now,
        available_at=now,
        deadline_at=_deadline(plan, now),
        retention_days=TEST_RETENTION_DAYS if parent.test else min(max(1, _retention_days(plan)), retention_days_max),
        parent_id=parent.instance_id,
        kind=found.kind,
        test=parent.test,
        parent_node_id=node_id,
        parent_scope=scope,
        parent_waits=parent_waits,
        depth=parent.depth + 1,
        root_id=parent.root_id or parent.instance_id,
    )


def _deadline(plan: AnyPlan, begins_at: int) -> int | None:
    return None if plan.deadline_ms is None else begins_at + plan.deadline_ms


def _retention_days(plan: AnyPlan) -> int:
    return 30 if plan.retention_ms is None else -(-plan.retention_ms // _DAY_MS)
