"""anabranch: a workflow engine for work that must not get lost.

`import anabranch` is cheap: a public name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.deferred import exported_from
from anabranch.version import __version__

if TYPE_CHECKING:
    from anabranch.client.client import Client, RunHandle
    from anabranch.client.sync_client import SyncClient, SyncRunHandle
    from anabranch.durable.context import Context
    from anabranch.durable.definition import workflow
    from anabranch.durable.step_error import StepError
    from anabranch.durable.steps import Steps
    from anabranch.engine.handler_contract import HandlerResult, Helpers
    from anabranch.errors import NonRetryable
    from anabranch.handlers.declare import node_type
    from anabranch.worker import Worker
else:
    __getattr__ = exported_from(
        __name__,
        {
            "Client": "anabranch.client.client",
            "Context": "anabranch.durable.context",
            "RunHandle": "anabranch.client.client",
            "StepError": "anabranch.durable.step_error",
            "Steps": "anabranch.durable.steps",
            "SyncClient": "anabranch.client.sync_client",
            "SyncRunHandle": "anabranch.client.sync_client",
            "Worker": "anabranch.worker",
            "workflow": "anabranch.durable.definition",
            "HandlerResult": "anabranch.engine.handler_contract",
            "Helpers": "anabranch.engine.handler_contract",
            "NonRetryable": "anabranch.errors",
            "node_type": "anabranch.handlers.declare",
        },
    )

__all__ = [
    "Client",
    "Context",
    "HandlerResult",
    "Helpers",
    "NonRetryable",
    "RunHandle",
    "StepError",
    "Steps",
    "SyncClient",
    "SyncRunHandle",
    "Worker",
    "__version__",
    "node_type",
    "workflow",
]


def __dir__() -> list[str]:
    return sorted(__all__)
