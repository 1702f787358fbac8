"""AppServices: the services that one process has open on one database, for its APIs (REST, sockets).

Created by `App.open_services`. The APIs only read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.audit.audit_log import AuditLog
from anabranch.drafts.draft_service import DraftService
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.keys.access import AccessService
from anabranch.queries.saved.data_service import DataService
from anabranch.secrets.secret_store import SecretStore
from anabranch.service.explanations.explanations import Explanations
from anabranch.service.preview import Preview
from anabranch.service.readiness import Readiness
from anabranch.service.runs.run_counts import OpenRunCounts
from anabranch.service.runs.run_waits import RunWaits
from anabranch.service.workflow_service import WorkflowService
from anabranch.telemetry import Meters
from anabranch.triggers.schedules.schedule_service import ScheduleService
from anabranch.triggers.topics.topic_service import TopicService


@dataclass(frozen=True, slots=True, eq=False)
class AppServices:
    """The services of one process, and the engine below them."""

    engine: Engine
    node_types: NodeTypes
    workflows: WorkflowService
    drafts: DraftService
    data: DataService
    secrets: SecretStore
    access: AccessService
    audit: AuditLog
    schedules: ScheduleService
    topics: TopicService
    explanations: Explanations
    preview: Preview
    waits: RunWaits
    readiness: Readiness
    meters: Meters
    open_runs: OpenRunCounts
    metrics_key: str | None = field(default=None, repr=False)
    """The key that `/metrics` requires; None: no key."""
