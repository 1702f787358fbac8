"""The interface of a language to its children, and the list of languages.

The fork server loads a language once, each child prepares it before it is sealed (while it can still read files and
randomness), and then gives it one job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

_MODULES = {
    "python": "anabranch.handlers.sandbox.inside.python_language",
    "javascript": "anabranch.handlers.sandbox.inside.javascript_language",
}


class Frame(NamedTuple):
    """A call that was under way in the user's code; line and column count from 1, column 0 is unknown."""

    line: int
    column: int
    name: str
    """Of the function; empty: the body itself."""


class Failure(Exception):
    """Why the code did not give a value. `frames` are those of the user's code, the innermost one last."""

    def __init__(self, code: str, type_name: str, message: str, *, frames: Sequence[Frame] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.type_name = type_name
        self.message = message
        self.frames = frames


class CompileProblem(NamedTuple):
    """A place where the code does not compile."""

    line: int
    column: int
    message: str


class Host(Protocol):
    """The services that code may use: log lines, and (JavaScript) fetch a URL."""

    def log(self, level: str, text: str) -> None:
        """Log a line; beyond the limits it is dropped."""

    def ask(self, request: Mapping[str, Any]) -> bool:
        """Send a request to the service; its answer comes by `answer`. False if it is too large to be sent."""

    def answer(self) -> Any:
        """Wait for the next answer of the service."""


class LanguageEngine(Protocol):
    """A language prepared for one job."""

    def compile(self, code: str) -> list[CompileProblem]:
        """The problems of a function body, which is not run."""

    def run(self, job: Mapping[str, Any], host: Host) -> bytes:
        """Run a job's `code` on its `ctx`: the value as JSON text. Raises Failure."""


Language = Callable[[], LanguageEngine]
"""Prepares the engine of one child, with its own random seed."""


def load_language(name: str) -> Language:
    """Load a language with all that its code may need later, when no file can be opened any more."""
    prepare: Language = import_module(_MODULES[name]).prepare
    return prepare
