"""`javascript`: runs a function body of `ctx` in a sealed process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.sandbox import CodeRunner
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.code_node import CODE_FIELDS, CodeConfig, MemoryMB, code_problems, run_code

MEMORY_MB = 64


class JavascriptConfig(CodeConfig):
    """`return` and `await` work; `console` writes to the log."""

    memoryLimitMB: MemoryMB = MEMORY_MB  # noqa: N815 -- as it is written in workflows
    """The heap of the engine."""
    allowFetch: bool = False  # noqa: N815
    """Gives the code `fetch`, past the guard that httpRequest goes past too."""


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
        timeout_ms=None,  # the sandbox keeps the time of the code
    )
