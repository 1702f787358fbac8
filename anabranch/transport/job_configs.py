"""Configs on their way to executors: templates are resolved in the worker, and what has secrets is sealed.

A resolved config is never resolved again: what a template has inserted may itself look like a template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import Handler, HandlerReturn, Helpers
from anabranch.engine.rules.coded.coded_plan import STEP_TYPE
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.task_worker import Execution
from anabranch.errors import NonRetryable
from anabranch.handlers.spec import NodeTypeRegistry, SpecHandler
from anabranch.secrets.job_seals import JobIdentity, JobSeals


@dataclass(frozen=True, slots=True)
class ConfigWithSecrets:
    """A resolved config, and the secrets in it, which are masked in everything that comes back."""

    config: Any
    secrets: Mapping[str, str]


class ConfigResolver:
    """The worker's side."""

    def __init__(self, node_types: NodeTypeRegistry, seals: JobSeals) -> None:
        self._node_types = node_types
        self._seals = seals

    async def resolve(self, node: PlanNode, execution: Execution, job_id: str) -> tuple[Any, str | None]:
        """The resolved config; or None and its sealed form. Raises what the handler would, and SecretKeyMissing."""
        if node.type == STEP_TYPE:
            return node.config, None
        handler = self._node_types.handler(node.type)
        if handler is None:
            raise NonRetryable(f"no handler for node type {node.type!r} is installed here", code="UNKNOWN_NODE_TYPE")
        resolved, secrets = await handler.resolve(node.config, execution.context, tenant_id=execution.tenant_id)
        if not secrets:
            return resolved, None
        identity = JobIdentity(execution.tenant_id, execution.instance_id, node.pool, job_id)
        return None, self._seals.seal(identity, resolved, secrets)


class ResolvedTypes:
    """The executor's side: node types whose handlers take resolved configs."""

    def __init__(self, node_types: NodeTypeRegistry, steps: Handler) -> None:
        """`steps` calls the functions of steps."""
        self._node_types = node_types
        self._steps = steps

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if it is not registered."""
        return self._node_types.get(type_name)

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return self._node_types.names()

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if it is not registered."""
        if type_name == STEP_TYPE:
            return self._steps
        handler = self._node_types.handler(type_name)
        return None if handler is None else _Resolved(handler)


class _Resolved:
    def __init__(self, handler: SpecHandler) -> None:
        self._handler = handler

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        """Run one attempt."""
        secrets: Mapping[str, str] = {}
        if isinstance(config, ConfigWithSecrets):
            config, secrets = config.config, config.secrets
        return await self._handler.execute_resolved(config, secrets, context, helpers)
