"""System workflows that plan forks of coded runs, on workers with the code of the fork.

There is one for each coded workflow and version that a worker knows: so only a worker that can call the function takes
the check. Its output is the plan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from anabranch.durable.context import Context
from anabranch.durable.definition import Workflow, WorkflowRegistry

_PREFIX = "anabranch-fork-"

CHECK_OPTIONS = {"retention": "1d", "retry": {"maxAttempts": 1}, "deadline": "1h"}
"""The deadline and retention of a check, whose result is only used at once."""

# 5 attempts: a database that is away for a moment fails no check.
_RETRY = {"maxAttempts": 5, "backoff": {"kind": "exp", "base": "1s", "max": "10s"}}

Check = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def check_name(workflow: str) -> str:
    """The name of the workflow that checks forks of this one's runs."""
    return _PREFIX + workflow


def is_check(workflow: str) -> bool:
    """Is it the name of a workflow that checks forks?"""
    return workflow.startswith(_PREFIX)


class SystemCode(WorkflowRegistry):
    """The system's own workflows: those given, and a check of forks for each coded workflow that is known here."""

    def __init__(self, workflows: Iterable[Workflow], code: WorkflowRegistry, check: Check) -> None:
        super().__init__(workflows)
        self._code = code
        self._check = check

    def find(self, name: str, version: int) -> Workflow | None:
        """The workflow, or None: it is not known here in this version."""
        checked = self._code.find(name.removeprefix(_PREFIX), version) if name.startswith(_PREFIX) else None
        return super().find(name, version) if checked is None else self._check_of(checked)

    def known(self) -> Sequence[tuple[str, int]]:
        """Name and version of each, in no order."""
        return [*super().known(), *((check_name(name), version) for name, version in self._code.known())]

    def _check_of(self, checked: Workflow) -> Workflow:
        check = self._check

        async def fork_check(ctx: Context, input: Any) -> Any:
            return await ctx.step.run("plan", check, ctx.run_id, input, retry=_RETRY)

        return Workflow(check_name(checked.name), checked.version, fork_check, CHECK_OPTIONS)
