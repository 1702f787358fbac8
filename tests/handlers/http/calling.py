"""Run `httpRequest` against a server of the test's own, with secrets that the test gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine.handler_contract import HandlerResult
from anabranch.errors import SecretUnknown
from anabranch.handlers import NodeTypeRegistry, Services, builtin_types
from tests.egress.servers import Server, client_allowed
from tests.handlers.running import run


@dataclass
class Given:
    """Secrets of one tenant, in memory."""

    values: Mapping[str, str] = field(default_factory=dict)

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        if missing := sorted(set(names) - set(self.values)):
            raise SecretUnknown(f"there is no secret {missing[0]}")
        return {name: self.values[name] for name in names}


def types_for(server: Server, secrets: Mapping[str, str] | None = None) -> NodeTypeRegistry:
    """The built-in types, with a way out to this server only."""
    return builtin_types(Services(http=client_allowed(server.port), secrets=Given(secrets or {})))


async def call(
    server: Server,
    config: Mapping[str, Any] | None = None,
    *,
    context: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    types: NodeTypeRegistry | None = None,
) -> Any:
    """The output of a node with this config; `url` is the server's unless the config says otherwise."""
    known = types or types_for(server, secrets)
    returned = await run("httpRequest", {"url": server.url, **(config or {})}, context, types=known)
    assert isinstance(returned, HandlerResult)
    return returned.output
