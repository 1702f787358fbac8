"""`workflow`: starts another workflow, and by default waits for its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field

from anabranch.engine.handler_contract import HandlerResult, HandlerReturn, Helpers
from anabranch.engine.rules.shared.child_ids import WORKFLOW_TYPE
from anabranch.engine.rules.stimuli import AwaitsChild
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 64 characters, as a name may have; ids are shorter.
WORKFLOW_CHARACTERS_MAX = 64


class Children(Protocol):
    """Starts the children of activations."""

    async def start(
        self, helpers: Helpers, *, workflow: str, version: int | None, input_: Any, parent_waits: bool
    ) -> str:
        """Start the child run of this activation, the same in every attempt, and return its id; it is durable when this
        returns.

        Raises NonRetryable if a retry cannot help, StoreUnavailable if it may.
        """


class WorkflowConfig(NodeConfig):
    """What to start."""

    workflow: str = Field(
        min_length=1,
        max_length=WORKFLOW_CHARACTERS_MAX,
        description="Its name or id.",
        json_schema_extra=x_ui(widget="workflow"),
    )
    input: Any = Field(default_factory=dict, description="The input of the other run.")
    version: int | None = Field(
        default=None,
        ge=1,
        description="Without it, the active one at the time of the start.",
        json_schema_extra=x_ui(advanced=True),
    )
    wait: bool = Field(
        default=True,
        description="Wait for its end, and continue with its output. Otherwise the node completes with the id of the"
        " run, and the two runs are independent.",
    )


def workflow_spec(children: Children) -> HandlerSpec:
    """The type, with what starts its runs."""

    async def execute(config: WorkflowConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        child_id = await children.start(
            helpers,
            workflow=config.workflow,
            version=config.version,
            input_=config.input,
            parent_waits=config.wait,
        )
        return AwaitsChild(child_id) if config.wait else HandlerResult({"instanceID": child_id})

    return HandlerSpec(
        type=WORKFLOW_TYPE,
        title="Workflow",
        config=WorkflowConfig,
        execute=execute,
        category="flow",
        icon="workflow",
        description="Starts another workflow and waits for its output.",
        side_effects="external",
        docs="#workflow",
        unbounded=lambda config: config.get("wait") is not False,  # what is started may wait for ever
    )
