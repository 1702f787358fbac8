"""What people and programs ask of anabranch, without HTTP: a façade for each kind of thing, and their house.

A name is imported from its module when it is first used: a command that lists keys needs no other façade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deferred import exported_from

if TYPE_CHECKING:
    from anabranch.service.access import AccessService, CreatedKey, Principal, Role
    from anabranch.service.app_services import AppServices
    from anabranch.service.audit_log import AuditLog
    from anabranch.service.data_service import DataService
    from anabranch.service.definitions.references import References
    from anabranch.service.failed_logins import FailedLogins
    from anabranch.service.purge import Purge
    from anabranch.service.readiness import Readiness
    from anabranch.service.runs.child_runs import ChildRuns
    from anabranch.service.runs.run_counts import OpenRunCounts
    from anabranch.service.runs.run_waits import RunWaits
    from anabranch.service.runs.step_signals import StepSignals
    from anabranch.service.triggers.schedule_documents import backfill_as_json, schedule_as_json
    from anabranch.service.triggers.schedule_service import ScheduleService
    from anabranch.service.triggers.topic_service import TopicService, message_as_json, subscription_as_json
    from anabranch.service.workflow_service import WorkflowService
else:
    __getattr__ = exported_from(
        __name__,
        {
            "AccessService": "anabranch.service.access",
            "AuditLog": "anabranch.service.audit_log",
            "ChildRuns": "anabranch.service.runs.child_runs",
            "CreatedKey": "anabranch.service.access",
            "DataService": "anabranch.service.data_service",
            "FailedLogins": "anabranch.service.failed_logins",
            "AppServices": "anabranch.service.app_services",
            "OpenRunCounts": "anabranch.service.runs.run_counts",
            "Principal": "anabranch.service.access",
            "Purge": "anabranch.service.purge",
            "Readiness": "anabranch.service.readiness",
            "References": "anabranch.service.definitions.references",
            "Role": "anabranch.service.access",
            "RunWaits": "anabranch.service.runs.run_waits",
            "ScheduleService": "anabranch.service.triggers.schedule_service",
            "StepSignals": "anabranch.service.runs.step_signals",
            "TopicService": "anabranch.service.triggers.topic_service",
            "WorkflowService": "anabranch.service.workflow_service",
            "backfill_as_json": "anabranch.service.triggers.schedule_documents",
            "message_as_json": "anabranch.service.triggers.topic_service",
            "schedule_as_json": "anabranch.service.triggers.schedule_documents",
            "subscription_as_json": "anabranch.service.triggers.topic_service",
        },
    )

__all__ = [
    "AccessService",
    "AppServices",
    "AuditLog",
    "ChildRuns",
    "CreatedKey",
    "DataService",
    "FailedLogins",
    "OpenRunCounts",
    "Principal",
    "Purge",
    "Readiness",
    "References",
    "Role",
    "RunWaits",
    "ScheduleService",
    "StepSignals",
    "TopicService",
    "WorkflowService",
    "backfill_as_json",
    "message_as_json",
    "schedule_as_json",
    "subscription_as_json",
]
