"""Who may call what: every route, every role, another tenant, and nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping

from anabranch.rest.routes.all_routes import ROUTES
from anabranch.rest.routes.route import PUBLIC
from tests.rest.conftest import Served
from tests.rest.drawing import echo, waiting

ROLES = ("viewer", "operator", "editor", "admin")

# What each route needs, decided here once more and by hand: whoever adds or changes one has to say so twice.
NEEDS: Mapping[tuple[str, str], str] = {
    ("GET", "/healthz"): "public",
    ("GET", "/readyz"): "public",
    ("GET", "/v1/audit"): "admin",
    ("GET", "/v1/dead-letters"): "admin",
    ("GET", "/v1/data-queries"): "viewer",
    ("POST", "/v1/data-queries"): "editor",
    ("GET", "/v1/data-queries/{query}"): "viewer",
    ("PUT", "/v1/data-queries/{query}"): "editor",
    ("DELETE", "/v1/data-queries/{query}"): "editor",
    ("GET", "/v1/data-sources"): "viewer",
    ("POST", "/v1/data-sources"): "admin",
    ("GET", "/v1/data-sources/{source}"): "viewer",
    ("PUT", "/v1/data-sources/{source}"): "admin",
    ("DELETE", "/v1/data-sources/{source}"): "admin",
    ("GET", "/v1/keys"): "admin",
    ("POST", "/v1/keys"): "admin",
    ("DELETE", "/v1/keys/{keyID}"): "admin",
    ("GET", "/v1/drafts"): "viewer",
    ("POST", "/v1/drafts"): "editor",
    ("GET", "/v1/drafts/{draft}"): "viewer",
    ("PUT", "/v1/drafts/{draft}"): "editor",
    ("DELETE", "/v1/drafts/{draft}"): "editor",
    ("POST", "/v1/drafts/{draft}/publish"): "editor",
    ("GET", "/v1/drafts/{draft}/pins"): "viewer",
    ("GET", "/v1/drafts/{draft}/test-hooks/{node}"): "operator",
    ("POST", "/v1/drafts/{draft}/test-hooks/{node}/listen"): "editor",
    ("PUT", "/v1/drafts/{draft}/pins"): "editor",
    ("GET", "/v1/me"): "viewer",
    ("GET", "/v1/node-types"): "viewer",
    ("GET", "/v1/templates"): "viewer",
    ("GET", "/v1/templates/{template}"): "viewer",
    ("GET", "/v1/values/{sha256}"): "viewer",
    ("POST", "/v1/jobs/config"): "executor",
    ("POST", "/v1/preview"): "editor",
    ("GET", "/v1/runs"): "viewer",
    ("GET", "/v1/runs/{instanceID}"): "viewer",
    ("DELETE", "/v1/runs/{instanceID}"): "operator",
    ("POST", "/v1/runs/{instanceID}/cancel"): "operator",
    ("POST", "/v1/runs/{instanceID}/resume"): "operator",
    ("POST", "/v1/runs/{instanceID}/pause"): "operator",
    ("GET", "/v1/runs/{instanceID}/graph"): "viewer",
    ("GET", "/v1/runs/{instanceID}/console"): "viewer",
    ("GET", "/v1/runs/{instanceID}/history"): "viewer",
    ("POST", "/v1/runs/{instanceID}/rerun"): "operator",
    ("POST", "/v1/runs/{instanceID}/retry"): "operator",
    ("POST", "/v1/runs/{instanceID}/fork"): "editor",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/fork"): "editor",
    ("POST", "/v1/runs/bulk"): "operator",
    ("GET", "/v1/runs/bulk/{bulkID}"): "viewer",
    ("GET", "/v1/runs/{instanceID}/log"): "viewer",
    ("POST", "/v1/runs/{instanceID}/signals/{event}"): "operator",
    ("GET", "/v1/runs/{instanceID}/iterations"): "viewer",
    ("GET", "/v1/runs/{instanceID}/steps"): "viewer",
    ("GET", "/v1/runs/{instanceID}/summary"): "viewer",
    ("GET", "/v1/runs/{instanceID}/widget"): "viewer",
    ("GET", "/v1/runs/{instanceID}/at/{seq}"): "viewer",
    ("GET", "/v1/runs/{instanceID}/why"): "viewer",
    ("GET", "/v1/runs/{instanceID}/nodes/{node}/why"): "viewer",
    ("POST", "/v1/import/n8n"): "editor",
    ("GET", "/v1/triggers"): "viewer",
    ("GET", "/v1/webhooks"): "viewer",
    ("GET", "/v1/schedules"): "viewer",
    ("POST", "/v1/schedules"): "editor",
    ("GET", "/v1/schedules/{schedule}"): "viewer",
    ("PUT", "/v1/schedules/{schedule}"): "editor",
    ("DELETE", "/v1/schedules/{schedule}"): "editor",
    ("POST", "/v1/schedules/{schedule}/trigger"): "operator",
    ("POST", "/v1/schedules/{schedule}/backfill"): "operator",
    ("GET", "/v1/secrets"): "admin",
    ("POST", "/v1/secrets"): "admin",
    ("DELETE", "/v1/secrets/{secret}"): "admin",
    ("POST", "/v1/test-runs"): "editor",
    ("DELETE", "/v1/test-runs/{instanceID}"): "editor",
    ("GET", "/v1/subscriptions"): "viewer",
    ("GET", "/v1/topics/{pattern}/subscriptions"): "viewer",
    ("POST", "/v1/topics/{pattern}/subscriptions"): "editor",
    ("DELETE", "/v1/topics/{pattern}/subscriptions/{subscription}"): "editor",
    ("POST", "/v1/topics/{topic}/messages"): "operator",
    ("POST", "/v1/validate"): "viewer",
    ("GET", "/v1/variables"): "viewer",
    ("GET", "/v1/variables/{variable}"): "viewer",
    ("PUT", "/v1/variables/{variable}"): "editor",
    ("DELETE", "/v1/variables/{variable}"): "editor",
    ("GET", "/v1/workflows/{workflow}/variables"): "viewer",
    ("GET", "/v1/workflows/{workflow}/variables/{variable}"): "viewer",
    ("PUT", "/v1/workflows/{workflow}/variables/{variable}"): "editor",
    ("DELETE", "/v1/workflows/{workflow}/variables/{variable}"): "editor",
    ("GET", "/v1/workflows"): "viewer",
    ("POST", "/v1/workflows"): "editor",
    ("GET", "/v1/workflows/{workflow}"): "viewer",
    ("PUT", "/v1/workflows/{workflow}"): "editor",
    ("DELETE", "/v1/workflows/{workflow}"): "editor",
    ("GET", "/v1/workflows/{workflow}/runs"): "viewer",
    ("POST", "/v1/workflows/{workflow}/runs"): "operator",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}"): "viewer",
    ("DELETE", "/v1/workflows/{workflow}/runs/{instanceID}"): "operator",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/cancel"): "operator",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/resume"): "operator",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/pause"): "operator",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/graph"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/console"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/history"): "viewer",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/rerun"): "operator",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/retry"): "operator",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/log"): "viewer",
    ("POST", "/v1/workflows/{workflow}/runs/{instanceID}/signals/{event}"): "operator",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/iterations"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/steps"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/summary"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/widget"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/at/{seq}"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/why"): "viewer",
    ("GET", "/v1/workflows/{workflow}/runs/{instanceID}/nodes/{node}/why"): "viewer",
    ("GET", "/v1/workflows/{workflow}/document"): "viewer",
    ("GET", "/v1/pause"): "viewer",
    ("POST", "/v1/pause"): "admin",
    ("POST", "/v1/resume"): "admin",
    ("POST", "/v1/workflows/{workflow}/pause"): "editor",
    ("POST", "/v1/workflows/{workflow}/resume"): "editor",
    ("PUT", "/v1/workflows/{workflow}/active"): "editor",
    ("GET", "/v1/workflows/{workflow}/draft"): "viewer",
    ("PUT", "/v1/workflows/{workflow}/draft"): "editor",
    ("DELETE", "/v1/workflows/{workflow}/draft"): "editor",
    ("POST", "/v1/workflows/{workflow}/draft/publish"): "editor",
    ("GET", "/v1/workflows/{workflow}/draft/pins"): "viewer",
    ("GET", "/v1/workflows/{workflow}/draft/test-hooks/{node}"): "operator",
    ("POST", "/v1/workflows/{workflow}/draft/test-hooks/{node}/listen"): "editor",
    ("PUT", "/v1/workflows/{workflow}/draft/pins"): "editor",
    ("GET", "/v1/workflows/{workflow}/versions"): "viewer",
}

# A body that no route takes: whoever may not call it is told so before the body is looked at.
NO_BODY_OF_OURS = b"{"


def test_the_table_of_who_may_what_is_the_one_that_is_served():
    served = {
        (route.method, path): "public" if route.needs is PUBLIC else route.needs.value
        for route in ROUTES
        for path in (route.path, *route.aliases)
    }
    assert served == dict(NEEDS), "decide in NEEDS who may call a new route"


async def test_every_route_lets_in_who_may_and_nobody_else(served: Served):
    for (method, path), needed in NEEDS.items():
        concrete = re.sub(r"{\w+}", "0190a5e0-0000-7000-8000-000000000000", path)
        for role in (None, *ROLES):
            answered = await served.ask(
                method, concrete, role=role, data=NO_BODY_OF_OURS, headers={"Content-Type": "application/json"}
            )
            attempt = f"{method} {path} as {role}"
            if needed == "public":
                assert answered.status == 200, attempt
            elif role is None:
                assert (answered.status, answered.code) == (401, "UNAUTHORIZED"), attempt
            elif needed == "executor" or ROLES.index(role) < ROLES.index(needed):
                assert (answered.status, answered.code) == (403, "FORBIDDEN"), attempt
            else:
                assert answered.status not in (401, 403), attempt
                assert answered.status < 500, f"{attempt}: {answered.text}"


async def test_what_belongs_to_another_tenant_reads_as_absent(served: Served):
    saved = await served.save(echo())
    await served.save(waiting())
    running = await served.start("waiting", input={})
    await served.ask("POST", "/v1/secrets", json={"name": "TOKEN", "value": "hidden"})
    assert (await served.ask("PUT", "/v1/variables/REGION", json={"value": "EU"})).status == 200
    key = (await served.ask("POST", "/v1/keys", json={"role": "viewer"})).json["keyID"]
    source = (await served.ask("POST", "/v1/data-sources", json={"name": "own", "url": "sqlite:///own.db"})).json
    hourly = {"name": "hourly", "workflow": "waiting", "every": "1h"}
    assert (await served.ask("POST", "/v1/schedules", json=hourly)).status == 201
    subscriptions = "/v1/topics/orders.*/subscriptions"
    subscription = (await served.ask("POST", subscriptions, json={"type": "workflow", "name": "waiting"})).json
    draft = (await served.ask("POST", "/v1/drafts", json={"workflow": "echo", "document": echo()})).json["draftID"]
    choice = {"action": "cancel", "filter": {"workflow": "waiting"}, "dryRun": True}
    bulk = (await served.ask("POST", "/v1/runs/bulk", json=choice)).json
    assert "bulkID" in bulk, bulk
    tried = 0
    ids = {
        "draft": [draft],
        "workflow": [saved["workflowID"], "echo"],
        "instanceID": [running],
        "bulkID": [bulk["bulkID"]],
        "event": ["go"],
        "secret": ["TOKEN"],
        "variable": ["REGION"],
        "keyID": [key],
        "source": [source.get("dataSourceID", "own"), "own"],
        "query": ["nothing"],
        "seq": ["1"],
        "node": ["wait"],
        "schedule": ["hourly"],
        "subscription": [subscription["subscriptionID"]],
        "pattern": ["orders.*"],
        "sha256": ["0" * 64],
        "topic": ["orders.new"],
    }
    for method, path in NEEDS:
        names = re.findall(r"{(\w+)}", path)
        if not names or path.endswith(("/subscriptions", "/messages")):
            continue  # topics are everybody's own: nothing there belongs to anybody else
        if path.startswith("/v1/templates/"):
            continue  # they are the same for every tenant
        if (method, path) == ("PUT", "/v1/variables/{variable}"):
            continue  # sets one of the caller's own
        for number in range(max(len(ids[name]) for name in names)):
            concrete = path
            for name in names:
                concrete = concrete.replace(f"{{{name}}}", ids[name][min(number, len(ids[name]) - 1)])
            query = (
                "?type=json"
                if concrete.endswith("widget")
                else "?nodeID=wait"
                if concrete.endswith("iterations")
                else ""
            )
            body = echo("taken") if method == "PUT" else {} if method == "POST" else None
            if method == "PUT" and "data-" in path:
                body = {"name": "own", "url": "sqlite:///own.db"}
            if path.endswith("/{variable}") and method == "PUT":
                body = {"value": 1}
            if path.endswith("/active"):
                body = {"version": 1}
            if "/draft" in path:
                body = {} if path.endswith("/pins") else {"document": {}} if method == "PUT" else None
            answered = await served.ask(method, concrete + query, role="other", json=body, headers={"If-Match": "*"})
            assert answered.status == 404, f"{method} {concrete}: {answered.text}"
            tried += 1
    assert tried > 20
    shared = (await served.ask("GET", "/v1/workflows", role="other")).json["items"]
    assert [found["name"] for found in shared] == ["anabranch-bulk"], "code is everybody's, the system's own as well"
    for path in ("/v1/drafts", "/v1/runs", "/v1/secrets", "/v1/keys", "/v1/data-sources",
                 "/v1/data-queries", "/v1/schedules", subscriptions):  # fmt: skip
        assert (await served.ask("GET", path, role="other")).json == {"items": [], "nextCursor": None}, path
    assert (await served.ask("GET", f"/v1/runs/{running}")).json["status"] in ("RUNNING", "WAITING")


async def test_an_answer_to_nobody_says_how_to_become_somebody(served: Served):
    answered = await served.ask("GET", "/v1/runs", role=None)
    assert answered.headers["WWW-Authenticate"].startswith("Bearer")
    assert "keys create" in answered.json["error"]["hint"]


async def test_a_revoked_key_is_refused_within_two_seconds(served: Served):
    made = (await served.ask("POST", "/v1/keys", json={"role": "viewer"})).json
    mine = {"Authorization": f"Bearer {made['key']}"}
    assert (await served.ask("GET", "/v1/runs", role=None, headers=mine)).status == 200
    assert (await served.ask("DELETE", f"/v1/keys/{made['keyID']}")).status == 204
    assert (await served.ask("GET", "/v1/runs", role=None, headers=mine)).status == 401


async def test_a_key_learns_whose_it_is(served: Served):
    for role in ROLES:
        answered = await served.ask("GET", "/v1/me", role=role)
        assert (answered.status, answered.json["tenant"], answered.json["role"]) == (200, "acme", role)
    made = (await served.ask("POST", "/v1/keys", json={"role": "operator"})).json
    me = await served.ask("GET", "/v1/me", role=None, headers={"Authorization": f"Bearer {made['key']}"})
    assert me.json == {"keyID": made["keyID"], "tenant": "acme", "role": "operator"}
    assert made["key"] not in me.text


async def test_the_audit_trail_of_a_tenant_is_read_page_by_page_newest_first(served: Served):
    for number in range(3):
        await served.save(echo(f"flow-{number}"))
    await served.ask("POST", "/v1/workflows", json=echo("theirs"), role="other")
    found: list[dict[str, object]] = []
    cursor: str | None = None
    while True:
        params = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
        page = (await served.ask("GET", "/v1/audit", params=params)).json
        found += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    saved = [row for row in found if row["action"] == "workflow.saved"]
    assert [row["details"] for row in saved] == [{"name": f"flow-{number}", "version": 1} for number in (2, 1, 0)]
    assert {row["tenant"] for row in found} == {"acme"}
    assert [row["position"] for row in found] == sorted((row["position"] for row in found), reverse=True)
    me = (await served.ask("GET", "/v1/me")).json
    assert {row["actor"] for row in saved} == {me["keyID"]}
    wrong = await served.ask("GET", "/v1/audit?cursor=bm9uZQ")
    assert (wrong.status, wrong.code) == (422, "INVALID_REQUEST")
