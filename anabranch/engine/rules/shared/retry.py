"""Retries: how often a failed attempt is repeated, and how long it waits.

Pure. The validator parses a node's `retry` with it, `decide` asks when the next attempt is due, and coded steps use the
same policy. Jitter is a hash of what is retried, not random: the same attempt of the same activation waits equally long
wherever it is decided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.graph.known_fields import did_you_mean

# 1000 attempts: with any sensible backoff, more would outlive every deadline, so a larger number is a mistake.
ATTEMPTS_MAX = 1_000

# A day covers quotas that are renewed daily. A server that asks for more must not park a run for years, so the next
# attempt comes after a day.
RETRY_AFTER_MS_MAX = 86_400_000

KINDS = ("exp", "linear", "fixed")

# 2**40 ms is 34 years: past it every base exceeds the longest duration, so the doubling stops
# there and the arithmetic stays small.
_EXPONENT_MAX = 40

_JITTER_STEPS = 2**32


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many attempts an activation has, and the waits between them (milliseconds)."""

    max_attempts: int = 3
    kind: str = "exp"
    """`exp` doubles the wait each time, `linear` adds `base_ms`, `fixed` keeps it."""
    base_ms: int = 1_000
    max_ms: int = 60_000
    jitter: float = 0.0
    """Fraction by which a wait is lengthened or shortened: 0.2 means between 80 % and 120 %."""

    @classmethod
    def parse(cls, value: Any, *, default: RetryPolicy | None = None) -> RetryPolicy:
        """The policy of `{"maxAttempts": 3, "backoff": {"kind", "base", "max", "jitter"}}`, for nodes and steps alike.

        `attempts` is another name of `maxAttempts`. Fields that are left out or null come from `default`, which is that
        of nodes unless given. Raises ValueError that names the invalid field.
        """
        default = DEFAULT_RETRY if default is None else default
        if value is None:
            return default
        fields = _object(value, "retry", ("maxAttempts", "backoff"), others=("attempts",))
        if "attempts" in fields and "maxAttempts" in fields:
            raise ValueError("retry has both maxAttempts and attempts, which are the same: give one")
        attempts = "attempts" if "attempts" in fields else "maxAttempts"
        backoff = fields.get("backoff")
        waits = {} if backoff is None else _object(backoff, "retry.backoff", ("kind", "base", "max", "jitter"))
        kind = waits.get("kind", default.kind)
        if kind not in KINDS:
            raise ValueError(f"retry.backoff.kind must be one of {', '.join(KINDS)}")
        return cls(
            max_attempts=_attempts(fields.get(attempts, default.max_attempts), attempts),
            kind=kind,
            base_ms=_duration(waits, "base", default.base_ms),
            max_ms=_duration(waits, "max", default.max_ms),
            jitter=_fraction(waits.get("jitter", default.jitter)),
        )

    def delay_ms(self, attempt: int, *, key: str) -> int:
        """The wait in milliseconds after failed attempt number `attempt` (1, 2, …), never negative.

        `key` names what is retried; with jitter, different keys spread out, and the same key
        and attempt always wait equally long. Jitter may pass `max_ms` by its fraction.
        """
        if self.kind == "exp":
            wait = self.base_ms << min(attempt - 1, _EXPONENT_MAX)
        elif self.kind == "linear":
            wait = self.base_ms * attempt
        else:
            wait = self.base_ms
        wait = min(wait, self.max_ms)
        if not self.jitter:
            return wait
        return max(0, round(wait * (1 + self.jitter * _dice(key, attempt))))


DEFAULT_RETRY = RetryPolicy()
"""Three attempts, one and two seconds apart."""

DEFAULT_STEP_RETRY = RetryPolicy(jitter=0.2)
"""The same, with a random fifth: thousands of runs of one function may fail together, and must not retry together."""


def _object(value: Any, path: str, known: tuple[str, ...], *, others: tuple[str, ...] = ()) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path} must be an object with {', '.join(known)}")
    for name in value:
        if name not in known and name not in others:
            meant = did_you_mean(str(name)[:64], known)
            advice = f"its fields are {', '.join(known)}" if meant is None else f"d{meant[1:]}"
            raise ValueError(f"{path} has no field {str(name)[:64]!r}: {advice}")
    return value


def _attempts(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= ATTEMPTS_MAX:
        raise ValueError(f"retry.{name} must be a whole number from 1 to {ATTEMPTS_MAX}")
    return value


def _duration(waits: Mapping[str, Any], name: str, default: int) -> int:
    try:
        return parse_duration(waits[name]) if name in waits else default
    except ValueError as refusal:
        raise ValueError(f"retry.backoff.{name}: {refusal}") from None


def _fraction(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError("retry.backoff.jitter must be a fraction from 0 to 1")
    return float(value)


def _dice(key: str, attempt: int) -> float:
    """A number in [-1, 1) that depends only on its arguments."""
    digest = hashlib.blake2b(f"{attempt}:{key}".encode(errors="surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "big") / _JITTER_STEPS * 2 - 1
