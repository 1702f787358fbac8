"""What people and programs ask of anabranch, without HTTP: a façade for each kind of thing, and their house."""

from anabranch.service.access import AccessService, CreatedKey, Principal, Role
from anabranch.service.audit_log import AuditLog
from anabranch.service.child_runs import ChildRuns
from anabranch.service.data_service import DataService
from anabranch.service.failed_logins import FailedLogins
from anabranch.service.house import House
from anabranch.service.readiness import Readiness
from anabranch.service.references import References
from anabranch.service.schedule_documents import schedule_as_json
from anabranch.service.schedule_service import ScheduleService
from anabranch.service.step_signals import StepSignals
from anabranch.service.topic_service import TopicService, message_as_json, subscription_as_json
from anabranch.service.workflow_service import WorkflowService

__all__ = [
    "AccessService",
    "AuditLog",
    "ChildRuns",
    "CreatedKey",
    "DataService",
    "FailedLogins",
    "House",
    "Principal",
    "Readiness",
    "References",
    "Role",
    "ScheduleService",
    "StepSignals",
    "TopicService",
    "WorkflowService",
    "message_as_json",
    "schedule_as_json",
    "subscription_as_json",
]
