"""`python`: runs a function body of `ctx` in a sealed process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.sandbox import CodeRunner
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.code_node import CODE_FIELDS, CodeConfig, MemoryMB, code_field, code_problems, run_code

MEMORY_MB = 128


class PythonConfig(CodeConfig):
    """`return` works; `print` writes to the log; chosen functions of the standard library can be imported."""

    code: str = code_field("python")
    memoryLimitMB: MemoryMB = Field(  # noqa: N815 -- as it is written in workflows
        MEMORY_MB,
        title="Memory limit (MB)",
        description="The heap of the interpreter.",
        json_schema_extra=x_ui(advanced=True),
    )


def python_spec(sandbox: CodeRunner) -> HandlerSpec:
    """The type, run by this sandbox."""

    async def execute(config: PythonConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        return await run_code(sandbox, config, context, helpers, language="python", memory_mb=config.memoryLimitMB)

    return HandlerSpec(
        type="python",
        title="Python",
        config=PythonConfig,
        execute=execute,
        literal=CODE_FIELDS,
        inspect=lambda config: code_problems(sandbox, "python", config),
        category="code",
        icon="code",
        description="Runs a Python function body of `ctx` in a sealed process.",
        side_effects="none",
        docs="#python",
        timeout_ms=None,  # the sandbox keeps the time of the code
    )
