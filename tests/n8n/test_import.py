"""What an import makes of settings, notes, pins, loops and nodes without a counterpart, and what it reports."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from anabranch.engine.rules.graph.validate import validate
from anabranch.errors import InvalidRequest
from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import Imported, import_workflow
from anabranch.testing import run_workflow
from tests.n8n.drawn import ORDERS, Drawn, node, set_to
from tests.n8n.drawn import test_of as conditions_of

TYPES = builtin_types()


def imported(*nodes: Any, links: Any = None, **fields: Any) -> Imported:
    """The import of these nodes behind a beginning."""
    export = Drawn("Made here", "", nodes, [], [], links=links).export()
    [workflow] = read_exports({**export, **fields})
    return import_workflow(workflow, TYPES)


def made(workflow: Imported, node_id: str) -> dict[str, Any]:
    """A node of the document."""
    return next(each for each in workflow.document["nodes"] if each["id"] == node_id)


def test_a_placeholder_keeps_what_it_was_and_fails_when_it_is_reached() -> None:
    sheet = node("Rows", "googleSheets", 4, sheet="={{ $json.id }}", text="{{secret.TOKEN}}")
    workflow = imported(sheet)
    placeholder = made(workflow, "rows")
    assert placeholder["config"]["was"] == "n8n-nodes-base.googleSheets"
    assert placeholder["config"]["parameters"] == {
        "sheet": "{{ctx.item.id | default(none)}}",
        "text": "{{secret.TOKEN}}",
    }
    assert workflow.report.status == "placeholder"

    run = asyncio.run(run_workflow(workflow.document, {"n8nItems": ORDERS}))

    assert (run.status, run.error and run.error["code"]) == ("FAILED", "NOT_IMPORTED")


def test_a_workflow_whose_trigger_is_unknown_can_be_begun_by_hand_and_is_valid() -> None:
    [workflow] = read_exports({
        "name": "Mail", "nodes": [{"name": "Mail", "type": "n8n-nodes-base.gmailTrigger", "parameters": {}}],
        "connections": {}})  # fmt: skip
    document = import_workflow(workflow, TYPES).document
    assert [each["type"] for each in document["nodes"]] == ["start", "placeholder"]
    assert validate(document, TYPES).valid


def test_settings_notes_positions_and_pins_come_along() -> None:
    request = {
        **node("Ask", "httpRequest", 4.2, url="https://a.example", options={}),
        "retryOnFail": True,
        "maxTries": 5,
        "waitBetweenTries": 200,
        "executeOnce": True,
        "position": [100, 40],
    }
    note = node("Note", "stickyNote", 1, content="## Look")
    off = {**set_to("Off", n="1"), "disabled": True}
    workflow = imported(
        request, off, set_to("On", n="2"), note, pinData={"On": [{"json": {"n": "3"}}, {"json": {"n": "4"}}]},
        links=[("Begin", 0, "Ask", 0), ("Ask", 0, "Off", 0), ("Off", 0, "On", 0)],
    )  # fmt: skip
    ask = made(workflow, "ask_answer")
    assert ask["retry"] == {"maxAttempts": 5, "backoff": {"kind": "fixed", "base": 200, "max": 200}}
    assert "forEach" not in ask
    assert ask["position"]["x"] > 100
    assert made(workflow, "off")["type"] == "fields"
    assert workflow.pins == {"on": {"output": [{"n": "3"}, {"n": "4"}]}}
    assert [each["text"] for each in workflow.document["notes"]] == ["## Look"]


def test_one_item_is_passed_plainly_and_several_by_for_each() -> None:
    [workflow] = read_exports({
        "name": "Hook",
        "nodes": [node("Hook", "webhook", 2, path="a", httpMethod="POST"), set_to("One", n="={{ $json.body.n }}"),
                  node("Ask", "httpRequest", 4.2, url="=https://a.example/{{ $json.n }}", options={}),
                  set_to("Many", n="={{ $json.n }} of {{ $('Hook').item.json.body.n }}")],
        "connections": {"Hook": {"main": [[{"node": "One", "type": "main", "index": 0}]]},
                        "One": {"main": [[{"node": "Ask", "type": "main", "index": 0}]]},
                        "Ask": {"main": [[{"node": "Many", "type": "main", "index": 0}]]}}})  # fmt: skip
    result = import_workflow(workflow, TYPES)
    assert "forEach" not in made(result, "one")
    assert "forEach" not in made(result, "ask_answer")
    assert made(result, "many")["forEach"] == "{{ctx.ask.items}}"
    assert made(result, "many")["config"]["values"]["n"] == (
        "{{ctx.item.n | js_text}} of {{ctx.hook_request.body.n | js_text}}"
    )
    assert result.report.status == "exact"
    assert validate(result.document, TYPES).valid


def test_a_loop_that_is_left_in_the_middle_becomes_a_cursor() -> None:
    workflow = imported(
        node("Loop", "splitInBatches", 3, options={}),
        set_to("Body", id="={{ $json.id }}"),
        set_to("After", id="={{ $json.id }}"),
        links=[("Begin", 0, "Loop", 0), ("Begin", 0, "Body", 0), ("Loop", 1, "Body", 0), ("Body", 0, "Loop", 0),
               ("Loop", 0, "After", 0)],
    )  # fmt: skip
    assert made(workflow, "loop")["type"] == "cursor"
    assert validate(workflow.document, TYPES).valid


def test_batches_that_nothing_follows_are_the_same_as_a_cursor() -> None:
    workflow = imported(node("Loop", "splitInBatches", 3, options={}))
    export = Drawn("Lone batches", "", [node("Loop", "splitInBatches", 3, options={})], [], []).export()
    begin = {**export["nodes"][0], **node("Begin", "manualTrigger", 1)}
    [lone] = read_exports({**export, "nodes": [begin, *export["nodes"][1:]]})

    assert (workflow.report.status, import_workflow(lone, TYPES).report.status) == ("equal", "exact")


def test_the_report_names_what_differs_and_what_to_enter() -> None:
    request = {
        **node("Ask", "httpRequest", 4.2, url="https://a.example", authentication="genericCredentialType",
               genericAuthType="httpBasicAuth", options={"batching": {"batch": {"batchInterval": 600_000}}}),
        "credentials": {"httpBasicAuth": {"id": "1", "name": "Shop"}},
    }  # fmt: skip
    report = imported(request).report
    assert report.as_json()["credentials"] == [
        {"type": "httpBasicAuth", "name": "Shop", "secrets": ["SHOP_USER", "SHOP_PASSWORD"], "nodes": ["Ask"]}
    ]
    text = "\n".join(report.lines())
    assert "equal but for  Ask (n8n-nodes-base.httpRequest): requests go out one after the other" in text
    assert "SHOP_USER, SHOP_PASSWORD" in text


@pytest.mark.parametrize("document", [None, 7, [], {}, {"nodes": []} | {"connections": 7}, {"workflow": {"nodes": 1}}])
def test_what_is_no_export_is_refused(document: Any) -> None:
    with pytest.raises(InvalidRequest, match="not an export of n8n"):
        read_exports(document)


@pytest.mark.parametrize(
    "broken",
    [
        {"nodes": [1, {"type": 3}, {"type": "x", "parameters": 3, "position": "no"}], "connections": {}},
        {
            "nodes": [{"type": "n8n-nodes-base.if", "name": "A", "parameters": {"conditions": 1}}],
            "connections": {"A": 3},
        },
        {
            "nodes": [{"type": "n8n-nodes-base.set", "name": "A"}],
            "connections": {"A": {"main": [[{"node": "A"}], None]}},
        },
        {
            "nodes": [{"type": "n8n-nodes-base.set", "name": "{{x}}'\"]"}],
            "connections": {"B": {"main": [[{"node": "C"}]]}},
        },
    ],
)
def test_what_is_odd_in_an_export_makes_no_fault(broken: Any) -> None:
    for workflow in read_exports(broken):
        assert import_workflow(workflow, TYPES).document["nodes"]


@pytest.mark.parametrize(
    ("kind", "sent", "secrets"),
    [
        ("openAiApi", {"headers": {"Authorization": "Bearer {{secret.SHOP_TOKEN}}"}}, ["SHOP_TOKEN"]),
        ("supabaseApi", {"headers": {"apikey": "{{secret.SHOP_KEY}}", "Authorization": "Bearer {{secret.SHOP_KEY}}"}},
         ["SHOP_KEY"]),
        ("trelloApi", {"query": {"key": "{{secret.SHOP_KEY}}", "token": "{{secret.SHOP_TOKEN}}"}},
         ["SHOP_KEY", "SHOP_TOKEN"]),
        ("zendeskApi", {"auth": {"type": "basic", "username": "{{secret.SHOP_EMAIL}}/token",
                                 "password": "{{secret.SHOP_TOKEN}}"}}, ["SHOP_EMAIL", "SHOP_TOKEN"]),
        ("googleSheetsOAuth2Api",
         {"auth": {"type": "oauth2", "tokenURL": "https://oauth2.googleapis.com/token", "clientIn": "body",
                   "clientID": "{{secret.SHOP_CLIENT_ID}}", "clientSecret": "{{secret.SHOP_CLIENT_SECRET}}",
                   "refreshToken": "{{secret.SHOP_REFRESH_TOKEN}}"}},
         ["SHOP_CLIENT_ID", "SHOP_CLIENT_SECRET", "SHOP_REFRESH_TOKEN"]),
        ("twitterOAuth2Api",
         {"auth": {"type": "oauth2", "tokenURL": "https://api.twitter.com/2/oauth2/token", "clientIn": "header",
                   "clientID": "{{secret.SHOP_CLIENT_ID}}", "clientSecret": "{{secret.SHOP_CLIENT_SECRET}}",
                   "refreshToken": "{{secret.SHOP_REFRESH_TOKEN}}"}},
         ["SHOP_CLIENT_ID", "SHOP_CLIENT_SECRET", "SHOP_REFRESH_TOKEN"]),
        ("googleApi",
         {"auth": {"type": "serviceAccount", "email": "{{secret.SHOP_EMAIL}}",
                   "privateKey": "{{secret.SHOP_PRIVATE_KEY}}", "scope": "{{secret.SHOP_SCOPES}}"}},
         ["SHOP_EMAIL", "SHOP_PRIVATE_KEY", "SHOP_SCOPES"]),
        ("twitterOAuth1Api",
         {"auth": {"type": "oauth1", "consumerKey": "{{secret.SHOP_CONSUMER_KEY}}",
                   "consumerSecret": "{{secret.SHOP_CONSUMER_SECRET}}", "token": "{{secret.SHOP_TOKEN}}",
                   "tokenSecret": "{{secret.SHOP_TOKEN_SECRET}}"}},
         ["SHOP_CONSUMER_KEY", "SHOP_CONSUMER_SECRET", "SHOP_TOKEN", "SHOP_TOKEN_SECRET"]),
    ],
)  # fmt: skip
def test_a_credential_is_sent_as_n8n_sends_it(kind: str, sent: Any, secrets: list[str]) -> None:
    request = {
        **node("Ask", "httpRequest", 4.2, url="https://a.example", authentication="predefinedCredentialType",
               nodeCredentialType=kind, options={}),
        "credentials": {kind: {"id": "1", "name": "Shop"}},
    }  # fmt: skip
    workflow = imported(request)
    config = made(workflow, "ask_answer")["config"]
    assert {part: config[part] for part in ("headers", "query", "auth") if part in config} == sent
    assert workflow.report.status == "exact"
    assert workflow.report.credentials[0]["secrets"] == secrets
    assert validate(workflow.document, TYPES).valid


def test_a_credential_that_is_not_known_is_named() -> None:
    request = node("Ask", "httpRequest", 4.2, url="https://a.example", authentication="predefinedCredentialType",
                   nodeCredentialType="shopOfMineApi", options={})  # fmt: skip
    [report] = [each for each in imported(request).report.nodes if each.name == "Ask"]
    assert (report.status, report.why) == (
        "equal", "how a credential of the type shopOfMineApi is sent is not known: it is a bearer token"
    )  # fmt: skip


def asks(**parameters: Any) -> dict[str, Any]:
    """A request, as it is imported exactly."""
    workflow = imported(node("Ask", "httpRequest", 4.2, url="https://a.example", options={}, **parameters))
    assert workflow.report.status == "exact", [each.why for each in workflow.report.nodes]
    config: dict[str, Any] = made(workflow, "ask_answer")["config"]
    return config


def test_a_request_without_a_kind_of_credential_is_sent_without_one() -> None:
    assert "auth" not in asks(authentication="genericCredentialType")


def test_headers_that_are_a_list_are_sent_by_their_numbers() -> None:
    listed = '[{"name": "Accept", "value": "a/b"}, "x"]'
    assert asks(sendHeaders=True, specifyHeaders="json", jsonHeaders=listed)["headers"] == {
        "0": "[object Object]", "1": "x"
    }  # fmt: skip


def test_with_oauth_1_no_headers_of_the_node_are_sent() -> None:
    headers = {"parameters": [{"name": "X-Own", "value": "1"}]}
    config = asks(authentication="genericCredentialType", genericAuthType="oAuth1Api", sendHeaders=True,
                  headerParameters=headers)  # fmt: skip
    assert (config["auth"]["type"], "headers" in config) == ("oauth1", False)


def test_a_request_is_sent_through_its_proxy() -> None:
    workflow = imported(node("Ask", "httpRequest", 4.2, url="https://a.example",
                             options={"proxy": "=http://me:{{ $json.pw }}@b.example:80"}))  # fmt: skip
    assert workflow.report.status == "exact"
    assert made(workflow, "ask_answer")["config"]["proxy"].startswith("http://me:")


def test_an_older_request_that_sends_a_file_as_json_fails_as_in_n8n() -> None:
    workflow = imported(node("Ask", "httpRequest", 1, url="https://a.example", requestMethod="POST", options={},
                             jsonParameters=True, sendBinaryData=True, binaryPropertyName="a:data"))  # fmt: skip
    assert workflow.report.status == "exact"
    assert made(workflow, "ask")["type"] == "stopWithError"


def webhook(name: str, **parameters: Any) -> dict[str, Any]:
    return node(name, "webhook", 2, path="orders", responseMode="responseNode", options={}, **parameters)


def hooks(*nodes: Any) -> Imported:
    """The import of webhooks that lead to a field each."""
    fields = [set_to(f"Of {each['name']}", body="={{ $json.body.id }}") for each in nodes]
    connections = {each["name"]: {"main": [[{"node": to["name"], "type": "main", "index": 0}]]}
                   for each, to in zip(nodes, fields, strict=True)}  # fmt: skip
    positioned = [{"position": [0, 0], **each} for each in (*nodes, *fields)]
    [workflow] = read_exports({"name": "Hooks", "nodes": positioned, "connections": connections})
    return import_workflow(workflow, TYPES)


@pytest.mark.parametrize(("method", "done"), [("GET", "of_read"), ("POST", "of_write")])
def test_webhooks_of_one_path_become_one_that_asks_for_the_method(method: str, done: str) -> None:
    workflow = hooks(webhook("Read"), webhook("Write", httpMethod="POST"))
    request = {"method": method, "path": "orders", "headers": {}, "query": {}, "json": {"id": 7}, "form": None,
               "body": "", "rawBody": ""}  # fmt: skip
    run = asyncio.run(run_workflow(workflow.document, request))

    assert ([each.status for each in workflow.report.nodes], workflow.errors) == (["exact"] * 4, ())
    assert made(workflow, "read")["config"]["methods"] == ["GET", "POST"]
    assert [each for each in run.completed if each.startswith("of_")] == [done]


def test_webhooks_that_answer_in_different_ways_are_not_joined() -> None:
    workflow = hooks(webhook("Read"), {**webhook("Write", httpMethod="POST", authentication="basicAuth")})

    assert [each.status for each in workflow.report.nodes].count("placeholder") == 1


def test_a_webhook_of_several_methods_has_a_way_for_each_and_an_answer_of_its_own_comes_first() -> None:
    several = hooks(node("Both", "webhook", 2, path="a", multipleMethods=True, options={"responseData": "=done"}))

    assert made(several, "both")["config"]["methods"] == ["GET", "POST"]
    assert made(several, "both")["config"]["respond"] == "respondNode"
    assert made(several, "both_answer")["config"]["body"] == "done"
    assert several.report.status == "exact"


def test_code_that_waits_first_becomes_a_delay_and_the_rest() -> None:
    later = "return new Promise((resolve) => {\n setTimeout(() => { resolve([{json: {a: 1}}]) }, 5000);\n})"
    then = "await new Promise(r => setTimeout(r, 70));\nreturn $input.all()"
    workflow = imported(node("Code", "function", 1, functionCode=later), node("Then", "code", 2, jsCode=then))
    run = asyncio.run(run_workflow(workflow.document, {"n8nItems": [{}]}))

    assert workflow.report.status == "exact"
    assert (run.output["n8nItems"], run.duration_ms) == ([{"a": 1}], 5_070)


def test_what_is_no_code_in_n8n_either_fails_when_it_is_reached() -> None:
    python = node("Python", "code", 2, language="python", pythonCode="for x in _input.all():\nx = 1\nreturn []")
    request = node("Get", "httpRequest", 4.2, url="={{ $('A).item.json.x }}", options={})
    for each, message in ((python, "not Python"), (request, "invalid syntax")):
        workflow = imported(each)
        run = asyncio.run(run_workflow(workflow.document, {"n8nItems": [{}]}))
        assert (workflow.report.status, run.status) == ("exact", "FAILED")
        assert message in run.error["message"]


def test_a_workflow_that_n8n_never_begins_fails_before_it_does_anything() -> None:
    begin = node("By hand", "manualTrigger", 1)
    asks = node("Ask", "httpRequest", 4.2, url="https://example.com/do", method="POST", options={})
    links = [("By hand", 0, "Ask", 0), ("Ask", 0, "Split", 0)]
    workflow = imported(begin, asks, node("Split", "splitOut", 1), links=links)
    run = asyncio.run(run_workflow(workflow.document, {}))  # without an answer for it, a request would be another fault

    assert (workflow.report.status, workflow.errors, run.status) == ("exact", (), "FAILED")
    assert "Split: its parameter `fieldToSplitOut` is empty" in run.error["message"]
    assert "n8n executes no workflow that leads to it" in workflow.report.nodes[-1].remarks[0]


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        (node("S", "set", 3.4, options={}, assignments={"assignments": [{"name": "a", "type": "array", "value": ""}]}),
         "expects a array"),
        (node("S", "summarize", 1), "at least one aggregation"),
        (node("S", "if", 2.2, conditions=conditions_of("={{ $json.a === 1 }}", "boolean", "equals", right="true")),
         "expecting a boolean"),
        (node("S", "if", 2.2, conditions=conditions_of("={{ $json.a }}", "string", "equals", right="1")),
         "a number, where string is expected"),
        (node("S", "filter", 2.2, conditions=conditions_of("={{ $json.a }}", "boolean", "true")),
         "was expecting a boolean"),
        (node("S", "set", 3.4, options={}, assignments={"assignments": [
            {"name": "b", "type": "object", "value": "={{ $json.a.toFixed(1).concat('x').parseJson() }}"}]}),
         "not JSON"),
        (node("S", "set", 3.4, options={}, assignments={"assignments": [
            {"name": "b", "type": "object", "value": "={{ $json.a.parseJson() }}"}]}), "fromjson"),
        (node("S", "code", 2, mode="runOnceForEachItem", jsCode="return [$input.item]"), "a single object"),
        (node("S", "set", 3.4, options={}, assignments={"assignments": [
            {"name": "={{ 'x' + $json.a }}", "type": "boolean", "value": "={{ 'yes' }}"}]}), "expects boolean"),
        (node("S", "if", 1, conditions={"dateTime": [{"value1": "x", "value2": "=2026"}]}), "not a valid DateTime"),
    ],
)  # fmt: skip
def test_what_fails_in_n8n_as_it_is_written_fails_here(failing: Any, message: str) -> None:
    workflow = imported(failing)
    run = asyncio.run(run_workflow(workflow.document, {"n8nItems": [{"a": 1}]}))

    assert (workflow.report.status, run.status) == ("exact", "FAILED")
    assert message in run.error["message"]


def test_a_schedule_whose_time_is_an_expression_of_a_number_and_python_that_begins_by_hand() -> None:
    rule = {"interval": [{"triggerAtHour": "={{ 07 }}", "triggerAtMinute": "={{ 30 }}"}]}
    begin, by_hand = node("At", "scheduleTrigger", 1.3, rule=rule), node("By hand", "manualTrigger", 1)
    code = node("Code", "code", 2, language="python", pythonCode="return [{'json': {'n': len(_input.all())}}]")
    links = [("At", 0, "Hi", 0), ("By hand", 0, "Code", 0), ("Code", 0, "Hi", 0)]
    workflow = imported(begin, by_hand, code, node("Hi", "noOp", 1), links=links)

    assert workflow.report.status == "exact"
    assert made(workflow, "at")["config"]["cron"] == "30 7 * * *"
    assert 'ctx["input"]' in made(workflow, "code")["config"]["code"]


def test_an_insert_of_named_columns_is_one_statement_and_says_success_where_nothing_comes_back() -> None:
    columns = {"mappingMode": "defineBelow", "value": {"id": "={{ $json.id }}", 'Na"me': "x"}, "matchingColumns": [],
               "schema": [{"id": "id", "type": "string"}, {"id": 'Na"me', "type": "string"}]}  # fmt: skip
    insert = node("Insert", "postgres", 2.6, table={"value": "t"}, columns=columns, options={"skipOnConflict": True})
    workflow = imported(insert)
    [query] = workflow.queries

    assert workflow.report.status == "exact"
    assert query["sql"] == (
        'INSERT INTO "public"."t" ("id", "Na""me") SELECT "id", "Na""me"'
        ' FROM json_populate_recordset(NULL::"public"."t", CAST(:rows AS json)) ON CONFLICT DO NOTHING RETURNING *'
    )
    assert "'success': true" in made(workflow, "end")["config"]["outputParameters"]["n8nItems"]


@pytest.mark.parametrize(
    ("version", "sql", "says"),
    [(2.6, "UPDATE t SET a = 1", True), (2.6, "/* all */ SELECT 1;", False), (2.6, "WITH x AS (TABLE y) TABLE x", 1),
     (2.2, "SELECT 1", True), (1, "UPDATE t SET a = 1", False)],
)  # fmt: skip
def test_a_query_without_rows_says_success_where_n8n_says_so(version: float, sql: str, says: int) -> None:
    query = node("Query", "postgres", version, operation="executeQuery", query=sql, options={})
    workflow = imported({**query, "executeOnce": True})

    assert workflow.report.status == "exact"
    assert ("success" in made(workflow, "end")["config"]["outputParameters"]["n8nItems"]) == says


def test_what_saved_queries_cannot_be_is_a_placeholder_and_an_upsert_without_a_key_fails() -> None:
    upsert = node("Upsert", "postgres", 2.6, operation="upsert", table={"value": "t"},
                  columns={"mappingMode": "autoMapInputData", "value": {}, "matchingColumns": []})  # fmt: skip
    run = asyncio.run(run_workflow(imported(upsert).document, {"n8nItems": [{"a": 1}]}))
    makes = imported(node("Make", "mySql", 1, operation="executeQuery", query="CREATE TABLE t (id int)"))

    assert makes.report.status == "placeholder"
    assert (imported(upsert).report.status, run.status) == ("exact", "FAILED")


@pytest.mark.parametrize(
    ("order", "answered"), [("v1", "upper"), (None, "lower")]
)  # the newer order goes by the place on the canvas, the older by the connections
def test_an_answer_that_several_branches_lead_to_is_that_of_the_first(order: str | None, answered: str) -> None:
    upper, lower = (
        node(name, "code", 2, jsCode=f"return [{{json: {{from: '{name}'}}}}];") for name in ("upper", "lower")
    )
    answer = node("Answer", "respondToWebhook", 1.4, respondWith="firstIncomingItem", options={})
    hook = node("Hook", "webhook", 2, path="x", responseMode="responseNode")
    links = [("Hook", 0, "lower", 0), ("Hook", 0, "upper", 0), ("lower", 0, "Answer", 0), ("upper", 0, "Answer", 0)]
    export = Drawn("Answers", "", [hook, upper, lower, answer], [], [], links=links).export()
    export["nodes"] = [each for each in export["nodes"] if each["name"] != "Begin"]
    for each in export["nodes"]:
        each["position"] = [0, -100 if each["name"] == "upper" else 100]
    [workflow] = read_exports({**export, "settings": {"executionOrder": order}})
    imported = import_workflow(workflow, TYPES)
    body = made(imported, "answer_2")["config"]["body"]

    assert (imported.report.status, imported.errors) == ("exact", ())
    assert re.findall(r"ctx\.(upper|lower)", body)[0] == answered


def test_every_some_days_is_each_day_with_a_look_at_when_it_was_last_due() -> None:
    rule = {"interval": [{"daysInterval": 3, "triggerAtHour": 4}]}
    workflow = imported(node("At", "scheduleTrigger", 1.2, rule=rule), links=[])
    document = workflow.document
    end = {"id": "done", "type": "end", "config": {"outputParameters": {"hour": "{{ctx.at_time.Hour}}"}}}
    start = {
        "id": "start",
        "type": "set",
        "config": {"values": {"scheduledAt": "{{ctx.input.at}}"}},
        "outputVariable": "at",
    }
    begin = {"id": "by_hand", "type": "start", "config": {}}
    nodes = [start if each["id"] == "at" else each for each in document["nodes"] if each["id"] != "begin"]
    edges = [edge for edge in document["edges"] if "begin" not in edge.values()]
    edges += [{"upstreamNodeID": "by_hand", "downstreamNodeID": "start"},
              {"upstreamNodeID": "at_time", "downstreamNodeID": "done"}]  # fmt: skip
    for edge in edges:
        for side in ("upstreamNodeID", "downstreamNodeID"):
            edge[side] = "start" if edge[side] == "at" else edge[side]
    drawn = {"name": "every-some-days", "nodes": [begin, *nodes, end], "edges": edges}

    assert (workflow.report.status, made(workflow, "at")["config"]["cron"]) == ("exact", "0 4 * * *")
    run = asyncio.run(run_workflow(drawn, {"at": "2026-01-01T04:00:00Z"}))
    assert (run.status, run.output["hour"]) == ("COMPLETED", "04")


@pytest.mark.parametrize(
    ("kind", "version", "options", "sql", "status"),
    [
        ("postgres", 2.6, {}, "UPDATE t SET a = 1", "equal"),
        ("postgres", 1, {}, "UPDATE t SET a = 1", "equal"),
        ("postgres", 2.6, {"queryBatching": "independently"}, "UPDATE t SET a = 1", "exact"),
        ("postgres", 2.6, {"queryBatching": "transaction"}, "SELECT 1", "exact"),
        ("postgres", 2.6, {"largeNumbersOutput": "numbers"}, "SELECT 1", "equal"),
        ("mySql", 2.4, {}, "UPDATE t SET a = 1", "exact"),
        ("mySql", 2.4, {"queryBatching": "transaction"}, "UPDATE t SET a = 1", "equal"),
    ],
)
def test_statements_for_several_items_are_exact_where_n8n_has_no_transaction_of_all(
    kind: str, version: float, options: Any, sql: str, status: str
) -> None:
    workflow = imported(node("Rows", kind, version, operation="executeQuery", query=sql, options=options))
    assert workflow.report.status == status, workflow.report.nodes


def test_values_of_a_query_are_the_columns_of_an_item_that_an_older_node_names() -> None:
    query = node("Rows", "postgres", 1, operation="executeQuery", query="SELECT $1, $2",
                 additionalFields={"queryParams": "id, a name"})  # fmt: skip
    workflow = imported(query)
    rows = made(workflow, "rows_rows")["config"]
    assert (workflow.queries[0]["sql"], rows["values"]) == ("SELECT :a1, :a2", "node")
    assert list(rows["args"].values()) == ["{{ctx.item.id | default(none)}}", "{{ctx.item['a name'] | default(none)}}"]


def test_queries_select_and_insert_as_saved_queries_with_bound_values() -> None:
    rows = node("Rows", "mySql", 2.2, operation="select", table={"__rl": True, "value": "a`b"}, returnAll=True)
    columns = {"mappingMode": "defineBelow", "value": {"id": "={{ $json.id }}", "customer": "x"}, "matchingColumns": [],
               "schema": [{"id": "id", "type": "string"}, {"id": "customer", "type": "string"}]}  # fmt: skip
    insert = node("Insert", "postgres", 2.6, table={"value": "t"}, columns=columns, options={})
    workflow = imported(rows, insert)
    [select, write] = workflow.queries

    assert [each.status for each in workflow.report.nodes] == ["exact", "equal", "exact"]
    assert "dates" in workflow.report.nodes[1].why
    assert (select["sql"], select["writes"]) == ("SELECT * FROM `a``b`", False)
    assert (write["params"], write["writes"]) == ({"rows": "any"}, True)
    assert write["sql"] == (
        'INSERT INTO "public"."t" ("id", "customer") SELECT "id", "customer"'
        ' FROM json_populate_recordset(NULL::"public"."t", CAST(:rows AS json)) RETURNING *'
    )


@pytest.mark.parametrize(
    ("differing", "why"),
    [
        (node("C", "code", 2, jsCode="return $('Begin').all(1);"), "first output"),
    ],
)  # fmt: skip
def test_what_is_another_way_than_in_n8n_is_said(differing: Any, why: str) -> None:
    workflow = imported(differing)

    assert workflow.report.status == "equal"
    assert why in workflow.report.nodes[-1].why
