"""Drafts over REST: kept byte for byte, saved by revision, published in one transaction."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from anabranch.drafts import draft_service
from tests.rest.conftest import Answered, Served
from tests.rest.drawing import echo

JSON = {"Content-Type": "application/json"}

# What plain parsing loses: how numbers are written, 64-bit integers, escapes, spaces, the order of keys like integers.
ODD = (
    '{ "title": "A\\u00e9",\n  "x-n": [9007199254740993, 18446744073709551615, 1.0, 1e3, -0, 1E+2],'
    ' "2": 1, "10": 2, "1": {},\t"nodes": "none yet" }'
)


async def begin(served: Served, document: Any, **fields: Any) -> dict[str, Any]:
    """Begin a draft; its summary."""
    answered = await served.ask("POST", "/v1/drafts", json={"document": document, **fields}, role="editor")
    assert answered.status == 201, answered.text
    assert answered.headers["ETag"] == '"1"'
    assert answered.headers["Location"] == f"/v1/drafts/{answered.json['draftID']}"
    made: dict[str, Any] = answered.json
    return made


async def put(served: Served, draft_id: str, document: Any, revision: int | str, **fields: Any) -> Answered:
    """Save a draft over a revision."""
    match = revision if isinstance(revision, str) else f'"{revision}"'
    return await served.ask(
        "PUT",
        f"/v1/drafts/{draft_id}",
        json={"document": document, **fields},
        role="editor",
        headers={"If-Match": match},
    )


async def test_a_draft_comes_back_byte_for_byte(served: Served):
    body = f'\ufeff {{ "document" : {ODD} , "workflow": null }}'.encode()
    made = await served.ask("POST", "/v1/drafts", data=body, headers=JSON, role="editor")
    assert made.status == 201, made.text
    read = await served.ask("GET", f"/v1/drafts/{made.json['draftID']}", role="viewer")
    assert f'"document":{ODD}}}' in read.text
    assert read.headers["ETag"] == '"1"'
    assert {name: value for name, value in read.json.items() if name != "document"} == made.json
    me = (await served.ask("GET", "/v1/me", role="editor")).json["keyID"]
    assert made.json == {
        "draftID": made.json["draftID"],
        "workflow": None,
        "baseVersion": None,
        "revision": 1,
        "title": "Aé",
        "createdAt": made.json["createdAt"],
        "updatedAt": made.json["createdAt"],
        "updatedBy": me,
    }
    other = ODD.replace("1.0", "1.00")
    headers = {**JSON, "If-Match": '"1"'}
    saved = await served.ask(
        "PUT", f"/v1/drafts/{made.json['draftID']}", data=f'{{"document":{other}}}'.encode(), headers=headers
    )
    assert (saved.status, saved.json["revision"], saved.headers["ETag"]) == (200, 2, '"2"')
    assert other in (await served.ask("GET", f"/v1/drafts/{made.json['draftID']}")).text


async def test_a_save_over_another_revision_is_refused_with_what_is_stored_now(served: Served):
    draft = await begin(served, {"title": "base"})
    first = await put(served, draft["draftID"], {"title": "first"}, 1)
    refused = await put(served, draft["draftID"], {"title": "second"}, 1)
    assert (refused.status, refused.code) == (412, "DRAFT_CONFLICT")
    assert refused.json["error"]["details"] == first.json
    assert (await served.ask("GET", f"/v1/drafts/{draft['draftID']}")).json["document"] == {"title": "first"}
    assert (await put(served, draft["draftID"], {"title": "merged"}, 2)).json["revision"] == 3
    assert (await put(served, draft["draftID"], {"title": "forced"}, "*")).json["revision"] == 4
    blind = await served.ask("PUT", f"/v1/drafts/{draft['draftID']}", json={"document": {}})
    assert (blind.status, blind.code) == (422, "INVALID_REQUEST")
    assert blind.json["error"]["details"][0]["pointer"] == "/If-Match"


async def test_a_save_whose_answer_was_lost_can_be_repeated(served: Served):
    draft = await begin(served, {"title": "base"})
    first = await put(served, draft["draftID"], {"title": "saved"}, 1)
    again = await put(served, draft["draftID"], {"title": "saved"}, 1)
    assert (again.status, again.json) == (200, first.json)


async def test_of_many_saves_over_one_revision_one_wins(served: Served):
    draft = await begin(served, {"title": "base"})
    answers = await asyncio.gather(
        *(put(served, draft["draftID"], {"title": f"by {number}"}, 1) for number in range(8))
    )
    assert sorted(answered.status for answered in answers) == [200] + [412] * 7
    winner = next(answered.json for answered in answers if answered.status == 200)
    assert (await served.ask("GET", f"/v1/drafts/{draft['draftID']}")).json["title"] == winner["title"]


async def test_a_workflow_has_one_draft(served: Served):
    saved = await served.save(echo("triage"))
    made = await begin(served, echo("triage"), workflow="triage")
    assert (made["workflow"], made["baseVersion"]) == (saved["workflowID"], 1)
    answers = await asyncio.gather(
        *(
            served.ask("POST", "/v1/drafts", json={"document": {}, "workflow": key}, role="editor")
            for key in ("triage", saved["workflowID"]) * 3
        )
    )
    for refused in answers:
        assert (refused.status, refused.code) == (409, "DRAFT_EXISTS")
        assert refused.json["error"]["details"] == {"draftID": made["draftID"]}
    assert (await served.ask("DELETE", f"/v1/drafts/{made['draftID']}", role="editor")).status == 204
    assert (await served.ask("GET", f"/v1/drafts/{made['draftID']}")).status == 404
    assert (await begin(served, {}, workflow="triage"))["draftID"] != made["draftID"]
    both = await asyncio.gather(
        *(served.ask("POST", "/v1/drafts", json={"document": {}, "workflow": "triage"}) for _ in range(4))
    )
    assert {answered.code for answered in both} == {"DRAFT_EXISTS"}


async def test_of_many_who_begin_the_draft_of_a_workflow_one_wins(served: Served):
    await served.save(echo("triage"))
    answers = await asyncio.gather(
        *(served.ask("POST", "/v1/drafts", json={"document": {}, "workflow": "triage"}) for _ in range(6))
    )
    assert sorted(answered.status for answered in answers) == [201] + [409] * 5
    made = next(answered.json["draftID"] for answered in answers if answered.status == 201)
    assert {answered.json["error"]["details"]["draftID"] for answered in answers if answered.status == 409} == {made}


async def test_a_draft_is_found_under_its_workflow(served: Served):
    await served.save(echo("triage"))
    absent = await served.ask("GET", "/v1/workflows/triage/draft")
    assert (absent.status, absent.code) == (404, "NOT_FOUND")
    assert (await served.ask("GET", "/v1/drafts?workflow=triage")).json["items"] == []
    assert (await served.ask("GET", "/v1/drafts?workflow=nobody")).code == "NOT_FOUND"
    made = await begin(served, {"title": "mine"}, workflow="triage")
    await begin(served, {"title": "another"})
    assert (await served.ask("GET", "/v1/drafts?workflow=triage")).json["items"] == [made]
    path = "/v1/workflows/triage/draft"
    assert (await served.ask("GET", path, role="viewer")).json == {**made, "document": {"title": "mine"}}
    saved = await served.ask("PUT", path, json={"document": echo("triage", title="Next")}, headers={"If-Match": '"1"'})
    assert saved.json["revision"] == 2
    assert (await served.ask("PUT", f"{path}/pins", json={})).status == 200
    assert (await served.ask("POST", f"{path}/publish")).json["version"] == 2
    assert (await served.ask("DELETE", path)).status == 204
    assert (await served.ask("GET", path)).status == 404


async def test_a_new_workflow_is_published_as_its_first_version_and_then_as_the_next(served: Served):
    await served.save(echo("triage"))
    draft = await begin(served, echo(None, title="Triage"))
    published = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", role="editor")
    assert published.status == 200, published.text
    assert (published.json["name"], published.json["version"], published.json["warnings"]) == ("triage-2", 1, [])
    moved = published.json["draft"]
    assert (moved["workflow"], moved["baseVersion"], moved["revision"]) == (published.json["workflowID"], 1, 1)
    document = (await served.ask("GET", "/v1/workflows/triage-2/document")).json
    assert document == {**echo(None, title="Triage"), "name": "triage-2"}
    assert (await put(served, draft["draftID"], echo(None, title="Changed"), 1)).json["revision"] == 2
    again = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", headers={"If-Match": '"2"'})
    assert (again.json["name"], again.json["version"], again.json["draft"]["baseVersion"]) == ("triage-2", 2, 2)
    same = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish")
    assert same.json["version"] == 2, "nothing has changed since"


async def test_fields_of_other_tools_are_published_byte_for_byte(served: Served):
    named = echo("triage")
    text = json.dumps(named)[:-1] + ', "x-n": [1.00,  18446744073709551615, "\\u00e9"]}'
    made = await served.ask("POST", "/v1/drafts", data=f'{{"document": {text}}}'.encode(), headers=JSON)
    assert (await served.ask("POST", f"/v1/drafts/{made.json['draftID']}/publish")).json["version"] == 1
    assert (await served.ask("GET", "/v1/workflows/triage/document")).text == text


SPELLED = """{ "title" : "Spelled",
  "nodes": [
    {"type":"start", "id":"start"},
    {"id": "keep" , "type": "set", "config": {"values": {"10": 1.50, "2": 1E2, "a": "\\u00e9"}}}
  ],
  "edges": [ {"upstreamNodeID":"start","downstreamNodeID":"keep"} ]
}"""


async def test_a_document_is_published_byte_for_byte(served: Served):
    made = await served.ask("POST", "/v1/drafts", data=f'{{"document": {SPELLED}}}'.encode(), headers=JSON)
    path = f"/v1/drafts/{made.json['draftID']}"
    assert (await served.ask("POST", f"{path}/publish")).json["version"] == 1
    published = (await served.ask("GET", "/v1/workflows/spelled/document")).text
    assert published == SPELLED.replace("} ]\n", '} ], "name": "spelled"\n')
    assert (await served.ended(await served.start("spelled")))["status"] == "COMPLETED"

    # With its name in it, it is the same text; another spelling alone makes no version.
    renamed = published.replace("Spelled", "Spelled anew")
    for text, revision in ((renamed, 1), (renamed.replace("1.50", "1.5"), 2)):
        body = f'{{"document": {text}}}'.encode()
        saved = await served.ask("PUT", path, data=body, headers={**JSON, "If-Match": f'"{revision}"'})
        assert saved.status == 200, saved.text
        assert (await served.ask("POST", f"{path}/publish")).json["version"] == 2
        assert (await served.ask("GET", "/v1/workflows/spelled/document")).text == renamed


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", None), ("workflowID", None), ("activate", True)],
)
async def test_what_the_server_sets_is_replaced_and_the_rest_published_as_it_is(served: Served, field: str, value: Any):
    text = SPELLED[:-2] + f', "{field}": {json.dumps(value)}\n}}'
    made = await served.ask("POST", "/v1/drafts", data=f'{{"document": {text}}}'.encode(), headers=JSON)
    published = await served.ask("POST", f"/v1/drafts/{made.json['draftID']}/publish")
    assert published.status == 200, published.text
    document = await served.ask("GET", f"/v1/workflows/{published.json['workflowID']}/document")
    assert document.json == {**json.loads(SPELLED), "name": published.json["name"]}
    assert document.text.count('"name"') == 1
    assert '{"10": 1.50, "2": 1E2, "a": "\\u00e9"}' in document.text


async def test_a_version_is_published_and_starts_go_on_taking_the_one_before(served: Served):
    await served.save(echo("steady"))
    draft = await begin(served, echo("steady", title="Next"), workflow="steady")
    published = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish?activate=false")
    assert (published.json["version"], published.json["activeVersion"]) == (2, 1)
    assert "activate" not in (await served.ask("GET", "/v1/workflows/steady/document")).json


async def test_a_draft_is_not_published_over_a_newer_version(served: Served):
    await served.save(echo("triage"))
    draft = await begin(served, echo("triage", title="Mine"), workflow="triage")
    await served.ask("PUT", "/v1/workflows/triage", json={"title": "Theirs"})
    refused = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", role="editor")
    assert (refused.status, refused.code) == (412, "VERSION_MISMATCH")
    assert (await served.ask("GET", "/v1/workflows/triage")).json["title"] == "Theirs"
    merged = await put(served, draft["draftID"], echo("triage", title="Both"), 1, baseVersion=2)
    assert (merged.json["revision"], merged.json["baseVersion"]) == (2, 2)
    published = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", role="editor")
    assert (published.status, published.json["version"]) == (200, 3)


async def test_only_what_was_seen_is_published(served: Served):
    draft = await begin(served, echo("triage"))
    await put(served, draft["draftID"], echo("triage", title="Later"), 1)
    refused = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", headers={"If-Match": '"1"'})
    assert (refused.status, refused.code) == (412, "DRAFT_CONFLICT")
    assert refused.json["error"]["details"]["revision"] == 2
    assert (await served.ask("GET", "/v1/workflows/triage")).status == 404


async def test_of_many_who_publish_at_once_one_makes_the_version_and_nobody_fails(served: Served):
    draft = await begin(served, echo("triage"))
    answers = await asyncio.gather(
        *(served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", role="editor") for _ in range(6))
    )
    assert {(answered.status, answered.json["version"]) for answered in answers} == {(200, 1)}
    assert len({answered.json["workflowID"] for answered in answers}) == 1


async def test_an_invalid_draft_is_kept_and_not_published(served: Served):
    draft = await begin(served, {"nodes": [], "edges": []})
    refused = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish", role="editor")
    assert (refused.status, refused.code) == (422, "INVALID_WORKFLOW")
    assert [problem["code"] for problem in refused.json["error"]["details"]] == ["NO_START"]
    assert (await served.ask("GET", f"/v1/drafts/{draft['draftID']}")).json["baseVersion"] is None
    other = await served.save(echo("other"))
    named = {**echo("mine"), "workflowID": other["workflowID"]}
    await served.save(echo("mine"))
    foreign = await begin(served, named, workflow="mine")
    refused = await served.ask("POST", f"/v1/drafts/{foreign['draftID']}/publish")
    assert (refused.status, refused.json["error"]["details"][0]["code"]) == (422, "DIFFERENT_WORKFLOW")


async def test_a_draft_outlives_its_workflow_and_is_not_published_then(served: Served):
    await served.save(echo("triage"))
    draft = await begin(served, echo("triage"), workflow="triage")
    await served.ask("DELETE", "/v1/workflows/triage")
    assert (await served.ask("GET", f"/v1/drafts/{draft['draftID']}")).status == 200
    refused = await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish")
    assert (refused.status, refused.code) == (404, "NOT_FOUND")


async def test_pins_are_beside_the_draft_and_in_no_version(served: Served):
    draft = await begin(served, echo("triage"))
    path = f"/v1/drafts/{draft['draftID']}/pins"
    empty = await served.ask("GET", path, role="viewer")
    assert (empty.json, empty.headers["ETag"]) == ({}, '"0"')
    text = '{"fetch": {"output": [1.0, 9007199254740993], "handle": "default"},  "ask": {"output": null}}'
    saved = await served.ask("PUT", path, data=text.encode(), headers={**JSON, "If-Match": '"0"'}, role="editor")
    assert (saved.status, saved.text, saved.headers["ETag"]) == (200, text, '"1"')
    assert (await served.ask("GET", path)).text == text
    refused = await served.ask("PUT", path, json={}, headers={"If-Match": '"0"'})
    assert (refused.status, refused.code) == (412, "DRAFT_CONFLICT")
    assert refused.json["error"]["details"]["pinsRevision"] == 1
    assert (await served.ask("GET", f"/v1/drafts/{draft['draftID']}")).json["revision"] == 1
    await served.ask("POST", f"/v1/drafts/{draft['draftID']}/publish")
    assert (await served.ask("GET", "/v1/workflows/triage/document")).json == echo("triage")


@pytest.mark.parametrize(
    ("pins", "pointer"),
    [
        ({"a": 1}, "/a"),
        ({"a": {}}, "/a"),
        ({"a/b": {"output": 1, "x": 1}}, "/a~1b/x"),
        ({"a": {"output": 1, "handle": 2}}, "/a/handle"),
    ],
)
async def test_what_is_no_pin_is_refused_with_its_place(served: Served, pins: Any, pointer: str):
    draft = await begin(served, {})
    refused = await served.ask("PUT", f"/v1/drafts/{draft['draftID']}/pins", json=pins)
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    assert [problem["pointer"] for problem in refused.json["error"]["details"]] == [pointer]


async def test_drafts_have_limits(served: Served, monkeypatch: pytest.MonkeyPatch):
    large = {"x": "x" * (4 * 1_048_576)}
    for path, body in (("/v1/drafts", {"document": large}),):
        refused = await served.ask("POST", path, json=body)
        assert (refused.status, refused.code) == (413, "TOO_LARGE")
    draft = await begin(served, {})
    refused = await put(served, draft["draftID"], large, 1)
    assert (refused.status, refused.code) == (413, "TOO_LARGE")
    refused = await served.ask("PUT", f"/v1/drafts/{draft['draftID']}/pins", json={"a": {"output": large["x"]}})
    assert (refused.status, refused.code) == (413, "TOO_LARGE")
    monkeypatch.setattr(draft_service, "DRAFTS_MAX", 2)
    await begin(served, {})
    refused = await served.ask("POST", "/v1/drafts", json={"document": {}})
    assert (refused.status, refused.code) == (409, "LIMIT_REACHED")


async def test_a_draft_of_code_or_of_nothing_is_refused(served: Served):
    refused = await served.ask("POST", "/v1/drafts", json={"document": {}, "workflow": "nothing"})
    assert (refused.status, refused.code) == (404, "NOT_FOUND")
    for body in ({}, {"document": []}, {"document": {}, "pins": {}}, {"document": {}, "baseVersion": 0}):
        refused = await served.ask("POST", "/v1/drafts", json=body)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), body


async def test_drafts_are_listed_without_their_documents_and_are_on_record(served: Served):
    made = [await begin(served, {"title": f"draft {number}"}) for number in range(3)]
    page = (await served.ask("GET", "/v1/drafts?limit=2", role="viewer")).json
    rest = (await served.ask("GET", "/v1/drafts", params={"cursor": page["nextCursor"]})).json
    assert [*page["items"], *rest["items"]] == sorted(made, key=lambda draft: draft["draftID"])
    await served.ask("DELETE", f"/v1/drafts/{made[0]['draftID']}")
    trail = (await served.ask("GET", "/v1/audit")).json["items"]
    assert [(row["action"], row["target"]) for row in trail[:2]] == [
        ("draft.deleted", made[0]["draftID"]),
        ("draft.created", made[2]["draftID"]),
    ]


async def test_the_text_of_a_draft_has_to_be_plain_json(served: Served):
    for text, code in (('{"a": 1, "a": 2}', "BAD_JSON"), ('{"a": 1e999}', "VALUE_NOT_STORABLE")):
        refused = await served.ask("POST", "/v1/drafts", data=f'{{"document": {text}}}'.encode(), headers=JSON)
        assert refused.code == code, json.loads(refused.text)
