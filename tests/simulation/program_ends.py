"""What a program must come to, given how its steps ended: worked out from the tree, without running anything.

Called by `coded_invariants` when a coded run ends, and by nobody who runs one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.program_functions import REFUSED, Call
from tests.simulation.programs import (
    Caught,
    Gather,
    Invoke,
    Look,
    Node,
    Program,
    Raise,
    Repeated,
    Run,
    Send,
    Sleep,
    Wait,
)


class Failure(Exception):
    """The program fails with this error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Unfinished(Exception):
    """The program cannot have come so far: a step that it needs has not ended."""


End = tuple[bool, Any]
"""(did it end well?, its output or its error)."""


def what_it_is_worth(
    program: Program, attempt: int, end_of: Callable[[Call], End | None], look: Callable[[int], list[Any]]
) -> list[Any]:
    """The output of this attempt of the function. Raises Failure, Unfinished."""
    return _Reader(attempt, end_of, look).sequence(program)


class _Reader:
    def __init__(self, attempt: int, end_of: Callable[[Call], End | None], look: Callable[[int], list[Any]]) -> None:
        self._attempt = attempt
        self._end_of = end_of
        self._look = look
        self._looks = 0
        self._numbers: dict[str, int] = {}

    def sequence(self, program: Program) -> list[Any]:
        return [self._part(node) for node in program]

    def _part(self, node: Node) -> Any:
        match node:
            case Run() | Sleep() | Wait() | Invoke():
                return self._step(node.name)
            case Send():
                try:
                    return self._step(node.name)
                except Failure:
                    return REFUSED
            case Look():
                self._looks += 1
                return self._look(self._looks)
            case Raise():
                if self._attempt < node.below:
                    raise Failure("HANDLER_ERROR", f"attempt {self._attempt} of the function fails")
                return None
            case Gather():
                return self._gather(node)
            case Caught():
                try:
                    return self.sequence(node.part)
                except Failure as failure:
                    return [failure.code, self.sequence(node.instead)]
            case Repeated():
                return [self.sequence(node.part) for _ in range(node.times)]

    def _step(self, name: str) -> Any:
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        end = self._end_of((name, number))
        if end is None:
            raise Unfinished(f"{name} has not ended")
        is_good, value = end
        if not is_good:
            raise Failure(value["code"], value["message"])
        return value

    def _gather(self, node: Gather) -> list[Any]:
        worth: list[Any] = []
        failures: list[Failure] = []
        unfinished: list[Unfinished] = []
        for branch in node.branches[1:] if node.how == "cancel" else node.branches:
            try:
                worth.append(self.sequence(branch))
            except Failure as failure:
                worth.append(failure.code)
                failures.append(failure)
            except Unfinished as missing:
                unfinished.append(missing)
        if node.how != "collect" and failures:
            raise failures[0]
        if unfinished:
            raise unfinished[0]
        return worth
