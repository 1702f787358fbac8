"""Calls of steps that are not answered yet, and why they are not. Known to `body` and `steps`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from anabranch.durable.branches import Branch
from anabranch.engine.rules.coded.places import StepKind
from anabranch.engine.rules.stimuli import StepReport


class Rest(Enum):
    """Why a call is not answered yet."""

    UNSETTLED = "its rows are on their way"
    HELD = "nothing new is done before all that the log has was asked for"
    REPLAYED = "it has ended, and its turn in the order of the log has not come"
    WAITING = "a timer, a signal, a child or another try"


class Call:
    """One call of a step by the author's code, until it is answered."""

    __slots__ = ("asked", "branch", "future", "kind", "name", "rest", "scope", "since", "until")

    def __init__(self, name: str, scope: str, kind: StepKind, branch: Branch) -> None:
        self.name = name
        self.scope = scope
        self.kind = kind
        self.branch = branch
        self.asked: StepReport | None = None
        """A wait that is not reported yet."""
        self.future: asyncio.Future[None] | None = None
        self.rest = Rest.UNSETTLED
        self.until: Callable[[], bool] = bool
        self.since = 0.0

    @property
    def place(self) -> tuple[str, str]:
        """Name and scope."""
        return self.name, self.scope

    @property
    def shown(self) -> str:
        """As people see it: `fetch#2`."""
        return f"{self.name}{self.scope}"
