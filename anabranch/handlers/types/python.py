"""`python`: runs a function body of `ctx` in a sealed process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.sandbox import CodeRunner
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.code_node import CODE_FIELDS, CodeConfig, MemoryMB, code_problems, run_code

MEMORY_MB = 128


class PythonConfig(CodeConfig):
    """`return` works; `print` writes to the log; chosen functions of the standard library can be imported."""

    memoryLimitMB: MemoryMB = MEMORY_MB  # noqa: N815 -- as it is written in workflows
    """The heap of the interpreter."""


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
        timeout_ms=None,  # the sandbox keeps the time of the code
    )
