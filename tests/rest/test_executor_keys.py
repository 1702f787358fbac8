"""Keys of executors: they fetch what jobs refer to, and nothing else."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest

from anabranch.errors import InvalidRequest
from anabranch.keys.access import ALL_TENANTS, Role
from anabranch.rest.routes.all_routes import ROUTES
from anabranch.secrets.job_seals import JobIdentity
from tests.rest.conftest import OTHER_TENANT, TENANT, Answered, Served
from tests.rest.drawing import waiting

LARGE = "l" * 70_000
NAME = hashlib.sha256(orjson.dumps(LARGE)).hexdigest()


class Executor:
    """An executor with a key of its own."""

    def __init__(self, served: Served, key: str) -> None:
        self._served = served
        self.key = key

    async def ask(self, method: str, path: str, **request: Any) -> Answered:
        headers = {"Authorization": f"Bearer {self.key}"}
        return await self._served.ask(method, path, role=None, headers=headers, **request)

    async def opens(self, run_id: str, sealed: str, *, pool: str = "gpu", job: str = "j-1") -> Answered:
        body = {"tenantID": TENANT, "instanceID": run_id, "pool": pool, "jobID": job, "sealed": sealed}
        return await self.ask("POST", "/v1/jobs/config", json=body)


async def executor(served: Served, *pools: str, tenant: str = TENANT) -> tuple[Executor, str]:
    """It, and the id of its key."""
    made = await served.services.access.create_key(tenant_id=tenant, role=Role.EXECUTOR, actor="test", pools=pools)
    return Executor(served, made.key), made.key_id


async def run_with(served: Served, pool: str = "gpu") -> tuple[str, str]:
    """An open run of the tenant that has a large value, and the sealed config of a job."""
    await served.save(waiting())
    run_id = await served.start("waiting", input={"text": LARGE})
    identity = JobIdentity(TENANT, run_id, pool, "j-1")
    return run_id, served.services.job_seals.seal(identity, {"auth": "Bearer hush"}, {"TOKEN": "hush"})


async def test_an_executor_opens_configs_of_its_pools_as_long_as_their_run_is_open(served: Served):
    run_id, sealed = await run_with(served)
    own, key_id = await executor(served, "gpu", "fast")
    opened = await own.opens(run_id, sealed)
    assert opened.json == {"config": {"auth": "Bearer hush"}, "secrets": {"TOKEN": "hush"}}

    for refused in (
        await own.opens(run_id, sealed, pool="default"),
        await (await executor(served, "default"))[0].opens(run_id, sealed),
        await (await executor(served, "gpu", tenant=OTHER_TENANT))[0].opens(run_id, sealed),
    ):
        assert (refused.status, refused.code) == (403, "FORBIDDEN")
    for changed in (await own.opens(run_id, sealed, pool="fast"), await own.opens(run_id, sealed, job="j-2")):
        assert (changed.status, changed.code) == (409, "SECRET_KEY_WRONG"), "it is bound to its pool and its job"
    assert (await (await executor(served, "*", tenant=ALL_TENANTS))[0].opens(run_id, sealed)).status == 200

    await served.ask("POST", f"/v1/runs/{run_id}/cancel")
    await served.ended(run_id)
    assert (await own.opens(run_id, sealed)).status == 404, "nobody awaits the job"
    await served.services.access.revoke_key(key_id, tenant_id=TENANT, actor="test")
    assert (await own.opens(run_id, sealed)).code == "UNAUTHORIZED"


async def test_an_executor_fetches_large_values_that_an_open_run_of_its_tenant_refers_to(served: Served):
    run_id, _ = await run_with(served)
    without = await served.start("waiting", input={"text": "small"})
    own, of_another_pool = (await executor(served, "gpu"))[0], (await executor(served, "fast"))[0]
    of_all = (await executor(served, "gpu", tenant=ALL_TENANTS))[0]

    async def asks(who: Executor, **query: str) -> Answered:
        return await who.ask("GET", f"/v1/values/{NAME}", params=query)

    assert (await asks(own, instanceID=run_id)).json == LARGE
    assert (await asks(own, instanceID=run_id, tenantID=TENANT)).json == LARGE
    assert (await asks(of_another_pool, instanceID=run_id)).json == LARGE, "no table has the pools of jobs"
    assert (await asks(of_all, instanceID=run_id, tenantID=TENANT)).json == LARGE

    assert (await asks(own)).code == "INVALID_REQUEST"
    assert (await asks(own, instanceID=without)).status == 404, "another run refers to it"
    assert (await asks(own, instanceID=run_id, tenantID=OTHER_TENANT)).code == "FORBIDDEN"
    assert (await asks(of_all, instanceID=run_id, tenantID=OTHER_TENANT)).status == 404
    of_another_tenant = (await executor(served, "gpu", tenant=OTHER_TENANT))[0]
    assert (await asks(of_another_tenant, instanceID=run_id)).status == 404
    assert (await asks(of_another_tenant, instanceID=run_id, tenantID=TENANT)).code == "FORBIDDEN"

    await served.ask("POST", f"/v1/runs/{run_id}/cancel")
    await served.ended(run_id)
    assert (await asks(own, instanceID=run_id)).status == 404, "nobody awaits its jobs"
    assert (await served.ask("GET", f"/v1/values/{NAME}", role="viewer")).json == LARGE


async def test_an_executor_may_do_nothing_else(served: Served):
    allowed = {(route.method, route.path) for route in ROUTES if route.for_executors or route.needs is Role.EXECUTOR}
    assert allowed == {("GET", "/v1/values/{sha256}"), ("POST", "/v1/jobs/config")}
    own = (await executor(served, "*", tenant=ALL_TENANTS))[0]
    for path in ("/v1/me", "/v1/runs", "/v1/secrets", "/v1/keys"):
        assert (await own.ask("GET", path)).code == "FORBIDDEN"
    run_id, sealed = await run_with(served)
    body = {"tenantID": TENANT, "instanceID": run_id, "pool": "gpu", "jobID": "j-1", "sealed": sealed}
    assert (await served.ask("POST", "/v1/jobs/config", json=body)).code == "FORBIDDEN", "nor may an admin do this"


async def test_a_key_of_an_executor_names_its_pools(served: Served):
    made = await served.ask("POST", "/v1/keys", json={"role": "executor", "pools": ["gpu"]})
    assert made.status == 201
    [listed] = (await served.ask("GET", "/v1/keys")).json["items"]
    assert (listed["role"], listed["pools"], listed["tenant"]) == ("executor", ["gpu"], TENANT)
    for form in ({"role": "executor"}, {"role": "viewer", "pools": ["gpu"]}, {"role": "executor", "pools": ["GPU"]}):
        assert (await served.ask("POST", "/v1/keys", json=form)).code == "INVALID_REQUEST"
    with pytest.raises(InvalidRequest):
        await served.services.access.create_key(tenant_id=ALL_TENANTS, role=Role.ADMIN, actor="test")
