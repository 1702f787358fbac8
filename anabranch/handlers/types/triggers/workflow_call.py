"""`workflowCall`: begins a run that another run starts."""

from __future__ import annotations

from anabranch.engine.rules.entry_points import WORKFLOW_CALL_TYPE
from anabranch.handlers.types.triggers.trigger_spec import TriggerConfig, trigger_spec


class WorkflowCallConfig(TriggerConfig):
    """Nothing but the schema of the input."""


SPEC = trigger_spec(
    WORKFLOW_CALL_TYPE,
    WorkflowCallConfig,
    title="When called",
    icon="workflow",
    description="Starts a run when another workflow calls this one. Without it, called runs start at the start node.",
)
