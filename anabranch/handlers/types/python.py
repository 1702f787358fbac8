"""`python`: runs a function body of `ctx` in a separate sealed process."""

from __future__ import annotations

from pydantic import Field

from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.sandbox import CodeRunner
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.code_node import CodeConfig, MemoryMB, code_field, code_spec

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
    return code_spec(sandbox, PythonConfig, language="python", title="Python", icon="code", side_effects="none")
