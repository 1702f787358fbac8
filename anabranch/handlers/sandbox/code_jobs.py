"""Jobs of the sandbox and their results: code, its input, its problems.

Used by the code node types. Knows nothing about processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.errors import NodeFailure

LANGUAGES = ("python", "javascript")
"""The languages of code; the node types have the same names."""


@dataclass(frozen=True, slots=True)
class CodeJob:
    """One execution of a function body."""

    language: str
    """One of `LANGUAGES`."""
    code: str
    context: Mapping[str, Any]
    """The value of `ctx` in the code: JSON values."""
    tenant_id: str
    timeout_ms: int
    memory_bytes: int
    """The heap of the language."""
    allow_fetch: bool = False


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """A place where code does not compile; line and column count from 1."""

    line: int
    column: int
    message: str


class LogLine(Protocol):
    """Takes each line that the code logs, at the moment it does."""

    def __call__(self, level: str, text: str) -> None:
        """`level` is log, info, warn, error, debug, or `truncated` where the log was cut off."""


class CodeRunner(Protocol):
    """Runs code of tenants somewhere safe."""

    async def run(self, job: CodeJob, log: LogLine) -> Any:
        """Run the code and return its result. Raises NodeFailure."""

    def check(self, language: str, code: str) -> list[CodeProblem]:
        """The place where the code does not compile. Blocks for some milliseconds; the code is not run."""


class NoSandbox:
    """The default without a sandbox, for callers that only validate and compile workflows."""

    async def run(self, job: CodeJob, log: LogLine) -> Any:
        """Refuses."""
        raise unavailable("this process was set up without a sandbox")

    def check(self, language: str, code: str) -> list[CodeProblem]:
        """Returns nothing: there is no sandbox to check with."""
        return []


def unavailable(reason: str) -> NodeFailure:
    """The error of a machine that cannot seal a process."""
    message = (
        f"code nodes do not run here: {reason}. They need Linux with seccomp;"
        " ANABRANCH_SANDBOX_UNSAFE=true runs them without, for code that you wrote yourself"
    )
    return NodeFailure("SANDBOX_UNAVAILABLE", message, type_name="SandboxUnavailable", retryable=False)
