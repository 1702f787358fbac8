"""The verbs that ask about runs: lists, one run, its steps, its log. They change nothing.

The middle floor of the façade, on top of `definition_verbs`; `run_verbs` stands on it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.ports import InputFilter, InstanceRow, Loaded
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.instance import InstanceState
from anabranch.errors import InvalidRequest, NotFound
from anabranch.service.admission import check_input_filters, is_run_id
from anabranch.service.definition_verbs import DefinitionVerbs
from anabranch.service.run_view import activations, log_entry, run_details, run_outcome, run_summary
from anabranch.service.widgets import shape

_LOG_PAGE = 1_000


class InquiryVerbs(DefinitionVerbs):
    """Runs as they are read."""

    async def get_run(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """A run with its input, outcome and activations, as REST shows it. Raises NotFound."""
        loaded = await self._loaded(instance_id, tenant_id)
        return run_details(loaded.row, loaded.events)

    async def get_run_status(self, instance_id: str, *, tenant_id: str) -> InstanceRow:
        """The row alone. Raises NotFound."""
        row = await self._store.get_instance(instance_id, tenant_id=tenant_id) if is_run_id(instance_id) else None
        if row is None:
            raise no_run(instance_id)
        return row

    async def get_outcome(self, instance_id: str, *, tenant_id: str) -> dict[str, Any]:
        """A run's id and status, and its output and error, which are null while it is open. Raises NotFound."""
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        last: Sequence[Event] = []
        if row.status.is_terminal:
            last = await self._store.read_log(instance_id, after_seq=row.last_seq - 1, limit=1)
        return run_outcome(row, last)

    async def list_runs(
        self,
        *,
        tenant_id: str,
        limit: int,
        workflow: str | None = None,
        statuses: Sequence[Status] = (),
        since: int | None = None,
        until: int | None = None,
        version: int | None = None,
        before: tuple[int, str] | None = None,
        test: bool = False,
        input_filters: Sequence[InputFilter] = (),
    ) -> list[dict[str, Any]]:
        """Runs by (createdAt, instanceID) descending, strictly before that cursor; test runs only with `test`.

        An input filter (path, text) is met by the value at the path that equals the text read as JSON,
        or is that text. A run that matches throughout the paging is listed exactly once. Raises
        NotFound for an unknown workflow, InvalidRequest for too many or too deep filters or no cursor.
        """
        if before is not None and not is_run_id(before[1]):
            raise InvalidRequest("the place to go on after is that of no run", hint="Take it from the page before.")
        check_input_filters(input_filters)
        workflow_id = None
        if workflow is not None:
            workflow_id = (await self.get_workflow_by_id(workflow, tenant_id=tenant_id)).workflow_id
        rows = await self._store.list_instances(
            tenant_id=tenant_id,
            limit=limit,
            before=before,
            workflow_id=workflow_id,
            statuses=statuses,
            since=since,
            until=until,
            version=version,
            test=test,
            input_filters=input_filters,
        )
        return [run_summary(row) for row in rows]

    async def get_log(self, instance_id: str, *, tenant_id: str, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order. Raises NotFound."""
        return [
            log_entry(event) for event in await self.get_events(instance_id, tenant_id=tenant_id, after_seq=after_seq)
        ]

    async def get_log_page(
        self, instance_id: str, *, tenant_id: str, limit: int, after_seq: int = 0
    ) -> tuple[list[dict[str, Any]], int | None]:
        """At most `limit` events after `after_seq`, and the seq to go on after; None: there are no more now.

        Reads no more of the log than that. Raises NotFound.
        """
        await self.get_run_status(instance_id, tenant_id=tenant_id)
        events = await self._store.read_log(instance_id, after_seq=after_seq, limit=limit + 1)
        page = [log_entry(event) for event in events[:limit]]
        return page, page[-1]["seq"] if len(events) > limit else None

    async def get_events(self, instance_id: str, *, tenant_id: str, after_seq: int = 0) -> list[Event]:
        """The same as stored events. Raises NotFound."""
        await self.get_run_status(instance_id, tenant_id=tenant_id)
        events: list[Event] = []
        while True:
            page = await self._store.read_log(instance_id, after_seq=after_seq, limit=_LOG_PAGE)
            events += page
            if len(page) < _LOG_PAGE:
                return events
            after_seq = page[-1].seq

    async def get_steps(self, instance_id: str, *, tenant_id: str) -> list[dict[str, Any]]:
        """Every activation with timings, output and error. Raises NotFound."""
        loaded = await self._loaded(instance_id, tenant_id)
        return activations(loaded.events, loaded.row.status)

    async def get_steps_page(
        self, instance_id: str, *, tenant_id: str, limit: int, after_seq: int = 0
    ) -> tuple[list[dict[str, Any]], int | None]:
        """At most `limit` activations whose first event is after `after_seq`, and where to go on after; None: the end.

        The whole log is read for it: how an activation ended may stand anywhere in it. Raises NotFound.
        """
        steps = await self.get_steps(instance_id, tenant_id=tenant_id)
        first = bisect_right(steps, after_seq, key=_seq)
        page = steps[first : first + limit]
        return page, page[-1]["seq"] if len(steps) > first + limit else None

    async def get_run_status_for_widget(
        self, instance_id: str, widget_type: str, widget_config: Mapping[str, Any] | None, *, tenant_id: str
    ) -> dict[str, Any]:
        """A run's status with its output, so far or at its end, shaped for a widget (see `widgets.shape`).

        Raises NotFound, and InvalidRequest with JSON pointers for a type or config that makes no sense.
        """
        loaded = await self._loaded(instance_id, tenant_id)
        run = run_details(loaded.row, loaded.events)
        head = loaded.row.head
        if loaded.row.status is not Status.COMPLETED and head.kind == "drawn":
            state = fold(await self._engine.plans.plan_of(head), head, loaded.events)
            run["output"] = state.output() if isinstance(state, InstanceState) else None
        return shape(run, widget_type, widget_config)

    # -- within ---------------------------------------------------------------------------
    async def _loaded(self, instance_id: str, tenant_id: str) -> Loaded:
        found = await self._store.load([instance_id]) if is_run_id(instance_id) else {}
        loaded = found.get(instance_id)
        if loaded is None or loaded.row.head.tenant_id != tenant_id:
            raise no_run(instance_id)
        return loaded


def _seq(step: dict[str, Any]) -> int:
    seq: int = step["seq"]
    return seq


def no_run(instance_id: str) -> NotFound:
    """The refusal of an id that no run of the tenant has."""
    return NotFound(f"there is no run {instance_id}", hint="`anabranch runs list` shows the runs.")
