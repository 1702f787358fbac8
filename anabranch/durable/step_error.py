"""StepError: the exception in a workflow function for a step that failed for good.

Also used by clients: imports no engine.
"""

from __future__ import annotations

import inspect
from typing import Any


class StepError(Exception):
    """A step failed for good.

    It is the same on the first run and on every replay, because it is built from the log. `type` is the qualified name
    of the exception's class (`ValueError`, `shop.errors.Declined`), `code` a stable code for programs, `attempt` the
    number of the last attempt. On the first run `__cause__` is the exception itself.

    Somebody who makes one may give an exception for the message, or a class for the type: each field
    becomes text, as `str` makes it, and what is not a whole number is attempt 1.
    """

    def __init__(
        self, type: str | type[BaseException], message: object, code: str = "HANDLER_ERROR", attempt: object = 1
    ) -> None:
        self.type = qualified_name(type) if inspect.isclass(type) else str(type)
        self.message = str(message)
        self.code = str(code)
        self.attempt = attempt if isinstance(attempt, int) else 1
        super().__init__(self.message)
        self.stored: Any = None
        """The error as the log keeps it, with the step that it is of; None: it was made by somebody else."""

    def is_a(self, kind: str | type[BaseException]) -> bool:
        """Whether the exception was of this class, given by qualified name, bare name, or the class itself; subclasses
        do not count."""
        wanted = kind if isinstance(kind, str) else qualified_name(kind)
        return wanted in (self.type, self.type.rpartition(".")[2])

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep all fields when pickled or copied; by default an exception is rebuilt from its `args` alone."""
        return _with_args, (type(self), self.args), self.__dict__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepError) and self._picture == other._picture

    def __hash__(self) -> int:
        return hash(self._picture)

    def __repr__(self) -> str:
        return f"StepError({self.type!r}, {self.message!r}, code={self.code!r}, attempt={self.attempt})"

    @property
    def _picture(self) -> tuple[str, str, str, int]:
        return self.type, self.message, self.code, self.attempt


class Suspended(BaseException):
    """Unwinds a workflow function that only waits: it is called again when a wait is over.

    A BaseException on purpose, so that `except Exception` does not catch it. Code that catches everything can continue,
    but its calls get no results and are not recorded.
    """


def qualified_name(kind: type) -> str:
    """`module.Class`, or `Class` for the built-in ones."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _with_args(kind: type[StepError], args: tuple[Any, ...]) -> StepError:
    return kind.__new__(kind, *args)
