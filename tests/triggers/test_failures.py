"""What a failed run begins: once per end and trigger, whatever crashes, and never without end."""

from __future__ import annotations

from typing import Any

from anabranch.engine.rules.shared.log_limit import LOG_LIMIT
from anabranch.run_requests import StartOptions
from anabranch.triggers.failure_recording import FAILURES_IN_A_ROW_MAX
from tests.triggers.conftest import OpenOffice
from tests.triggers.services import TENANT, Office
from tests.triggers.test_arming import publish, triggered


def failure(workflow: str | None = None) -> dict[str, Any]:
    return {"type": "failure", "config": {} if workflow is None else {"workflow": workflow}}


async def started(office: Office, workflow: str = "report", **options: Any) -> str:
    """A run that waits for a worker."""
    run = await office.workflows.execute_workflow(workflow, {}, StartOptions(**options), tenant_id=TENANT)
    return run.instance_id


async def fail(office: Office, instance_id: str) -> None:
    await office.store.fail_full(tenant_id=TENANT, instance_id=instance_id, log_limit=LOG_LIMIT)


async def told(office: Office, workflow: str) -> list[dict[str, Any]]:
    """The inputs of the runs that failures have begun, oldest first, once everything that is owed has started."""
    while await office.publisher.finish_once():
        pass
    runs = reversed(await office.runs(workflow=workflow))
    return [(await office.workflows.get_run(run["instanceID"], tenant_id=TENANT))["input"] for run in runs]


async def test_a_failed_run_begins_one_run_of_each_workflow_that_is_told(office: Office) -> None:
    await publish(office, triggered("all", any=failure()))
    await publish(office, triggered("named", of=failure("report")))
    await publish(office, triggered("others", of=failure("another")))
    failed = await started(office)
    await fail(office, failed)
    [payload] = await told(office, "all")
    assert payload == (await told(office, "named"))[0]
    row = await office.workflows.get_run_status(failed, tenant_id=TENANT)
    assert (payload["run"]["instanceID"], payload["run"]["workflow"], payload["run"]["version"]) == (
        failed,
        "report",
        1,
    )
    assert payload["run"]["workflowID"] == row.head.workflow_id
    assert payload["url"] == payload["link"]  # of a server without a name
    assert (payload["error"]["code"], payload["link"], payload["depth"]) == ("LOG_TOO_LARGE", f"/#/runs/{failed}", 1)
    assert await told(office, "others") == []
    [run] = await office.runs(workflow="all")
    shown = await office.workflows.get_run(run["instanceID"], tenant_id=TENANT)
    assert (shown["startedBy"]["kind"], shown["startedBy"]["instanceID"], shown["startedBy"]["nodeID"]) == (
        "failure",
        failed,
        "any",
    )


async def test_two_processes_begin_one_run_for_a_failure(office: Office, open_office: OpenOffice) -> None:
    other = await open_office(own_ms=0)
    await publish(office, triggered("all", any=failure()))
    await fail(office, await started(office))
    first = await other.saved_topics.take_unfinished(limit=10, own_ms=0)
    assert len(first) == 1
    await office.publisher.finish_once()
    await other.publisher._start_runs(first[0])
    assert len(await told(office, "all")) == 1


async def test_a_workflow_is_told_of_neither_its_own_failures_nor_those_of_other_tenants(office: Office) -> None:
    await publish(office, triggered("all", start=True, any=failure()))
    await fail(office, await started(office, "all"))
    await office.draw("report", tenant_id="other")
    strange = await office.workflows.execute_workflow("report", {}, tenant_id="other")
    await office.store.fail_full(tenant_id="other", instance_id=strange.instance_id, log_limit=LOG_LIMIT)
    assert len(await told(office, "all")) == 1, "the run that was started by hand"


async def test_workflows_that_are_told_of_each_other_stop_after_some_failures_in_a_row(office: Office) -> None:
    await publish(office, triggered("one", any=failure()))
    await publish(office, triggered("two", any=failure("one")))
    await fail(office, await started(office))
    depths = []
    for number in range(FAILURES_IN_A_ROW_MAX + 1):
        name = ("one", "two")[number % 2]
        inputs = await told(office, name)
        if len(inputs) <= number // 2:
            break
        depths.append(inputs[-1]["depth"])
        newest = (await office.runs(workflow=name))[0]
        await fail(office, newest["instanceID"])
    assert depths == list(range(1, FAILURES_IN_A_ROW_MAX + 1))


async def test_a_disarmed_trigger_is_told_of_nothing(office: Office) -> None:
    await publish(office, triggered("all", any=failure()))
    await publish(office, triggered("all", start=True))
    await fail(office, await started(office))
    assert await told(office, "all") == []
