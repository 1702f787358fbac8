"""What the oracle says about a run, what a run did, and where the two disagree.

Called by the tests that drive the engine. The oracle never guesses: what depends on timing is
not in `must` but in `may`, and values that depend on it are UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.oracle.expressions import UNKNOWN

ActivationKey: TypeAlias = tuple[str, str]
"""(node id, scope): one activation."""

ABSENT = "absent"


class AtLeast(dict[str, Any]):
    """An object that has these members and perhaps others."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an activation ended: `completed`, `failed` or `skipped`, at which attempt, and the value in its row."""

    outcome: str
    attempt: int | None = None
    """None: not promised (a skipped node was never tried)."""
    value: Any = UNKNOWN


@dataclass(frozen=True, slots=True)
class Prediction:
    """The part of a run's outcome that does not depend on timing, and the bounds of the rest."""

    statuses: frozenset[str]
    """The terminal statuses that are possible; one if it is determined."""
    codes: frozenset[str]
    """The error codes that are possible if the run fails."""
    output: Any
    """The instance output if it completes."""
    must: Mapping[ActivationKey, Ending]
    """Activations that certainly end, and how."""
    may: Mapping[ActivationKey, frozenset[str]]
    """Activations whose ending depends on timing: the outcomes possible, ABSENT among them."""
    others: frozenset[str] = frozenset({ABSENT})
    """What may become of activations that are listed nowhere."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run did, read from its log."""

    status: str
    output: Any = None
    code: str | None = None
    endings: Mapping[ActivationKey, Ending] = field(default_factory=dict)


def disagreements(prediction: Prediction, observed: Observed) -> Iterator[str]:
    """Each place where the run did what the contract does not allow, in words."""
    if observed.status not in prediction.statuses:
        yield f"status: expected {_one_of(prediction.statuses)}, got {observed.status}"
    if observed.status == "FAILED" and observed.code not in prediction.codes:
        yield f"error code: expected {_one_of(prediction.codes)}, got {observed.code}"
    if observed.status == "COMPLETED" and not agrees(prediction.output, observed.output):
        yield f"output: expected {prediction.output}, got {observed.output}"
    for key, expected in prediction.must.items():
        got = observed.endings.get(key)
        if got is None or got.outcome != expected.outcome:
            yield f"{_shown(key)}: expected {expected.outcome}, got {got.outcome if got else ABSENT}"
        elif expected.attempt is not None and got.attempt != expected.attempt:
            yield f"{_shown(key)}: expected to end at attempt {expected.attempt}, got {got.attempt}"
        elif not agrees(expected.value, got.value):
            yield f"{_shown(key)}: expected the value {expected.value}, got {got.value}"
    for key, got in observed.endings.items():
        allowed = prediction.may.get(key, prediction.others)
        if key not in prediction.must and got.outcome not in allowed:
            yield f"{_shown(key)}: expected {_one_of(allowed)}, got {got.outcome}"


def agrees(expected: Any, got: Any) -> bool:
    """True if the value is the expected one, UNKNOWN standing for any."""
    if expected is UNKNOWN:
        return True
    if isinstance(expected, dict):
        if not isinstance(got, dict) or not (expected.keys() <= got.keys()):
            return False
        same_keys = isinstance(expected, AtLeast) or expected.keys() == got.keys()
        return same_keys and all(agrees(value, got[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(got, list) and len(expected) == len(got) and all(map(agrees, expected, got))
    return type(expected) is type(got) and bool(expected == got)


def _one_of(names: frozenset[str]) -> str:
    return " or ".join(sorted(names)) or "nothing"


def _shown(key: ActivationKey) -> str:
    return f"{key[0]} in {key[1]}" if key[1] else key[0]
