"""`javascript`: runs a function body of `ctx` in a separate sealed process."""

from __future__ import annotations

from pydantic import Field

from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.sandbox import CodeRunner
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.code_node import CodeConfig, MemoryMB, code_field, code_spec

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

    @property
    def may_fetch(self) -> bool:
        """Whether the code may use `fetch`."""
        return self.allowFetch


def javascript_spec(sandbox: CodeRunner) -> HandlerSpec:
    """The type, run by this sandbox."""
    return code_spec(
        sandbox, JavascriptConfig, language="javascript", title="JavaScript", icon="braces", side_effects="unknown"
    )
