"""Pools: the names of the groups of workers that execute a node, and how runs and workers list them.

Pure. A run lists the pools of its nodes among its needs, beside its node types, and a worker those that it serves among
the node types that it has. No node type can have such a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

DEFAULT_POOL = "default"
"""The pool of nodes and coded workflows that name none."""

EVERY_POOL = "*"
"""What a worker says that serves every pool."""

POOL_NAME_PATTERN = "[a-z0-9][a-z0-9_-]{0,63}"
"""64 characters, as of a workflow: it is part of the names of queues and metrics."""

PREFIX = "pool:"
"""Before the name of a pool in a list of needs."""

_NAME = re.compile(POOL_NAME_PATTERN)


def is_pool_name(text: str) -> bool:
    """Whether the text has the form of a pool's name."""
    return _NAME.fullmatch(text) is not None


def needed(pools: Iterable[str]) -> tuple[str, ...]:
    """The needs of a run with nodes in these pools; none if all are in the default pool, or there are no nodes."""
    names = frozenset(pools)
    return () if names <= {DEFAULT_POOL} else tuple(sorted(PREFIX + name for name in names))


def served(pools: Sequence[str]) -> tuple[str, ...]:
    """What a worker of these pools lists; nothing for the default pool alone."""
    return () if tuple(pools) == (DEFAULT_POOL,) else tuple(PREFIX + name for name in pools)


def pools_in(entries: Iterable[str]) -> frozenset[str]:
    """The pools in a list of needs, or in that of a worker: the default one if it names none."""
    named = frozenset(each.removeprefix(PREFIX) for each in entries if each.startswith(PREFIX))
    return named or frozenset((DEFAULT_POOL,))


def types_in(entries: Iterable[str]) -> tuple[str, ...]:
    """The node types in such a list."""
    return tuple(each for each in entries if not each.startswith(PREFIX))


def are_served(wanted: Collection[str], by: Collection[str]) -> bool:
    """Whether a worker with this list serves all pools of a run with these needs."""
    here = pools_in(by)
    return EVERY_POOL in here or pools_in(wanted) <= here
