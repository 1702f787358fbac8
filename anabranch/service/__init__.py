"""What people and programs ask of anabranch, without HTTP: a façade each for workflows, data, schedules and topics."""

from anabranch.service.child_runs import ChildRuns
from anabranch.service.data_service import DataService
from anabranch.service.schedule_documents import schedule_as_json
from anabranch.service.schedule_service import ScheduleService
from anabranch.service.topic_service import TopicService, message_as_json, subscription_as_json
from anabranch.service.workflow_service import WorkflowService

__all__ = [
    "ChildRuns",
    "DataService",
    "ScheduleService",
    "TopicService",
    "WorkflowService",
    "message_as_json",
    "schedule_as_json",
    "subscription_as_json",
]
