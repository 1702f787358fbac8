"""Shared by the two code node types: config, check at save, execution.

Used by `javascript` and `python`. Code is compiled and run in the sandbox, never in the service.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.rules.code_reads import names_read
from anabranch.engine.rules.graph.node_types import SideEffects
from anabranch.handlers.config_fields import Duration, x_ui
from anabranch.handlers.sandbox import CodeJob, CodeRunner
from anabranch.handlers.sandbox.inside.sealed_wire import CODE_BYTES_MAX
from anabranch.handlers.spec import HandlerSpec, NodeConfig, Problem

# 30 seconds, as for every type that names no other bound of one execution.
CODE_TIMEOUT_MS = 30_000

# 1 hour: longer work belongs into a service of its own, not between nodes.
CODE_TIMEOUT_MS_MAX = 3_600_000

# 8 MB hold the interpreter and a small value; work that needs more than 1 GB belongs elsewhere.
MEMORY_MB_MIN = 8
MEMORY_MB_MAX = 1_024

CODE_FIELDS = frozenset({"code"})
"""No templates in them: braces belong to the language, and `ctx` is at hand."""

_LEVELS = {"debug": logging.DEBUG, "warn": logging.WARNING, "error": logging.ERROR, "truncated": logging.WARNING}

Timeout = Annotated[Duration, Field(ge=1, le=CODE_TIMEOUT_MS_MAX)]
MemoryMB = Annotated[int, Field(ge=MEMORY_MB_MIN, le=MEMORY_MB_MAX)]


class CodeConfig(NodeConfig):
    """A function body of `ctx`, and what it may use."""

    code: str
    timeout: Timeout = Field(
        CODE_TIMEOUT_MS,
        description="How long one execution may take, 30 s if not given; it takes the place of the node's own timeout.",
        json_schema_extra=x_ui(widget="duration", placeholder="30s", advanced=True),
    )
    memoryLimitMB: MemoryMB  # noqa: N815 -- as it is written in workflows

    @property
    def may_fetch(self) -> bool:
        """Whether the code may use `fetch`."""
        return False


def code_field(language: str) -> Any:
    """The field `code` of a language."""
    return Field(
        max_length=CODE_BYTES_MAX,
        description="A function body that reads `ctx` and returns the node's output. No templates: braces belong to the"
        " language.",
        json_schema_extra=x_ui(widget="code", language=language),
    )


def code_spec(
    sandbox: CodeRunner, config: type[CodeConfig], *, language: str, title: str, icon: str, side_effects: SideEffects
) -> HandlerSpec:
    """The type of a language, run by this sandbox. Log lines go to the log of the node while the code runs."""

    async def execute(config: CodeConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        """Run the code in the sandbox on the part of the context that it reads; its value is the output."""
        job = CodeJob(
            language=language,
            code=config.code,
            context=_of_interest(config.code, language, context),
            tenant_id=helpers.tenant_id,
            timeout_ms=config.timeout,
            memory_bytes=config.memoryLimitMB << 20,
            allow_fetch=config.may_fetch,
        )

        def log(level: str, text: str) -> None:
            # As one printable line, so that a tenant's line cannot forge log lines.
            helpers.log.log(_LEVELS.get(level, logging.INFO), "%s", _printable(text))

        return HandlerResult(await sandbox.run(job, log))

    return HandlerSpec(
        type=language,
        title=title,
        config=config,
        execute=execute,
        literal=CODE_FIELDS,
        inspect=lambda config: code_problems(sandbox, language, config),
        category="code",
        icon=icon,
        description=f"Runs a {title} function body of `ctx` in a sealed process.",
        side_effects=side_effects,
        docs=f"#{language}",
        timeout_ms=None,  # the sandbox keeps the time of the code
    )


def _of_interest(code: str, language: str, context: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of the context that the code may read."""
    names = names_read(code, language)
    return context if names is None else {name: context[name] for name in names if name in context}


def code_problems(sandbox: CodeRunner, language: str, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Places where the code in a config does not compile, in its own lines and columns."""
    code = config.get("code")
    if not isinstance(code, str):
        return
    if not code.isascii() and (size := len(code.encode("utf-8", "surrogatepass"))) > CODE_BYTES_MAX:
        yield "CODE_INVALID", "/code", f"the code has {size} bytes, the limit is {CODE_BYTES_MAX}"
        return
    if len(code) > CODE_BYTES_MAX:
        return  # the schema reports it
    for problem in sandbox.check(language, code):
        message = f"line {problem.line}, column {problem.column}: {problem.message}"
        yield "CODE_INVALID", "/code", message, (problem.line, problem.column)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
