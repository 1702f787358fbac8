"""What people and programs ask of anabranch, without HTTP: one façade for every front door."""

from anabranch.service.child_runs import ChildRuns
from anabranch.service.workflow_service import WorkflowService

__all__ = ["ChildRuns", "WorkflowService"]
