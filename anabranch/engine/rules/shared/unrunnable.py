"""Runs that no worker can run: what suspends them, and how they fail when their deadline passes.

Pure. Called by the stores. What a run needs of a worker is in `graph.pools`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from anabranch.engine.rules.event_payloads import RunFailedPayload, RunSuspended
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.graph import pools
from anabranch.engine.rules.graph.pools import Needs
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import RunError


def nobody_fits(needs: Needs, living: Sequence[tuple[Collection[tuple[str, int]], Collection[str]]]) -> RunSuspended:
    """The suspension of a run that no worker can run; `living` is what the living ones have: code, and node types with
    pools."""
    lists = [entries for _, entries in living]
    wanted = sorted(pools.pools_in(needs.node_types))
    in_pools = "" if wanted == [pools.DEFAULT_POOL] else f" of the pool{_s(wanted)} {_listed(wanted)}"
    if (in_pools or lists) and not any(pools.are_served(needs.node_types, entries) for entries in lists):
        return _nobody_serves(wanted, lists)
    if needs.coded:
        message = f"no worker{in_pools} has version {needs.version} of the coded workflow {needs.workflow!r}"
        hint = "Start a worker that imports it (`--import`): the run goes on by itself."
        return RunSuspended(SuspendReason.UNKNOWN_WORKFLOW, message, hint)
    types = pools.types_in(needs.node_types)
    message = f"no worker{in_pools} has the node type{_s(types)} {_listed(types)}"
    hint = "Start a worker that imports them (`--import`) or has their package: the run goes on by itself."
    return RunSuspended(SuspendReason.UNKNOWN_NODE_TYPE, message, hint)


def _nobody_serves(wanted: Sequence[str], lists: Sequence[Collection[str]]) -> RunSuspended:
    unserved = [
        name for name in wanted if not any(pools.are_served((pools.PREFIX + name,), entries) for entries in lists)
    ]
    if unserved:
        message = f"no worker serves the pool{_s(unserved)} {_listed(unserved)}"
    else:
        message = f"no single worker serves all pools of the run: {_listed(wanted)}"
    hint = f"Start a worker with `--pools {','.join(wanted)}`: the run goes on by itself."
    return RunSuspended(SuspendReason.UNSERVED_POOL, message, hint)


def _s(names: Sequence[str]) -> str:
    return "s" if len(names) > 1 else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def deadline_passed_unfit(deadline_at: int) -> RunFailedPayload:
    """The failure of a run whose deadline passes while no worker can run it."""
    return RunFailedPayload(
        RunError("DEADLINE_EXCEEDED", "DeadlineExceeded", f"the run was not done by {to_iso(deadline_at)}")
    )
