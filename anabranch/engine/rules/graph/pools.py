"""Needs of a run: the code of its function, node types, and pools, the groups of workers that execute a
node.

Pure. A run lists the pools of its nodes among its needs, beside its node types, and a worker those that it serves among
the node types that it has. No node type can have such a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from anabranch.dataclass import dataclass

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
    """The entries that a worker of these pools lists; none for the default pool alone."""
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


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a run: what a worker must have to continue it."""

    coded: bool
    """It needs its workflow function, in this version."""
    workflow: str
    version: int
    node_types: Sequence[str] = ()
    """Beyond the built-in ones; and pools."""

    def met_by(self, *, code: Collection[tuple[str, int]], node_types: Collection[str]) -> bool:
        """Whether a worker with this code, these custom node types and these pools can run it."""
        if not are_served(self.node_types, node_types):
            return False
        if self.coded:
            return (self.workflow, self.version) in code
        return all(each in node_types for each in types_in(self.node_types))
