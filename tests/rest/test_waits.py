"""`?wait=`: starts, runs and widgets that are answered when the run has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.service.runs import run_waits
from anabranch.settings import Settings
from tests.engine.conftest import until
from tests.rest.conftest import TENANT, Served
from tests.rest.drawing import chain, echo, waiting

# Of a request that must be answered by what happens, not because its time is over.
LONG = "60s"


@pytest.fixture
async def elsewhere(served: Served, settings_of: Callable[..., Settings]) -> AsyncIterator[AppServices]:
    """Another process on the same database."""
    async with build(settings_of()).open_services(works=False) as services:
        yield services


async def waiters(served: Served, count: int) -> None:
    """Return once so many requests wait; the time limit of the test bounds it."""
    await until(lambda: served.services.waits.waiters_count == count)


async def open_run(served: Served) -> str:
    """A run that waits for a signal, parked."""
    await served.save(waiting())
    run = await served.start("waiting")
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    return run


async def test_a_start_can_be_answered_with_the_outcome(served: Served):
    await served.save(echo())
    done = await served.ask("POST", f"/v1/workflows/echo/runs?wait={LONG}", json={"input": 7}, role="operator")
    assert done.status == 201
    assert done.json == {
        "instanceID": done.json["instanceID"],
        "status": "COMPLETED",
        "output": {"said": 7},
        "error": None,
    }
    await served.save(chain("fails", {"id": "a", "type": "set", "config": {"values": {"x": "{{ctx.input.none}}"}}}))
    failed = await served.ask("POST", f"/v1/workflows/fails/runs?wait={LONG}", json={"input": {}})
    assert (failed.json["status"], failed.json["error"]["code"]) == ("FAILED", "TEMPLATE_PATH_MISSING")
    tried = await served.ask("POST", f"/v1/test-runs?wait={LONG}", json={**echo(), "input": 8})
    assert (tried.status, tried.json["status"], tried.json["output"]) == (201, "COMPLETED", {"said": 8})


async def test_a_repeated_start_waits_for_the_first_run(served: Served):
    await served.save(waiting())
    first = await served.start("waiting", idempotencyKey="k")
    path = f"/v1/workflows/waiting/runs?wait={LONG}"
    repeat = asyncio.create_task(served.ask("POST", path, json={"idempotencyKey": "k"}))
    await waiters(served, 1)
    await served.ask("POST", f"/v1/runs/{first}/signals/go", json=1)
    answered = await repeat
    assert (answered.status, answered.json["instanceID"], answered.json["output"]) == (200, first, {"went": 1})


async def test_without_an_end_the_answer_comes_when_the_time_is_over(served: Served):
    run = await open_run(served)
    started = await served.ask("POST", "/v1/workflows/waiting/runs?wait=50ms", json={})
    assert (started.status, started.json["output"], started.json["error"]) == (201, None, None)
    assert started.json["status"] in ("RUNNING", "WAITING")
    assert (await served.ask("GET", f"/v1/runs/{run}?wait=50ms")).json["status"] == "WAITING"
    assert (await served.ask("GET", f"/v1/runs/{run}?wait=0s")).json["status"] == "WAITING"
    assert served.services.waits.waiters_count == 0


async def test_runs_and_widgets_are_answered_when_the_run_ends_here(served: Served):
    run = await open_run(served)
    paths = (
        f"/v1/runs/{run}?wait={LONG}",
        f"/v1/workflows/waiting/runs/{run}?wait={LONG}",
        f"/v1/runs/{run}/widget?type=json&wait={LONG}",
    )
    asked = [asyncio.create_task(served.ask("GET", path, role="viewer")) for path in paths]
    await waiters(served, 3)
    await served.ask("POST", f"/v1/runs/{run}/signals/go", json=1)
    assert [(await each).json["status"] for each in asked] == ["COMPLETED"] * 3
    assert served.services.waits.waiters_count == 0


async def test_a_run_that_ends_in_another_process_is_noticed(served: Served, elsewhere: AppServices):
    run = await open_run(served)
    asked = asyncio.create_task(served.ask("GET", f"/v1/runs/{run}?wait={LONG}"))
    await waiters(served, 1)
    await elsewhere.workflows.cancel_run(run, tenant_id=TENANT, reason="elsewhere")
    assert (await asked).json["status"] == "CANCELLED"


async def test_an_end_is_read_once_where_it_is_awaited(elsewhere: AppServices, served: Served):
    await served.save(waiting())
    run = await served.start("waiting")
    reads: list[str] = []
    for name in ("get_instance", "ended_children", "read_log", "versions"):
        read = getattr(elsewhere.engine.store, name)

        def noted(*arguments: Any, _name: str = name, _read: Any = read, **options: Any) -> Any:
            reads.append(_name)
            return _read(*arguments, **options)

        setattr(elsewhere.engine.store, name, noted)
    waiting_for = asyncio.create_task(elsewhere.waits.ended(run, tenant_id=TENANT))
    await until(lambda: elsewhere.waits.waiters_count == 1)
    await served.ask("POST", f"/v1/runs/{run}/signals/go", json=1)
    end = await waiting_for
    assert end is not None and (end.status, end.outcome.value) == ("COMPLETED", {"went": 1})
    assert reads[0] == "get_instance" and set(reads[1:]) == {"ended_children"}


async def test_it_is_looked_at_once_however_short_the_time_is(served: Served):
    await served.save(echo())
    done = await served.ask("POST", f"/v1/workflows/echo/runs?wait={LONG}", json={"input": 7})
    end = await served.services.waits.ended(done.json["instanceID"], tenant_id=TENANT, timeout_s=0)
    assert end is not None and end.outcome.value == {"said": 7}
    run = await open_run(served)
    with pytest.raises(TimeoutError):
        await served.services.waits.ended(run, tenant_id=TENANT, timeout_s=0)


async def test_a_run_that_is_not_there_is_not_waited_for(served: Served):
    run = await open_run(served)
    for path, role in (("0190a5e0-0000-7000-8000-000000000000", "admin"), (run, "other")):
        assert (await served.ask("GET", f"/v1/runs/{path}?wait={LONG}", role=role)).status == 404


async def test_a_process_that_stops_answers_at_once(served: Served):
    run = await open_run(served)
    asked = asyncio.create_task(served.ask("GET", f"/v1/runs/{run}?wait={LONG}"))
    await waiters(served, 1)
    served.services.readiness.stop_intake()
    assert (await asked).json["status"] == "WAITING"
    assert (await served.ask("GET", f"/v1/runs/{run}?wait={LONG}")).json["status"] == "WAITING"


async def test_a_client_that_hangs_up_leaves_nothing_behind(served: Served):
    run = await open_run(served)
    asked = asyncio.create_task(served.ask("GET", f"/v1/runs/{run}?wait={LONG}"))
    await waiters(served, 1)
    asked.cancel()
    await waiters(served, 0)
    await served.ask("POST", f"/v1/runs/{run}/signals/go", json=1)
    assert (await served.ended(run))["output"] == {"went": 1}


async def test_where_as_many_wait_as_may_an_answer_comes_at_once(served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_waits, "WAITERS_OF_TENANT_MAX", 1)
    run = await open_run(served)
    first = asyncio.create_task(served.ask("GET", f"/v1/runs/{run}?wait={LONG}"))
    await waiters(served, 1)
    second = await served.ask("GET", f"/v1/runs/{run}?wait={LONG}")
    assert (second.status, second.json["status"], second.headers["Retry-After"]) == (200, "WAITING", "1")
    theirs = {**echo("theirs")}
    await served.save(theirs, role="other")
    done = await served.ask("POST", f"/v1/workflows/theirs/runs?wait={LONG}", json={}, role="other")
    assert done.json["status"] == "COMPLETED", "one tenant leaves room for the others"
    await served.ask("POST", f"/v1/runs/{run}/signals/go", json=1)
    assert "Retry-After" not in (await first).headers


@pytest.mark.parametrize(
    ("wait", "told"), [("61s", "at most 60s"), ("30", "`30s`"), ("soon", "such as `30s`"), ("", "such as `30s`")]
)
async def test_a_wait_has_a_unit_and_a_limit(served: Served, wait: str, told: str):
    await served.save(echo())
    for method, path in (("GET", "/v1/runs/0190a5e0-0000-7000-8000-000000000000"), ("POST", "/v1/workflows/echo/runs")):
        body: dict[str, Any] = {"json": {}} if method == "POST" else {}
        refused = await served.ask(method, path, params={"wait": wait}, **body)
        assert (refused.status, refused.json["error"]["details"][0]["pointer"]) == (422, "/wait")
        assert told in refused.json["error"]["message"]
    assert (await served.ask("GET", "/v1/runs")).json["items"] == []
