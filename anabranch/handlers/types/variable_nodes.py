"""`readVariables` and `writeVariables`: values by name, of the tenant and of the workflow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, Protocol

from pydantic import Field

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.errors import InvalidRequest, NonRetryable
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 100 names: a node reads what it needs, and one of these has at most 256 kB.
NAMES_MAX = 100


class VariableStore(Protocol):
    """The variables of a tenant, and of its workflows. A test run has no workflow: it reads and keeps nothing."""

    async def read(
        self, *, tenant_id: str, workflow_id: str | None, names: Collection[str] | None
    ) -> Mapping[str, Any]:
        """Those of these names that exist, or all; of the tenant itself for `OF_TENANT`.

        Raises ValueTooLarge for more than an output can have.
        """

    async def write(self, *, tenant_id: str, workflow_id: str | None, values: Mapping[str, Any], writer: str) -> None:
        """Write these of a workflow, all or none, and remove those that are None; once for each writer.

        Raises InvalidRequest, ValueNotStorable, ValueTooLarge.
        """


OF_TENANT = ""
"""In place of the id of a workflow."""


class ReadVariablesConfig(NodeConfig):
    """Which variables."""

    of: Literal["tenant", "workflow"] = Field(
        "tenant",
        title="Whose",
        description="`tenant`: those that people set; `workflow`: those that its runs have written.",
    )
    names: list[str] | None = Field(
        None,
        max_length=NAMES_MAX,
        description="Their names, at most 100; all of them, if not given.",
        json_schema_extra=x_ui(),
    )


class WriteVariablesConfig(NodeConfig):
    """What is written."""

    values: dict[str, Any] = Field(
        max_length=NAMES_MAX,
        description="Names with values; null removes a variable.",
        json_schema_extra=x_ui(widget="keyValue"),
    )


def read_variables_spec(store: VariableStore) -> HandlerSpec:
    """The node type for a store. What was read is the output, so a replay and later nodes have the same."""

    async def execute(config: ReadVariablesConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        owner = OF_TENANT if config.of == "tenant" else helpers.workflow_id
        return HandlerResult(dict(await store.read(tenant_id=helpers.tenant_id, workflow_id=owner, names=config.names)))

    return HandlerSpec(
        type="readVariables",
        title="Read variables",
        config=ReadVariablesConfig,
        execute=execute,
        category="data",
        icon="database",
        description="Reads values that people set, or that earlier runs kept.",
        side_effects="external",
        docs="#readvariables",
        output_schema=lambda config: {"type": "object"},
    )


def write_variables_spec(store: VariableStore) -> HandlerSpec:
    """The node type for a store. An attempt that is executed again writes nothing again."""

    async def execute(config: WriteVariablesConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        workflow, writer = helpers.workflow_id, helpers.idempotency_key
        try:
            await store.write(tenant_id=helpers.tenant_id, workflow_id=workflow, values=config.values, writer=writer)
        except InvalidRequest as refusal:
            raise NonRetryable(str(refusal), code=refusal.code) from None
        return HandlerResult(dict(config.values))

    return HandlerSpec(
        type="writeVariables",
        title="Write variables",
        config=WriteVariablesConfig,
        execute=execute,
        category="data",
        icon="database",
        description="Keeps values for later runs of the workflow.",
        side_effects="external",
        docs="#writevariables",
        output_schema=lambda config: {"type": "object"},
    )
