"""What people and programs ask of anabranch, without HTTP: a façade each for workflows and for data."""

from anabranch.service.child_runs import ChildRuns
from anabranch.service.data_service import DataService
from anabranch.service.workflow_service import WorkflowService

__all__ = ["ChildRuns", "DataService", "WorkflowService"]
