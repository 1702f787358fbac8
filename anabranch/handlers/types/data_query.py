"""`dataQuery`: runs a saved query with arguments and returns its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from pydantic import Field

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class QueryRunner(Protocol):
    """Runs a tenant's saved queries."""

    async def run_query(
        self, *, tenant_id: str, data_query_id: str, args: Mapping[str, Any], as_in_node: bool = False
    ) -> Mapping[str, Any]:
        """`{"rows", "rowCount"}`; values as the driver of Node.js gives them, if asked. Raises NodeFailure or
        NonRetryable."""


class DataQueryConfig(NodeConfig):
    """Which query, and a value for each of its parameters."""

    dataQueryID: str = Field(  # noqa: N815 -- its name in JSON
        min_length=1,
        title="Query",
        description="Id or name of a saved query.",
        json_schema_extra=x_ui(widget="query"),
    )
    args: dict[str, Any] = Field(
        default_factory=dict,
        title="Arguments",
        description="A value for each `:name` of its SQL.",
        json_schema_extra=x_ui(widget="keyValue"),
    )
    values: Literal["standard", "node"] = Field(
        "standard",
        title="Values",
        description="How values of PostgreSQL are written: `node` as the driver of Node.js gives them to JSON, for"
        " workflows that come from there.",
        json_schema_extra=x_ui(advanced=True),
    )


def data_query_spec(runner: QueryRunner) -> HandlerSpec:
    """The node type for a query engine.

    Values of `args` may be templates: they are bound, never inserted into SQL. The query cannot be a template, so that
    its permissions are known at save.
    """

    async def execute(config: DataQueryConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        answer = await runner.run_query(
            tenant_id=helpers.tenant_id,
            data_query_id=config.dataQueryID,
            args=config.args,
            as_in_node=config.values == "node",
        )
        return HandlerResult(dict(answer))

    return HandlerSpec(
        type="dataQuery",
        title="Query data",
        config=DataQueryConfig,
        execute=execute,
        fixed=frozenset({"dataQueryID", "values"}),
        category="data",
        icon="database",
        description="Runs a saved SQL query and returns its rows.",
        side_effects="external",
        docs="#dataquery",
        output_schema=lambda config: {
            "type": "object",
            "properties": {"rows": {"type": "array", "items": {"type": "object"}}, "rowCount": {"type": "integer"}},
        },
    )
