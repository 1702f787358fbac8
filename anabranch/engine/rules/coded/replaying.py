"""Replay rules of a workflow function: loop version, Python and seed, kept in the row that dispatched it.

Pure. Written by `decide`, folded by `evolve`, followed by `durable.function_run`.
"""

from __future__ import annotations

from hashlib import blake2b

from anabranch.engine.rules.event_payloads import ReplayRules

LOOP_VERSION = 1
"""Of the event loop's rules. Runs of versions before it have none in their rows."""

# 48 bits: small enough that numbers of tasks, counted up from it, stay machine words.
_SEED_BYTES = 6


def replay_rules(run_id: str, *, python: str, seed: int | None = None) -> ReplayRules:
    """The replay rules in the row. Another version of Python may order callbacks differently where asyncio leaves it
    open.

    Hashes and random numbers start at `seed`; None: the seed is derived from the run's id.
    """
    return ReplayRules(LOOP_VERSION, python, seed_of(run_id) if seed is None else seed)


def seed_of(run_id: str) -> int:
    """A seed derived from the run's id. With equal seeds the tasks of many runs would collide in the same hash
    buckets."""
    return int.from_bytes(blake2b(run_id.encode(), digest_size=_SEED_BYTES).digest())
