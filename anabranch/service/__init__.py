"""The services that the APIs call, without HTTP: one for each kind of object.

A name is imported from its module when it is first used: a command that lists keys loads no other service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deferred import exported_from

if TYPE_CHECKING:
    from anabranch.service.data_check.data_doctor import DataDoctor
    from anabranch.service.definitions.workflow_references import References
    from anabranch.service.explanations.explanations import Explanations
    from anabranch.service.preview import Preview
    from anabranch.service.purge import Purge
    from anabranch.service.readiness import Readiness
    from anabranch.service.runs.child_runs import ChildRuns
    from anabranch.service.runs.run_counts import OpenRunCounts
    from anabranch.service.runs.run_waits import RunWaits
    from anabranch.service.runs.step_signals import StepSignals
    from anabranch.service.workflow_service import WorkflowService
else:
    __getattr__ = exported_from(
        __name__,
        {
            "ChildRuns": "anabranch.service.runs.child_runs",
            "DataDoctor": "anabranch.service.data_check.data_doctor",
            "OpenRunCounts": "anabranch.service.runs.run_counts",
            "Preview": "anabranch.service.preview",
            "Purge": "anabranch.service.purge",
            "Readiness": "anabranch.service.readiness",
            "References": "anabranch.service.definitions.workflow_references",
            "Explanations": "anabranch.service.explanations.explanations",
            "RunWaits": "anabranch.service.runs.run_waits",
            "StepSignals": "anabranch.service.runs.step_signals",
            "WorkflowService": "anabranch.service.workflow_service",
        },
    )

__all__ = [
    "ChildRuns",
    "DataDoctor",
    "Explanations",
    "OpenRunCounts",
    "Preview",
    "Purge",
    "Readiness",
    "References",
    "RunWaits",
    "StepSignals",
    "WorkflowService",
]
