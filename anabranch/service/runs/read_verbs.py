"""Operations that read runs: lists, one run, its steps, its log.

A mixin of `WorkflowService`, above `pause_verbs` and below `run_verbs`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.console.console_rows import ConsoleRows, Line, LinesWanted
from anabranch.engine.lifecycle import Engine
from anabranch.engine.log_pages import log_pages
from anabranch.engine.ports import NO_OUTPUTS, ActivationPage, InstanceRow, OutputsRead, RunReading, Store
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.drawn.drawn_state import InstanceHead, merged_ends
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.history import ALL_ACTIVATIONS, ActivationFilter
from anabranch.engine.rules.responses import RESPOND_TYPE
from anabranch.engine.rules.run_filter import ALL_RUNS, RunFilter
from anabranch.errors import InvalidRequest, NotFound
from anabranch.run_requests import check_input_filters, is_run_id
from anabranch.service.definitions.definition_verbs import WORKFLOWS_HINT
from anabranch.service.definitions.pause_verbs import PauseVerbs, paused_by
from anabranch.service.definitions.workflow_references import References
from anabranch.service.runs.iterations import IterationsWanted, PageStart, iterations_page
from anabranch.service.runs.run_graph import coded_graph, drawn_graph, history_head
from anabranch.service.runs.run_totals import RunTotals
from anabranch.service.runs.run_view import (
    NODES_SHOWN_MAX,
    PayloadDetail,
    activations_in,
    log_entry,
    run_details,
    run_failure,
    run_outcome,
    run_summary,
    step,
    traced_graph,
)
from anabranch.service.widgets.shapes import shape

# 4 MB of payloads in a page of a log or of activations; a page with more ends early.
PAGE_BYTES_MAX = 4 * 1_048_576

_STEPS_PAGE = 1_000

# 250 ms between two reads of a followed console: another process writes lines of followed runs every 500 ms, and so
# they are seen within a second. Three more reads after the end of the run, because its last lines are written later.
FOLLOW_EVERY_S = 0.25
LAST_LOOKS = 4


@dataclass(frozen=True, slots=True)
class StepFilter:
    """A filter for steps, and the fields to read."""

    activations: ActivationFilter = ALL_ACTIVATIONS
    outputs: bool = True
    """False: without outputs, which may be large."""
    inline: bool = True
    """False: of outputs over 64 kB only their size, and where their large parts are."""


ALL_STEPS = StepFilter()

_SHA256 = re.compile(r"[0-9a-f]{64}")


class ReadVerbs(PauseVerbs):
    """Queries on runs."""

    def __init__(self, *, engine: Engine, node_types: NodeTypes, references: References | None) -> None:
        super().__init__(engine=engine, node_types=node_types, references=references)
        self._totals = RunTotals(engine.store)

    async def get_run(self, instance_id: str, *, tenant_id: str, inline: bool = True) -> dict[str, Any]:
        """A run with its input, outcome and activations, as REST shows it. Raises NotFound."""
        found = await self._read(instance_id, tenant_id, activations_max=NODES_SHOWN_MAX)
        run = run_details(found, inline=inline)
        run["pausedBy"] = (await paused_by(self._store, [found.row], tenant_id=tenant_id)).get(instance_id)
        await self._add_progress(instance_id, run["nodes"])
        return run

    async def get_run_status(self, instance_id: str, *, tenant_id: str) -> InstanceRow:
        """The row alone. Raises NotFound."""
        return await run_row(self._store, instance_id, tenant_id=tenant_id)

    async def get_graph(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """The graph of a run: as it was drawn, or traced from the first 1,000 steps of a coded run. Raises NotFound."""
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if row.head.kind != CODED_KIND:
            return await drawn_graph(self._store, row)
        run = await self._read(instance_id, tenant_id, activations_max=NODES_SHOWN_MAX)
        return coded_graph(run.row, traced_graph(activations_in(run.activations, run.row)))

    async def get_history(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """A run and the definition that it is pinned to: with its log it is a history. Raises NotFound."""
        return await history_head(self._store, await self.get_run_status(instance_id, tenant_id=tenant_id))

    async def get_outcome(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """A run's id and status, and its output and error, which are null while it is open. Raises NotFound."""
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        ended = await self._store.ended_children([instance_id]) if row.status.is_terminal else []
        for each in ended:
            return run_outcome(instance_id, each.status, each.outcome)
        return run_outcome(instance_id, row.status)

    async def list_runs(
        self, wanted: RunFilter = ALL_RUNS, *, tenant_id: str, limit: int, before: tuple[int, str] | None = None
    ) -> list[dict[str, Any]]:
        """Runs by (createdAt, instanceID) descending, strictly before that cursor.

        A run that matches throughout the paging is listed exactly once. Raises NotFound for an unknown workflow,
        InvalidRequest for too many or too deep filters or an invalid cursor.
        """
        if before is not None and not is_run_id(before[1]):
            raise InvalidRequest("invalid cursor", hint="Copy `nextCursor` from the previous page.")
        check_input_filters(wanted.input_filters)
        if wanted.workflow is not None:
            workflow = await self.get_workflow_by_id(wanted.workflow, tenant_id=tenant_id)
            wanted = replace(wanted, workflow=workflow.workflow_id)
        rows = await self._store.list_instances(wanted, tenant_id=tenant_id, limit=limit, before=before)
        failed = [row.head.instance_id for row in rows if row.status is Status.FAILED]
        ended = await self._store.ended_children(failed) if failed else []
        errors = {each.child_id: run_failure(each.outcome) for each in ended if each.status is Status.FAILED}
        pauses = await paused_by(self._store, rows, tenant_id=tenant_id)
        return [
            {
                **run_summary(row),
                "error": errors.get(row.head.instance_id),
                "pausedBy": pauses.get(row.head.instance_id),
            }
            for row in rows
        ]

    async def get_log(self, instance_id: str, *, tenant_id: str, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order. Raises NotFound."""
        return [
            log_entry(event) for event in await self.get_events(instance_id, tenant_id=tenant_id, after_seq=after_seq)
        ]

    async def get_log_page(
        self,
        instance_id: str,
        *,
        tenant_id: str,
        limit: int,
        after_seq: int = 0,
        payloads: PayloadDetail = PayloadDetail.WHOLE,
    ) -> tuple[list[dict[str, Any]], int | None]:
        """At most `limit` events after `after_seq`, and the seq to pass as `after_seq` for the next page; None on the
        last page.

        Reads only these rows. A page with `PAGE_BYTES_MAX` of payloads ends early. Raises NotFound.
        """
        await self.get_run_status(instance_id, tenant_id=tenant_id)
        inline = payloads is PayloadDetail.WHOLE
        if payloads is not PayloadDetail.NONE:
            events = await self._store.read_log(
                instance_id, after_seq=after_seq, limit=limit + 1, bytes_max=PAGE_BYTES_MAX, inline=inline
            )
        else:
            events = await self._store.read_rows(instance_id, after_seq=after_seq, limit=limit + 1)
        page = [log_entry(event, payloads) for event in events[:limit]]
        read = sum(event.payload.size if inline else event.payload.weight for event in events)
        is_last = len(events) <= limit and read < PAGE_BYTES_MAX
        return page, None if is_last else page[-1]["seq"]

    async def get_events(self, instance_id: str, *, tenant_id: str, after_seq: int = 0) -> list[Event]:
        """The same as stored events. Raises NotFound."""
        await self.get_run_status(instance_id, tenant_id=tenant_id)
        pages = log_pages(self._store, instance_id, after_seq=after_seq)
        return [event async for page in pages for event in page]

    async def get_steps(self, instance_id: str, *, tenant_id: str) -> list[dict[str, Any]]:
        """Every activation with timings, output and error, read page by page. Raises NotFound."""
        steps: list[dict[str, Any]] = []
        after_seq: int | None = 0
        while after_seq is not None:
            page, after_seq = await self.get_steps_page(
                instance_id, tenant_id=tenant_id, limit=_STEPS_PAGE, after_seq=after_seq
            )
            steps += page
        return steps

    async def get_steps_page(
        self,
        instance_id: str,
        *,
        tenant_id: str,
        limit: int,
        after_seq: int = 0,
        wanted: StepFilter = ALL_STEPS,
    ) -> tuple[list[dict[str, Any]], int | None]:
        """At most `limit` activations whose first event is after `after_seq`, and where the next page begins;
        None: the end.

        Ends early at `PAGE_BYTES_MAX` of outputs. Raises NotFound.
        """
        bytes_max = PAGE_BYTES_MAX if wanted.outputs else 0
        steps: list[dict[str, Any]] = []
        next_seq: int | None = after_seq
        while not steps and next_seq is not None:
            row, page = await self._read_activations(
                instance_id,
                tenant_id,
                after_seq=next_seq,
                limit=limit,
                outputs=OutputsRead(bytes_max, wanted.inline),
                only=wanted.activations,
            )
            found = filter(wanted.activations.takes, activations_in(page, row))
            steps = [step(activation, output=wanted.outputs, inline=wanted.inline) for activation in found]
            next_seq = page.next_seq
        await self._add_progress(instance_id, steps)
        return steps, next_seq

    async def get_value(self, sha256: str, *, tenant_id: str) -> bytes:
        """The JSON of a large value that a run of the tenant refers to. Raises NotFound."""
        found = await self._store.read_value(tenant_id=tenant_id, sha256=sha256) if _SHA256.fullmatch(sha256) else None
        if found is None:
            raise NotFound(f"there is no value {sha256}", hint="Values go with the last run that refers to them.")
        return found

    async def get_value_of_job(self, sha256: str, instance_id: str, *, tenant_id: str) -> bytes:
        """The JSON of a large value for an executor: the log of an open run of the tenant has to refer to it. Raises
        NotFound."""
        run = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if run.status.is_terminal:
            raise NotFound(f"run {instance_id} has ended: nobody awaits its jobs")
        if not await self._store.referenced_values(instance_id, [sha256]):
            raise NotFound(f"run {instance_id} refers to no value {sha256}")
        return await self.get_value(sha256, tenant_id=tenant_id)

    async def get_console(
        self, instance_id: str, wanted: LinesWanted, *, tenant_id: str
    ) -> tuple[list[dict[str, Any]], int | None]:
        """The next console lines of a run, and the number to continue after; None: no more now.

        Raises NotFound.
        """
        await self.get_run_status(instance_id, tenant_id=tenant_id)
        console = self._engine.console
        found: Sequence[Line] = []
        if console is not None:
            await console.write_run(instance_id)
            found = await console.rows.read_lines(instance_id, replace(wanted, limit=wanted.limit + 1))
        page = [line.as_json() for line in found[: wanted.limit]]
        return page, page[-1]["number"] if len(found) > wanted.limit else None

    async def follow_console(
        self, instance_id: str, wanted: LinesWanted, *, tenant_id: str, is_over: Callable[[], bool]
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The same, page by page as lines arrive, until the run has ended or `is_over` returns True. Raises
        NotFound."""
        looks_left = LAST_LOOKS
        self._engine.hints.watch(instance_id)  # another process then writes its lines sooner
        try:
            while looks_left and not is_over():
                row = await self.get_run_status(instance_id, tenant_id=tenant_id)
                page, more = await self.get_console(instance_id, wanted, tenant_id=tenant_id)
                if page:
                    wanted = replace(wanted, after=page[-1]["number"])
                yield page
                if more is None:
                    looks_left -= row.status.is_terminal
                    await asyncio.sleep(FOLLOW_EVERY_S)
        finally:
            self._engine.hints.unwatch(instance_id)

    async def get_totals(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """Activations of each node of a run by status, and the iterations of its loops. Raises NotFound."""
        return await self._totals.of(await self.get_run_status(instance_id, tenant_id=tenant_id))

    async def get_iterations(
        self, instance_id: str, wanted: IterationsWanted, *, tenant_id: str
    ) -> tuple[list[dict[str, Any]], PageStart | None]:
        """Iterations of a loop by index, and where the next page begins; None: no more now.

        Empty for a node that is not a loop or was not reached. Raises NotFound.
        """
        loop = ActivationFilter(node_id=wanted.node_id, scope=wanted.scope)
        row, page = await self._read_activations(instance_id, tenant_id, after_seq=0, limit=1, only=loop)
        if not page.events:
            return [], None
        return await iterations_page(self._store, row, wanted, after=wanted.after or PageStart(seq=page.events[0].seq))

    async def get_run_status_for_widget(
        self, instance_id: str, widget_type: str, widget_config: Mapping[str, Any] | None, *, tenant_id: str
    ) -> dict[str, Any]:
        """A run's status with its output, so far or at its end, shaped for a widget (see `widgets.shape`).

        Raises NotFound, and InvalidRequest with JSON pointers for a type or config that makes no sense.
        """
        found = await self._read(instance_id, tenant_id, activations_max=0)
        run = run_details(found)
        if found.row.status is not Status.COMPLETED:
            run["output"] = await self._output_so_far(found.row.head)
        return shape(run, widget_type, widget_config)

    # -- within ---------------------------------------------------------------------------
    @property
    def _console_rows(self) -> ConsoleRows | None:
        console = self._engine.console
        return None if console is None else console.rows

    async def _add_progress(self, instance_id: str, nodes: Sequence[dict[str, Any]]) -> None:
        """Add to activations when their attempts began, and how far they were last."""
        rows = self._console_rows
        if rows is None or not nodes:
            return
        reports = {(each.node_id, each.scope): each for each in await rows.read_progress([instance_id])}
        for node in nodes:
            report = reports.get((node["nodeID"], node["scope"]))
            if report is not None and report.attempt == node["attempt"]:
                node |= report.as_json()

    async def _read_activations(
        self,
        instance_id: str,
        tenant_id: str,
        *,
        after_seq: int,
        limit: int,
        outputs: OutputsRead = NO_OUTPUTS,
        only: ActivationFilter = ALL_ACTIVATIONS,
    ) -> tuple[InstanceRow, ActivationPage]:
        found = (
            await self._store.read_activations(
                instance_id, after_seq=after_seq, limit=limit, outputs=outputs, only=only
            )
            if is_run_id(instance_id)
            else None
        )
        if found is None or found[0].head.tenant_id != tenant_id:
            raise no_run(instance_id)
        return found

    async def _read(self, instance_id: str, tenant_id: str, *, activations_max: int) -> RunReading:
        found = (
            await self._store.read_run(instance_id, activations_max=activations_max) if is_run_id(instance_id) else None
        )
        if found is None or found.row.head.tenant_id != tenant_id:
            raise no_run(instance_id)
        return found

    async def responding_nodes(self, instance_id: str, *, tenant_id: str) -> list[str]:
        """The nodes of a run that can say what its webhook answers. Raises NotFound, StoreUnavailable."""
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        plan = await self._engine.plans.plan_of(row.head)
        if not isinstance(plan, Plan):
            return []
        kinds = {
            node.id: (node.type if node.item is None else node.item.type, node.given) for node in plan.nodes.values()
        }
        return [
            node_id
            for node_id, (kind, given) in kinds.items()
            if kind == RESPOND_TYPE and (given is None or given.output.value is not None)
        ]

    async def _no_version_of(self, head: InstanceHead, version: int, *, tenant_id: str) -> NotFound:
        """The error for a run whose workflow is deleted, or does not have this version."""
        workflow, hint = f"the workflow {head.workflow_name!r} of run {head.instance_id}", WORKFLOWS_HINT
        try:
            await self.get_workflow_by_id(head.workflow_id or "", tenant_id=tenant_id)
        except NotFound:
            return NotFound(f"{workflow} is deleted", hint=hint)
        return NotFound(f"{workflow} has no version {version}", hint=hint)

    async def _output_so_far(self, head: InstanceHead) -> Any:
        """The output of the End nodes reached so far at the root of a drawn run."""
        plan = await self._engine.plans.plan_of(head)
        if not isinstance(plan, Plan):
            return None
        ends = {node.id: node.end_name for node in plan.root.nodes if node.is_end}
        reached = await self._store.read_outputs(head.instance_id, list(ends))
        return merged_ends([(ends[event.node_id], event.payload.value) for event in reached])


async def run_row(store: Store, instance_id: str, *, tenant_id: str) -> InstanceRow:
    """The row of a run. Raises NotFound."""
    row = await store.get_instance(instance_id, tenant_id=tenant_id) if is_run_id(instance_id) else None
    if row is None:
        raise no_run(instance_id)
    return row


def no_run(instance_id: str) -> NotFound:
    """The error for an id that no run of the tenant has."""
    return NotFound(f"there is no run {instance_id}", hint="`anabranch runs list` shows the runs.")
