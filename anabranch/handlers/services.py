"""Services that built-in types need from other packages, passed in by the composition root.

Used by `builtin`. Without them (validation needs none) the types exist but refuse to execute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from anabranch.dataclass import dataclass
from anabranch.errors import NonRetryable
from anabranch.handlers.sandbox.code_jobs import CodeRunner, NoSandbox

# The ports are beside the types that use them, which are imported when they are first asked for.
if TYPE_CHECKING:
    from anabranch.handlers.spec import SecretReader
    from anabranch.handlers.types.data_query import QueryRunner
    from anabranch.handlers.types.http.token_store import TokenStore
    from anabranch.handlers.types.http_port import HttpAnswer, HttpSender
    from anabranch.handlers.types.variable_nodes import VariableStore
    from anabranch.handlers.types.webhooks.wait_for_webhook import CallbackKey
    from anabranch.handlers.types.workflow import Children


class _NoHttp:
    async def fetch(self, *_: Any, **__: Any) -> HttpAnswer:
        raise NonRetryable("this process cannot send HTTP requests: it was set up without an HTTP client")


class _NoSecrets:
    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        raise NonRetryable("this process has no secrets: it was set up without a secret store")


class _NoQueries:
    async def run_query(self, **_: Any) -> Mapping[str, Any]:
        raise NonRetryable("data queries cannot be run here: there is no database of queries", code="QUERY_NOT_FOUND")


class _NoChildren:
    async def start(self, *_: Any, **__: Any) -> str:
        raise NonRetryable("this process cannot start other runs: it was set up without a service for them")


class _NoCallbacks:
    def check(self) -> None:
        raise NonRetryable("this process cannot sign addresses: it was set up without a key")


class _NoVariables:
    async def read(self, **_: Any) -> Mapping[str, Any]:
        raise NonRetryable("this process has no variables: it was set up without a database")

    async def write(self, **_: Any) -> None:
        raise NonRetryable("this process has no variables: it was set up without a database")


@dataclass(frozen=True, slots=True)
class Services:
    """One field per port; the defaults refuse to work."""

    http: HttpSender = field(default_factory=_NoHttp)
    secrets: SecretReader = field(default_factory=_NoSecrets)
    tokens: TokenStore | None = None
    """None: what a service replaces is kept in memory."""
    sandbox: CodeRunner = field(default_factory=NoSandbox)
    queries: QueryRunner = field(default_factory=_NoQueries)
    children: Children = field(default_factory=_NoChildren)
    callbacks: CallbackKey = field(default_factory=_NoCallbacks)
    variables: VariableStore = field(default_factory=_NoVariables)


NO_SERVICES = Services()
