"""What the oracle notes down while it walks: activations, iterations, and what certainly came before what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Errors: TypeAlias = tuple[tuple[str, int | None], ...]
"""(code, attempt) of each error it may be; several: whichever happens first. Attempt None: not promised."""


def base_of(scope: str) -> str:
    """The scope itself, or the one around the passes that it is in: names are written there."""
    while "#" in scope.rpartition("/")[2]:
        scope = scope.rpartition("/")[0]
    return scope


@dataclass(eq=False)
class Activation:
    """One node in one scope, as if nothing ever stopped the run."""

    node: Mapping[str, Any]
    scope: str
    frame: Mapping[str, Any]
    """What is in the context before any variable: input, and in loops item, index, count, results."""
    ready: Sequence[frozenset[Activation]]
    """It is dispatched at once when all of any of these have ended: one for each live edge of an `any` join."""
    outcome: str = "open"
    handle: str | None = None
    """Its live exit."""
    attempt: int | None = 1
    past: frozenset[Activation] = frozenset()
    """What has certainly ended when it has ended, itself included."""
    errors: Errors = ()
    iterations: list[Iteration] = field(default_factory=list)
    batch: list[Any] = field(default_factory=list)
    """Of a cursor: what it hands out."""
    certain: bool = True
    """It ends this way unless the whole instance is stopped before."""
    stops: str | None = None
    """The status that its ending gives to the instance."""

    @property
    def before(self) -> frozenset[Activation]:
        """What has certainly ended when it is dispatched."""
        return frozenset.intersection(*self.ready)

    def is_dispatched_before_the_end_of(self, other: Activation) -> bool:
        """True if it certainly is, because what makes it ready also comes before the other. Within one scope only."""
        return self.scope == other.scope and any(enough <= other.before for enough in self.ready)

    @property
    def has_no_verdicts(self) -> bool:
        """True if its edges stay open for ever: it never ends, or its failure is handled by nobody here."""
        return self.outcome == "open" or (self.outcome == "failed" and self.handle is None)


@dataclass(eq=False)
class Iteration:
    """One scope: its own activations by node id, and all that were made in it and in inner scopes."""

    scope: str
    frame: Mapping[str, Any]
    here: dict[str, Activation]
    created: list[Activation]
    past: frozenset[Activation]
    errors: Errors
    """Not empty: the iteration fails with one of these."""
    stuck: bool
    """It never ends by itself, because something in it stops the instance."""


@dataclass(eq=False)
class Passes:
    """One region in one scope, as a member of what is around it."""

    live: set[tuple[str, str, str]] = field(default_factory=set)
    """The edges out of it that were live in any pass."""
    past: frozenset[Activation] = frozenset()
    is_open: bool = False
    """It never ends: its edges stay without a verdict."""
    breaking: list[Activation] = field(default_factory=list)
    """Failures in it that nobody handles there."""
    undecided: list[Activation] = field(default_factory=list)
    """What would be skipped if the iteration around it failed."""
