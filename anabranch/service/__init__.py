"""What people and programs ask of anabranch, without HTTP: a façade for each kind of thing, and their house.

A name is imported from its module when it is first used: a command that lists keys needs no other façade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deferred import exported_from

if TYPE_CHECKING:
    from anabranch.service.access import AccessService, CreatedKey, Principal, Role
    from anabranch.service.audit_log import AuditLog
    from anabranch.service.child_runs import ChildRuns
    from anabranch.service.data_service import DataService
    from anabranch.service.failed_logins import FailedLogins
    from anabranch.service.house import House
    from anabranch.service.purge import Purge
    from anabranch.service.readiness import Readiness
    from anabranch.service.references import References
    from anabranch.service.run_counts import OpenRunCounts
    from anabranch.service.run_waits import RunWaits
    from anabranch.service.schedule_documents import backfill_as_json, schedule_as_json
    from anabranch.service.schedule_service import ScheduleService
    from anabranch.service.step_signals import StepSignals
    from anabranch.service.topic_service import TopicService, message_as_json, subscription_as_json
    from anabranch.service.workflow_service import WorkflowService
else:
    __getattr__ = exported_from(
        __name__,
        {
            "AccessService": "anabranch.service.access",
            "AuditLog": "anabranch.service.audit_log",
            "ChildRuns": "anabranch.service.child_runs",
            "CreatedKey": "anabranch.service.access",
            "DataService": "anabranch.service.data_service",
            "FailedLogins": "anabranch.service.failed_logins",
            "House": "anabranch.service.house",
            "OpenRunCounts": "anabranch.service.run_counts",
            "Principal": "anabranch.service.access",
            "Purge": "anabranch.service.purge",
            "Readiness": "anabranch.service.readiness",
            "References": "anabranch.service.references",
            "Role": "anabranch.service.access",
            "RunWaits": "anabranch.service.run_waits",
            "ScheduleService": "anabranch.service.schedule_service",
            "StepSignals": "anabranch.service.step_signals",
            "TopicService": "anabranch.service.topic_service",
            "WorkflowService": "anabranch.service.workflow_service",
            "backfill_as_json": "anabranch.service.schedule_documents",
            "message_as_json": "anabranch.service.topic_service",
            "schedule_as_json": "anabranch.service.schedule_documents",
            "subscription_as_json": "anabranch.service.topic_service",
        },
    )

__all__ = [
    "AccessService",
    "AuditLog",
    "ChildRuns",
    "CreatedKey",
    "DataService",
    "FailedLogins",
    "House",
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
