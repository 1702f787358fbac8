"""What is changed through the REST API is in the audit trail, with the key that did it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from anabranch.app import build
from anabranch.settings import Settings
from tests.rest.conftest import TENANT, Served
from tests.rest.drawing import echo


async def test_every_change_is_on_record_with_the_key_that_made_it(
    served: Served, settings_of: Callable[..., Settings], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")
    await served.save(echo())
    await served.ask("POST", "/v1/schedules", json={"name": "hourly", "workflow": "echo", "every": "1h"})
    await served.ask("PUT", "/v1/schedules/hourly", json={"name": "hourly", "workflow": "echo", "every": "2h"})
    await served.ask("DELETE", "/v1/schedules/hourly")
    subscriptions, target = "/v1/topics/orders.*/subscriptions", {"type": "workflow", "name": "echo"}
    subscribed = (await served.ask("POST", subscriptions, json=target)).json["subscriptionID"]
    await served.ask("POST", subscriptions, json=target)  # changes nothing: no row
    await served.ask("DELETE", f"{subscriptions}/{subscribed}")
    await served.ask("DELETE", "/v1/workflows/echo")
    await served.ask("POST", "/v1/secrets", json={"name": "TOKEN", "value": "hidden"})
    await served.ask("DELETE", "/v1/secrets/TOKEN")
    shop_url = f"sqlite:///{tmp_path / 'shop.db'}"
    source = (await served.ask("POST", "/v1/data-sources", json={"name": "shop", "url": shop_url})).json
    query = {"name": "orders", "dataSourceID": source["dataSourceID"], "sql": "SELECT 1"}
    await served.ask("POST", "/v1/data-queries", json=query)
    await served.ask("PUT", "/v1/data-queries/orders", json=query)
    await served.ask("DELETE", "/v1/data-queries/orders")
    await served.ask("DELETE", "/v1/data-sources/shop")
    key = (await served.ask("POST", "/v1/keys", json={"role": "viewer"})).json["keyID"]
    await served.ask("DELETE", f"/v1/keys/{key}")

    admin = await served.services.access.authenticate(served.keys["admin"])
    assert admin is not None
    async with build(settings_of()).open_audit() as log:
        rows = list(reversed(await log.list(TENANT)))
        assert (await log.verify()).broken_at is None
    assert [row.action for row in rows] == [
        "workflow.saved", "schedule.saved", "schedule.saved", "schedule.deleted", "subscription.saved",
        "subscription.deleted", "workflow.deleted", "secret.set", "secret.deleted", "data_source.saved",
        "data_query.saved", "data_query.saved", "data_query.deleted", "data_source.deleted", "key.created",
        "key.revoked",
    ]  # fmt: skip
    assert {row.actor for row in rows} == {admin.key_id}
    assert "hidden" not in repr(rows)


async def test_a_failed_login_is_on_record(served: Served, settings_of: Callable[..., Settings]) -> None:
    refused = await served.ask("GET", "/v1/workflows", headers={"Authorization": "Bearer ab_nobody"})
    assert refused.status == 401
    await served.services.access.stop()  # writes what it has counted
    async with build(settings_of()).open_audit() as log:
        [row] = await log.list("")
    assert (row.action, row.actor, row.details) == ("login.failed", "", '{"count": 1}')
