"""The verbs of test runs: a graph that is not saved, run as if it were.

The top floor of the façade, on top of `run_verbs`. A test run takes the path of every other run; only
its definition is in its log instead of among the versions, and it may be removed before its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.graph.document import DOCUMENT_BYTES_MAX
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from anabranch.errors import NotFound, RunIsTerminal
from anabranch.service.definitions.workflow_documents import check_test_fields
from anabranch.service.runs.input_checks import input_payload
from anabranch.service.runs.run_heads import test_head
from anabranch.service.runs.run_verbs import RunVerbs

# 500 runs a look: a few hundred kilobytes.
_FAMILY_PAGE = 500


class TestingVerbs(RunVerbs):
    """Test runs, started and stopped."""

    async def test_workflow(self, document: Mapping[str, Any], input_: Any, *, tenant_id: str) -> str:
        """Start a test run of a definition that is not saved; its id. It is durable when this returns.

        Kept for a day after its end. Raises InvalidRequest for options that there are not, InvalidWorkflow,
        InvalidInput, TooManyPending, StoreUnavailable.
        """
        if isinstance(document, Mapping):
            check_test_fields(document)
        await self._refuse_invalid(document, tenant_id)
        definition = Payload.of(document, bytes_max=DOCUMENT_BYTES_MAX)
        plan = await self.checks.run(tenant_id, self._engine.plans.compile, definition.value)
        payload = await input_payload(input_, plan, self.checks, tenant_id=tenant_id)
        head = test_head(definition.value, plan, tenant_id=tenant_id, now=self._engine.clock.now())
        hold = self._engine.has_room(tenant_id)
        if not hold:
            await self._pending_limit.take_place(tenant_id)
        new_run = await self._engine.orchestrator.create_run(
            head, plan, Started(payload, begin=hold, definition=definition)
        )
        return new_run.instance_id

    async def stop_test_workflow(self, instance_id: str, *, tenant_id: str) -> None:
        """Cancel a test run, and remove it with all the runs below it. Raises NotFound for any other run.

        Cut short, it is finished by being called again: the run itself goes last.
        """
        row = await self.get_run_status(instance_id, tenant_id=tenant_id)
        if not row.head.test or row.head.parent_id is not None:
            raise NotFound(f"there is no test run {instance_id}", hint="Runs of saved workflows are cancelled instead.")
        await self._cancel_test(row)
        # Who is below may have started others before it was cancelled: nobody can be created below
        # runs that have all ended, or are gone.
        while below := await self._store.descendants(instance_id, limit=_FAMILY_PAGE):
            for each in below:
                await self._cancel_test(each)
            for each in below:
                await self._remove_test(each)
        await self._remove_test(row)

    # -- within ---------------------------------------------------------------------------
    async def _cancel_test(self, row: InstanceRow) -> None:
        if not row.status.is_terminal:
            with suppress(RunIsTerminal, NotFound):  # it ended by itself, or was stopped twice at once
                await self.cancel_run(row.head.instance_id, tenant_id=row.head.tenant_id, reason=_REASON)

    async def _remove_test(self, row: InstanceRow) -> None:
        """Whoever still holds it loses its next commit: there is no row to guard it, and so nothing is written."""
        with suppress(NotFound):
            await self._store.delete_test_instance(tenant_id=row.head.tenant_id, instance_id=row.head.instance_id)


_REASON = "the test was stopped"
