"""Configs on their way to executors: templates are resolved in the worker, and what has secrets is sealed.

A resolved config is never resolved again: what a template has inserted may itself look like a template.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from anabranch.engine.handling import Handler, HandlerReturn, Helpers
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.task_worker import Execution
from anabranch.errors import NonRetryable, SecretKeyMissing, SecretKeyWrong
from anabranch.handlers.spec import NodeTypeRegistry, SpecHandler
from anabranch.secrets.cipher import SecretCipher

_NO_KEY = "Set ANABRANCH_BROKER_KEY to the same 32 bytes in workers and executors (`openssl rand -base64 32`)."


@dataclass(frozen=True, slots=True)
class SealedConfig:
    """A config with secrets, encrypted for one job of one tenant."""

    job_id: str
    text: str


class ConfigResolver:
    """The worker's side."""

    def __init__(self, node_types: NodeTypeRegistry, cipher: SecretCipher | None) -> None:
        self._node_types = node_types
        self._cipher = cipher

    async def resolve(self, node: PlanNode, execution: Execution, job_id: str) -> tuple[Any, str | None]:
        """The resolved config; or None and its sealed form. Raises what the handler would, and SecretKeyMissing."""
        handler = self._node_types.handler(node.type)
        if handler is None:
            raise NonRetryable(f"no handler for node type {node.type!r} is installed here", code="UNKNOWN_NODE_TYPE")
        resolved, secrets = await handler.resolve(node.config, execution.context, tenant_id=execution.tenant_id)
        if not secrets:
            return resolved, None
        if self._cipher is None:
            raise SecretKeyMissing(
                "secrets leave this process only encrypted, and there is no key for it", hint=_NO_KEY
            )
        text = orjson.dumps({"config": resolved, "secrets": dict(secrets)}).decode()
        sealed = self._cipher.seal(tenant=execution.tenant_id, row=job_id, text=text)
        return None, base64.b64encode(sealed).decode()


class ResolvedTypes:
    """The executor's side: node types whose handlers take resolved configs."""

    def __init__(self, node_types: NodeTypeRegistry, cipher: SecretCipher | None) -> None:
        self._node_types = node_types
        self._cipher = cipher

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if it is not registered."""
        return self._node_types.get(type_name)

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return self._node_types.names()

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, or None if it is not registered."""
        handler = self._node_types.handler(type_name)
        return None if handler is None else _Resolved(handler, self._cipher)


class _Resolved:
    def __init__(self, handler: SpecHandler, cipher: SecretCipher | None) -> None:
        self._handler = handler
        self._cipher = cipher

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        """Run one attempt. Raises SecretKeyMissing and SecretKeyWrong for a config that cannot be opened here."""
        secrets: Mapping[str, str] = {}
        if isinstance(config, SealedConfig):
            config, secrets = self._opened(config, helpers.tenant_id)
        return await self._handler.execute_resolved(config, secrets, context, helpers)

    def _opened(self, sealed: SealedConfig, tenant_id: str) -> tuple[Any, Mapping[str, str]]:
        if self._cipher is None:
            raise SecretKeyMissing("the config has secrets, and this executor has no key for them", hint=_NO_KEY)
        try:
            raw = base64.b64decode(sealed.text, validate=True)
        except binascii.Error:
            raise SecretKeyWrong("the sealed config is not base64") from None
        opened = orjson.loads(self._cipher.open(tenant=tenant_id, row=sealed.job_id, sealed=raw))
        return opened["config"], opened["secrets"]
