"""RunServices and AppServices: the services that one process has open on one database.

Created by `App`, immutable. RunServices are for `anabranch run`, AppServices for the APIs (REST, sockets).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from anabranch.dataclass import dataclass
from anabranch.engine.lifecycle import Engine
from anabranch.engine.pool_worker import RemoteExecution
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.service.readiness import Readiness
from anabranch.service.runs.run_waits import RunWaits
from anabranch.service.workflow_service import WorkflowService
from anabranch.telemetry import Meters

if TYPE_CHECKING:
    from anabranch.audit.audit_log import AuditLog
    from anabranch.bulk.bulk_service import BulkService
    from anabranch.dead_letters.dead_letters import DeadLetterRows
    from anabranch.drafts.draft_service import DraftService
    from anabranch.forks.fork_service import ForkService
    from anabranch.imports.import_service import ImportService
    from anabranch.keys.access import AccessService
    from anabranch.queries.saved.data_service import DataService
    from anabranch.secrets.job_seals import JobSeals
    from anabranch.secrets.secret_store import SecretStore
    from anabranch.service.explanations.explanations import Explanations
    from anabranch.service.preview import Preview
    from anabranch.service.runs.run_counts import OpenRunCounts
    from anabranch.triggers.schedules.schedule_service import ScheduleService
    from anabranch.triggers.topics.topic_service import TopicService
    from anabranch.triggers.webhooks.callback_addresses import CallbackAddresses
    from anabranch.triggers.webhooks.callback_service import CallbackService
    from anabranch.triggers.webhooks.test_hook_service import TestHookService
    from anabranch.triggers.webhooks.webhook_service import WebhookService
    from anabranch.variables.saved_variables import VariableRows


@dataclass(frozen=True, slots=True, eq=False)
class RunServices:
    """The engine of one process, and what starts and awaits runs with it."""

    engine: Engine
    node_types: NodeTypes
    workflows: WorkflowService
    waits: RunWaits
    readiness: Readiness
    meters: Meters
    bulk: BulkService
    forks: ForkService
    elsewhere: RemoteExecution | None = None
    """What has jobs executed by executors; None: there is no broker."""


@dataclass(frozen=True, slots=True, eq=False)
class AppServices:
    """The services of one process, and the engine below them."""

    engine: Engine
    node_types: NodeTypes
    workflows: WorkflowService
    bulk: BulkService
    forks: ForkService
    drafts: DraftService
    imports: ImportService
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
    webhooks: WebhookService
    callbacks: CallbackService
    test_hooks: TestHookService
    addresses: CallbackAddresses
    job_seals: JobSeals
    dead_letters: DeadLetterRows
    variables: VariableRows
    metrics_key: str | None = field(default=None, repr=False)
    """The key that `/metrics` requires; None: no key."""
