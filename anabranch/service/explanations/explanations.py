"""Explain runs: why a node ran, was skipped or waits, and the state of a run at any row of its log."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from anabranch.dead_letters.dead_letters import DeadLetter
from anabranch.deferred import deferred
from anabranch.engine.log_pages import log_pages
from anabranch.engine.plans import PlanCache
from anabranch.engine.pool_worker import RemoteExecution
from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot, InstanceState
from anabranch.engine.rules.drawn.scopes import is_item_of
from anabranch.engine.rules.event_payloads import DEFINITION_SEQ, read_definition
from anabranch.engine.rules.graph.control_flow.structure import structure_of
from anabranch.engine.rules.graph.document import GraphEdge, parse
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.history import ActivationView
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import InvalidRequest, NotFound, RunTooLarge
from anabranch.service.definitions.checks import Checks
from anabranch.service.definitions.pause_verbs import paused_by
from anabranch.service.runs.read_verbs import no_run, run_row
from anabranch.service.runs.run_view import waits_for

if TYPE_CHECKING:
    from anabranch.service.explanations import as_of, why
else:
    as_of = deferred("anabranch.service.explanations.as_of")
    why = deferred("anabranch.service.explanations.why")

# Folding 200,000 rows takes a thread some three seconds; a larger run is read in pages instead.
ROWS_MAX = 200_000

# 16 states of 20,000 rows or fewer: a slider or a page requests the same ones again and again.
KEPT_MAX = 16
KEPT_ROWS_MAX = 20_000

# 64 kB: larger values are fetched by their path.
VALUE_BYTES_MAX = 65_536

# 10,000 activations and as many edges: more than a page draws; `scope` filters them.
SHOWN_MAX = 10_000


class Explanations:
    """Answers `at` and `why` for runs of one tenant."""

    def __init__(
        self,
        store: Store,
        plans: PlanCache,
        checks: Checks,
        *,
        elsewhere: RemoteExecution | None = None,
        dead_letters_of: Callable[[str], Awaitable[Sequence[DeadLetter]]] | None = None,
    ) -> None:
        """`elsewhere` knows the jobs of executors, if there is a broker; `dead_letters_of` reads those of a run."""
        self._dead_letters_of = dead_letters_of
        self._elsewhere = elsewhere
        self._store = store
        self._plans = plans
        self._checks = checks
        self._kept: OrderedDict[tuple[str, int], as_of.RunAsOf] = OrderedDict()

    async def at(
        self, instance_id: str, seq: int, *, tenant_id: str, scope: str | None = None, path: str | None = None
    ) -> dict[str, Any]:
        """A run after the first `seq` rows of its log: status, activations, edges, waits, context.

        `scope` narrows activations and edges to one scope, and the context is what a node of that scope sees (the
        root's without it). `path` (`orders.0.total`) gives the value there as `ctx`, whole. Raises NotFound,
        RunTooLarge, and InvalidRequest for a seq or a path that does not exist.
        """
        row = await run_row(self._store, instance_id, tenant_id=tenant_id)
        if not 1 <= seq <= row.last_seq:
            raise InvalidRequest(f"the log of run {instance_id} has no row {seq}", hint=f"Ask for 1 to {row.last_seq}.")
        run = await self._run(row, seq)
        return await self._checks.run(tenant_id, _shown_at, run, row, scope, path)

    async def why_run(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """What a run waits for, or how it ended. Raises NotFound, RunTooLarge."""
        row = await run_row(self._store, instance_id, tenant_id=tenant_id)
        run = await self._run(row, row.last_seq)
        circumstances = await self._owner_and_pause(row)
        found = await self._checks.run(tenant_id, lambda: why.why_run(run, **circumstances))
        return {"instanceID": instance_id, **await self._with_children(await self._with_jobs(instance_id, found))}

    async def why_node(self, instance_id: str, node_id: str, *, tenant_id: str, scope: str = "") -> dict[str, Any]:
        """Why a node has run, was skipped, or has not run yet. Raises NotFound (run or node), RunTooLarge."""
        row = await run_row(self._store, instance_id, tenant_id=tenant_id)
        run = await self._run(row, row.last_seq)
        if isinstance(run.plan, Plan):
            known = node_id in run.plan.nodes
        else:
            known = (node_id, scope) in run.activations
        if not known:
            is_drawn = isinstance(run.plan, Plan)
            raise NotFound(
                f"run {instance_id} has no {'node' if is_drawn else 'step'} {node_id!r}"
                + (f" in scope {scope!r}" if scope else ""),
                hint="Nodes that cannot be reached are not part of a run."
                if is_drawn
                else "Steps are part of a run once its function has asked for them.",
            )
        circumstances = await self._owner_and_pause(row)
        found = await self._checks.run(tenant_id, lambda: why.why_node(run, node_id, scope, **circumstances))
        return {"instanceID": instance_id, **await self._with_children(await self._with_jobs(instance_id, found))}

    async def context_at(
        self, instance_id: str, node_id: str, scope: str | None, *, tenant_id: str
    ) -> tuple[ContextSnapshot, Plan]:
        """The context of a node when it was reached, and the plan of its run; for a node that was not reached, the
        context now, as of the latest row.

        Without a scope: of its first activation. Raises NotFound, InvalidRequest for a coded run, RunTooLarge.
        """
        row = await run_row(self._store, instance_id, tenant_id=tenant_id)
        if row.head.kind == CODED_KIND:
            raise InvalidRequest(f"run {instance_id} is a coded run and has no templates")
        run = await self._run(row, row.last_seq)
        reached = [each for (node, at), each in run.activations.items() if node == node_id and scope in (None, at)]
        if reached:
            # Of a mapped node that of an item, which its config is read in.
            first = next((each for each in reached if is_item_of(node_id, each.scope)), reached[0])
            run = await self._run(row, first.first_seq)
            scope = first.scope
        state, plan = run.state, run.plan
        assert isinstance(state, InstanceState), "a drawn run has the state of one"
        assert isinstance(plan, Plan), "and a plan"
        activation = state.activation(node_id, scope or "")
        if activation is not None:
            return activation.context, plan
        facts = state.facts_at(run.at)
        return state.context_of(state.scopes.get(scope or "", state.root), facts), plan

    # -- within ---------------------------------------------------------------------------
    async def _owner_and_pause(self, row: InstanceRow) -> dict[str, Any]:
        """The worker that owns a run, and the pause that keeps it from running."""
        pauses = await paused_by(self._store, [row], tenant_id=row.head.tenant_id)
        return {"worker": row.worker_id, "paused_by": pauses.get(row.head.instance_id)}

    async def _with_jobs(self, instance_id: str, found: dict[str, Any]) -> dict[str, Any]:
        """The same answer, with what keeps jobs from executors. The pool of a coded step is known only where its run
        is executed: the log does not have it."""
        sentences = set()
        executions = [reason for reason in _reasons_in(found["waitsFor"]) if "attempt" in reason]
        jobs = () if self._elsewhere is None or not executions else self._elsewhere.jobs_of(instance_id)
        outstanding = {(each.node_id, each.scope, each.attempt): each for each in jobs}
        queued = Counter[str]()
        for reason in executions:
            job = outstanding.get((reason["nodeID"], reason["scope"], reason["attempt"]))
            if job is not None:
                reason["pool"], reason["begun"] = job.pool, job.has_begun
                queued[job.pool] += not job.has_begun
        in_pools = [reason for reason in executions if "pool" in reason]
        if in_pools and self._dead_letters_of is not None:
            found_letters = await self._dead_letters_of(instance_id)
            letters = {(each.node_id, each.scope, each.attempt): each for each in found_letters}
            for reason in in_pools:
                letter = letters.get((reason["nodeID"], reason["scope"], reason["attempt"]))
                if letter is not None:
                    reason["deadLetter"] = letter.reason
                    sentences.add(
                        f"The job of {reason['nodeID']!r} is a dead letter: {letter.reason}. It is sent again."
                    )
        for reason in in_pools:
            pool = reason["pool"]
            away = None if self._elsewhere is None else self._elsewhere.why_waiting(pool)
            if away is not None:
                reason["broker"] = away
                sentences.add(f"The jobs of the pool {pool!r} wait: {away}.")
            elif queued[pool]:
                count = "1 job waits" if queued[pool] == 1 else f"{queued[pool]} jobs wait"
                sentences.add(f"{count} for an executor of the pool {pool!r}.")
        found["sentence"] = " ".join([found["sentence"], *sorted(sentences)])
        return found

    async def _with_children(self, found: dict[str, Any]) -> dict[str, Any]:
        """The same answer, with the state of children added to reasons about children."""
        for reason in _children_in(found["waitsFor"]):
            child = await self._store.get_instance(reason["childID"])
            reason["status"] = None if child is None else child.status.value
            reason["name"] = None if child is None else child.head.workflow_name
        return found

    async def _run(self, row: InstanceRow, seq: int) -> as_of.RunAsOf:
        key = (row.head.instance_id, seq)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        if seq > ROWS_MAX:
            raise RunTooLarge(f"run {row.head.instance_id} has {seq:,} rows up to there; the limit is {ROWS_MAX:,}")
        plan = await self._plans.plan_of(row.head)
        edges = await self._edges(row)
        events = [event async for page in log_pages(self._store, row.head.instance_id, up_to=seq) for event in page]
        if not events or events[-1].seq != seq:
            raise no_run(row.head.instance_id)  # removed meanwhile
        run = await self._checks.run(row.head.tenant_id, as_of.run_as_of, plan, row.head, events, edges)
        if seq <= KEPT_ROWS_MAX:
            self._kept[key] = run
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return run

    async def _edges(self, row: InstanceRow) -> Sequence[GraphEdge]:
        head = row.head
        if head.kind == CODED_KIND:
            return ()
        if head.workflow_id is None:
            definition = read_definition(await self._store.read_log(head.instance_id, limit=DEFINITION_SEQ))
        else:
            stored = await self._store.get_definition(head.workflow_id, head.workflow_version)
            definition = None if stored is None else stored.definition
        if definition is None:
            return ()
        graph = parse(definition)
        structure_of(graph)  # with the edges of nodes that are copied
        return graph.edges


def _children_in(reasons: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (reason for reason in _reasons_in(reasons) if reason["kind"] == "child")


def _reasons_in(reasons: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for reason in reasons:
        yield reason
        yield from _reasons_in(reason.get("why", ()))


def _shown_at(run: as_of.RunAsOf, row: InstanceRow, scope: str | None, path: str | None) -> dict[str, Any]:
    reached = [each for each in run.activations.values() if scope is None or each.scope == scope]
    return {
        "instanceID": row.head.instance_id,
        "seq": run.seq,
        "lastSeq": row.last_seq,
        "createdAt": to_iso(run.at),
        "status": run.state.status.value,
        "nodes": [_node(each) for each in reached[:SHOWN_MAX]],
        "nodesOmitted": max(0, len(reached) - SHOWN_MAX),
        "edges": _edges(run, scope),
        "waits": [
            {"nodeID": each.node_id, "scope": each.scope, **wait}
            for each in run.activations.values()
            if not each.has_ended and (wait := waits_for(each)) is not None
        ],
        "signalsKept": [{"event": event, "seq": seq} for event, kept in run.state.signals.kept.items() for seq in kept],
        "ctx": _context(run, "" if scope is None else scope, path),
    }


def _node(activation: ActivationView) -> dict[str, Any]:
    return {
        "nodeID": activation.node_id,
        "scope": activation.scope,
        "status": activation.status.value,
        "attempt": activation.attempt,
        "seq": activation.seq,
        "handles": activation.handles if activation.has_ended else [],
    }


def _edges(run: as_of.RunAsOf, scope: str | None) -> list[dict[str, Any]]:
    if not isinstance(run.plan, Plan):
        return []
    shown: list[dict[str, Any]] = []
    for each in run.scopes if scope is None else [scope]:
        for edge in run.outgoing(each):
            if len(shown) == SHOWN_MAX:
                return shown
            shown.append({"edgeID": why.edge_id(edge), "scope": each, "verdict": run.verdict(edge, each).value})
    return shown


def _context(run: as_of.RunAsOf, scope: str, path: str | None) -> Any:
    context = run.context(scope)
    if context is None:
        return None
    if path is None:
        return {name: _bounded(context[name]) for name in context if not name.startswith("__")}
    value: Any = context
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise InvalidRequest(f"the context has no value at {path!r}", hint="Use names and positions with dots.")
    return value


def _bounded(value: Any) -> Any:
    size = len(orjson.dumps(value))
    return value if size <= VALUE_BYTES_MAX else {"truncated": True, "bytes": size}
