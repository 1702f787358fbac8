"""`javascript`: runs a function body of `ctx` in a sealed process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.sandbox import CodeRunner
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.code_node import CODE_FIELDS, CodeConfig, MemoryMB, code_field, code_problems, run_code

MEMORY_MB = 64


class JavascriptConfig(CodeConfig):
    """`return` and `await` work; `console` writes to the log."""

    code: str = code_field("javascript")
    memoryLimitMB: MemoryMB = Field(  # noqa: N815 -- as it is written in workflows
        MEMORY_MB,
        title="Memory limit (MB)",
        description="The heap of the engine.",
        json_schema_extra=x_ui(advanced=True),
    )
    allowFetch: bool = Field(  # noqa: N815
        False,
        title="Allow fetch",
        description="Give the code `fetch`, to the public addresses that HTTP requests may reach, too.",
        json_schema_extra=x_ui(advanced=True),
    )


def javascript_spec(sandbox: CodeRunner) -> HandlerSpec:
    """The type, run by this sandbox."""

    async def execute(config: JavascriptConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        return await run_code(
            sandbox,
            config,
            context,
            helpers,
            language="javascript",
            memory_mb=config.memoryLimitMB,
            allow_fetch=config.allowFetch,
        )

    return HandlerSpec(
        type="javascript",
        title="JavaScript",
        config=JavascriptConfig,
        execute=execute,
        literal=CODE_FIELDS,
        inspect=lambda config: code_problems(sandbox, "javascript", config),
        category="code",
        icon="braces",
        description="Runs a JavaScript function body of `ctx` in a sealed process.",
        side_effects="unknown",
        docs="#javascript",
        timeout_ms=None,  # the sandbox keeps the time of the code
    )
