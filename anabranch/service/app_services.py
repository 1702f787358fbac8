"""The house: what one process has open on one database, as the APIs (REST, sockets) are given it.

Made by the composition root. Doors read it; nobody but the composition root changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.secrets import SecretStore
from anabranch.service.access import AccessService
from anabranch.service.audit_log import AuditLog
from anabranch.service.data_service import DataService
from anabranch.service.readiness import Readiness
from anabranch.service.runs.run_counts import OpenRunCounts
from anabranch.service.runs.run_waits import RunWaits
from anabranch.service.triggers.schedule_service import ScheduleService
from anabranch.service.triggers.topic_service import TopicService
from anabranch.service.workflow_service import WorkflowService
from anabranch.telemetry import Meters


@dataclass(frozen=True, slots=True, eq=False)
class AppServices:
    """The façades of one process, and what they stand on."""

    engine: Engine
    node_types: NodeTypes
    workflows: WorkflowService
    data: DataService
    safe: SecretStore
    access: AccessService
    audit: AuditLog
    schedules: ScheduleService
    topics: TopicService
    waits: RunWaits
    readiness: Readiness
    meters: Meters
    open_runs: OpenRunCounts
    metrics_key: str | None = field(default=None, repr=False)
    """What `/metrics` asks for; None: nothing."""
