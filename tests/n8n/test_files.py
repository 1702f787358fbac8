"""Files, which n8n calls binary data, go from requests to what reads and sends them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from email import message_from_bytes
from itertools import pairwise
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.testing import Answer, Signal, WorkflowRun, run_workflow
from anabranch.triggers.webhooks.webhook_requests import HookRequest, payload_of
from tests.n8n.drawn import Drawn, node, set_to
from tests.n8n.test_workflows_of_n8n import imported

PICTURE = bytes(range(256)) * 3
DOCS = "https://docs.n8n.io/data/binary-data/"
NAMED = [{"name": "a"}, {"name": "b"}]


def run_of(nodes: list[dict[str, Any]], items: Any, server: Any) -> WorkflowRun:
    """A run of these nodes, which are imported exactly."""
    made = imported(Drawn("files", DOCS, nodes, items, []).export())
    assert made.report.status == "exact", [(each.name, each.why) for each in made.report.nodes]
    return asyncio.run(run_workflow(made.document, {"n8nItems": items}, http=server))


def serving(request: Any) -> Answer:
    if request.method == "GET":
        kind = "text/html; charset=utf-8" if request.path == "/page" else "image/png"
        body = "<h1 id='x'>Zürich</h1>".encode() if request.path == "/page" else PICTURE
        return Answer(headers={"Content-Type": kind}, body=body)
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Answer({"size": len(request.body), "type": headers["content-type"]})


def download(name: str = "Get", **options: Any) -> dict[str, Any]:
    return node(name, "httpRequest", 4.2, url="=https://files.example/{{ $json.name }}.png", options=options)


def test_a_picture_of_each_item_is_uploaded_with_its_own_type() -> None:
    upload = node("Put", "httpRequest", 4.2, method="PUT", url="https://files.example/up", sendBody=True,
                  contentType="binaryData", inputDataFieldName="data", options={})  # fmt: skip
    kept = set_to("Kept", keeps=True, more="x")
    run = run_of([download(), node("Same", "noOp", 1), kept, upload], NAMED, serving)

    assert (run.output or {})["n8nItems"] == [{"size": 768, "type": "image/png"}] * 2
    assert [each.body for each in run.requests if each.method == "PUT"] == [PICTURE, PICTURE]


def test_code_renames_files_and_the_items_keep_their_fields() -> None:
    code = node("Code", "code", 2, jsCode="const binary = {};\n"
                "$input.all().forEach((item, n) => { binary[`f${n}`] = item.binary.data; });\n"
                "return [{json: {names: items.map(item => item.json.name), kind: binary.f1.mimeType,"
                " size: binary.f0.fileSize}, binary}];")  # fmt: skip
    read = set_to("Read", keeps=True, type="={{ $binary.f1.mimeType }}")
    upload = node("Put", "httpRequest", 4.2, method="POST", url="https://files.example/up", sendBody=True,
                  contentType="binaryData", inputDataFieldName="f1", sendHeaders=True,
                  headerParameters={"parameters": [{"name": "content-type", "value": "application/octet-stream"}]},
                  options={})  # fmt: skip
    shown = run_of([download(), code, read], NAMED, serving)
    sent = run_of([download(), code, upload], NAMED, serving)

    assert (shown.output or {})["n8nItems"] == [
        {"names": ["a", "b"], "kind": "image/png", "size": "768 B", "type": "image/png"}
    ]
    assert (sent.output or {})["n8nItems"] == [{"size": 768, "type": "application/octet-stream"}]


def uploaded(run: WorkflowRun) -> list[tuple[str | None, str | None, str, bytes]]:
    """The parts of the form that was sent: name, name of the file, type, content."""
    sent = run.requests[-1]
    kind = next(value for name, value in sent.headers.items() if name.lower() == "content-type")
    form = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + sent.body)
    return [(str(each.get_param("name", header="content-disposition")), each.get_filename(), each.get_content_type(),
             each.get_payload(decode=True)) for each in form.get_payload()]  # fmt: skip


def test_a_form_has_texts_and_files_with_their_names() -> None:
    parts = [{"name": "title", "value": "={{ $json.name }}"},
             {"name": "photo[]", "parameterType": "formBinaryData", "inputDataFieldName": "=data"},
             {"name": "none", "parameterType": "formBinaryData"}]  # fmt: skip
    upload = node("Put", "httpRequest", 4.2, method="POST", url="https://files.example/up", sendBody=True, options={},
                  contentType="multipart-form-data", bodyParameters={"parameters": parts})  # fmt: skip
    assert uploaded(run_of([download(), upload], NAMED[:1], serving)) == [
        ("title", None, "text/plain", b"a"), ("photo[]", "a.png", "image/png", PICTURE)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "fields"), [("=data", ["file"]), ("one:data, two:data", ["one", "two"]), ("one:data", ["one"])]
)
def test_an_older_request_sends_files_by_fields(written: str, fields: list[str]) -> None:
    upload = node("Put", "httpRequest", 1, requestMethod="POST", url="https://files.example/up", jsonParameters=True,
                  options={"bodyContentType": "multipart-form-data"}, sendBinaryData=True,
                  binaryPropertyName=written)  # fmt: skip
    run = run_of([download(), upload], NAMED[:1], serving)
    assert uploaded(run) == [(field, "a.png", "image/png", PICTURE) for field in fields]


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("img/logo.png?x=1", {}, {"fileName": "logo.png", "fileExtension": "png"}),
        ("cd/file", {"Content-Disposition": 'attachment; filename="rep ort.pdf"'},
         {"fileName": "rep ort.pdf", "fileExtension": "pdf"}),
        ("star/7", {"Content-Disposition": "inline; filename=a.jpg; filename*=UTF-8''na%C3%AFve.jpg"},
         {"fileName": "naïve.jpg", "fileExtension": "jpg"}),
        ("pic/raw", {}, {"fileName": "raw", "fileExtension": "png"}),
        ("picname/na%20me.JPG", {}, {"fileName": "na%20me.JPG", "fileExtension": "JPG"}),
        ("", {}, {"fileName": "data.png", "fileExtension": "png"}),
    ],
)  # fmt: skip
def test_a_file_has_the_name_that_n8n_gives_it(path: str, headers: dict[str, str], name: dict[str, str]) -> None:
    # https://docs.n8n.io/data/binary-data/; the names are those of n8n 1.123.81
    get = node("Get", "httpRequest", 4.2, url=f"https://files.example/{path}", options={})
    read = set_to("Read", fileName="={{ $binary.data.fileName }}", fileExtension="={{ $binary.data.fileExtension }}")

    def picture(request: Any) -> Answer:
        return Answer(headers={"Content-Type": "image/png", **headers}, body=PICTURE)

    assert (run_of([get, read], [{}], picture).output or {})["n8nItems"] == [name]


def test_html_is_read_from_a_file() -> None:
    page = node("Get", "httpRequest", 4.2, url="https://files.example/page",
                options={"response": {"response": {"responseFormat": "file"}}})  # fmt: skip
    read = node("Html", "htmlExtract", 1, sourceData="binary", options={},
                extractionValues={"values": [{"key": "title", "cssSelector": "#x"}]})  # fmt: skip

    assert (run_of([page, read], [{}], serving).output or {})["n8nItems"] == [{"title": "Zürich"}]


def test_a_webhook_is_answered_with_the_file() -> None:
    answer = node("Answer", "respondToWebhook", 1.1, respondWith="binary", options={})
    made = imported(Drawn("files", DOCS, [download(), answer], NAMED, []).export())
    respond = next(each for each in made.document["nodes"] if each["type"] == "respond")
    run = asyncio.run(run_workflow(made.document, {"n8nItems": NAMED}, http=serving))

    assert made.report.status == "exact"
    assert (run.status, run.error) == ("COMPLETED", None)
    assert set(respond["config"]) == {"base64", "headers"}


def test_a_file_that_nothing_brings_is_no_exact_body() -> None:
    upload = node("Put", "httpRequest", 4.2, method="POST", url="https://files.example/up", sendBody=True,
                  contentType="binaryData", inputDataFieldName="data", options={})  # fmt: skip
    made = imported(Drawn("files", DOCS, [upload], NAMED, []).export())

    assert [each.status for each in made.report.nodes] == ["exact", "placeholder"]


def part(head: str, content: bytes) -> bytes:
    return f"--b9\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + content + b"\r\n"


PARTS = (part('name="t"', b"x") + part('name="f"; filename="../a b.png"\r\nContent-Type: image/png', b"PNG")
         + part('name="g[]"; filename="1.txt"\r\nContent-Type: text/plain', b"1")
         + part('name="g[]"; filename="2.txt"\r\nContent-Type: text/plain', b"2")
         + part('name="no"; filename="z.bin"', b"zz") + b"--b9--\r\n")  # fmt: skip
SENT = {"mimeType": "image/png", "fileType": "image", "fileExtension": "png", "data": "UE5H", "fileName": "a b.png",
        "fileSize": "3 B"}  # fmt: skip


def text_file(data: str, name: str) -> dict[str, Any]:
    return {"mimeType": "text/plain", "fileType": "text", "fileExtension": "txt", "data": data, "fileName": name,
            "fileSize": "1 B"}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "options", "kind", "sent", "body", "binary"),
    [
        (2, {}, "multipart/form-data; boundary=b9", PARTS, {"t": "x", "no": "zz"},
         {"f": SENT, "g0": text_file("MQ==", "1.txt"), "g1": text_file("Mg==", "2.txt")}),
        (2, {"binaryPropertyName": "file"}, "multipart/form-data; boundary=b9", PARTS, {"t": "x", "no": "zz"},
         {"file0": SENT, "file1": text_file("MQ==", "1.txt"), "file2": text_file("Mg==", "2.txt")}),
        (2, {}, "image/png", b"PNG", {}, {"data": {**SENT, "fileName": "q.png"}}),
        (1, {}, "image/png", b"PNG", None, None),
        (2, {}, "text/plain", b"hi", "hi", None),
        (2, {}, "application/json; charset=utf-8", b'{"a": 1}', {"a": 1}, None),
        (2, {}, "", b"", {}, None),
        (1, {"rawBody": True}, "application/json", b'{"a":1}', {"a": 1},
         {"data": {"data": "eyJhIjoxfQ==", "mimeType": "application/json"}}),
        (2, {"rawBody": True}, "audio/mpeg", b"mp", None, {"data": {"data": "bXA=", "mimeType": "audio/mpeg"}}),
        (1, {"binaryData": True}, "image/png", b"PNG", {}, {"data": {**SENT, "fileName": "q.png"}}),
    ],
)  # fmt: skip
def test_a_webhook_gives_the_files_that_n8n_makes_of_a_request(
    version: float, options: Any, kind: str, sent: bytes, body: Any, binary: Any
) -> None:
    # What n8n 1.123.81 gives, asked with the same requests.
    hook = node("Hook", "webhook", version, path="up", httpMethod="POST", responseMode="lastNode", options=options)
    look = node("Look", "code", 2, jsCode="return items.map(item => ({body: item.json.body ?? null,"
                " binary: item.binary ?? null, last: Object.keys(item.json).slice(-2)}));")  # fmt: skip
    tell = node("Tell", "httpRequest", 4.2, method="POST", url="https://a.example/", sendBody=True, options={},
                specifyBody="json", jsonBody="={{ $json }}")  # fmt: skip
    positioned = [{"position": [0, 0], **each} for each in (hook, look, tell)]
    links = {one: {"main": [[{"node": to, "type": "main", "index": 0}]]}
             for one, to in (("Hook", "Look"), ("Look", "Tell"))}  # fmt: skip
    [export] = read_exports({"name": "Up", "nodes": positioned, "connections": links})
    made = import_workflow(export, builtin_types())
    assert made.report.status == "exact", [(each.name, each.why) for each in made.report.nodes]
    headers = {"content-disposition": ['attachment; filename="q.png"'], **({"content-type": [kind]} if kind else {})}
    request = payload_of(HookRequest("POST", "default", "up", headers, []), sent)
    run = asyncio.run(run_workflow(made.document, request, http=lambda asked: Answer({})))
    last = ["webhookUrl", "executionMode"]
    assert [json.loads(each.body) for each in run.requests] == [{"body": body, "binary": binary, "last": last}]


XML = ("<Order ID='7'><Item>  one \n  two </Item><item/><Item q=\"1\">x&amp;y</Item><note><![CDATA[ <b> ]]></note>"
       "</Order> more")  # fmt: skip
READ_XML = {"order": {"$": {"ID": "7"}, "item": ["one two", "", {"_": "x&y", "$": {"q": "1"}}], "note": "<b>"}}
NAMES = b"<Constructor constructor='1'><prototype/></Constructor>"
SAFE = {"sanitized_constructor": {"$": {"sanitized_constructor": "1"}, "sanitized_prototype": ""}}


@pytest.mark.parametrize(
    ("version", "kind", "sent", "body", "reads_files"),
    [
        (2, "application/xml", XML.encode(), READ_XML, False),
        (1, "Text/XML; charset=UTF-8", XML.encode(), READ_XML, True),
        (2, "application/atom+xml", NAMES, SAFE, False),
        (2, "text/xml; charset=latin1", "<a>Zürich &eacute;</a>".encode("latin-1"), {"a": "Zürich é"}, False),
        (2, "text/plain; charset=latin1", "Zürich".encode("latin-1"), "Zürich", False),
        (2, "text/xml", b"", {}, False),
        (1, "text/xml", b"", None, False),
        (2, "application/ld+json", b'{"a": 1}', {}, False),
        (2, "application/ld+json", b'{"a": 1}', {}, True),
    ],
)
def test_a_webhook_reads_xml_and_texts_as_n8n_does(
    version: float, kind: str, sent: bytes, body: Any, reads_files: bool
) -> None:
    # What the parser of n8n 1.123.81 gives.
    parameters = {"method": "POST", "url": "https://a.example/", "sendBody": True, "specifyBody": "json"}
    tell = node("Tell", "httpRequest", 4.2, options={}, jsonBody="={{ [$json.body] }}", **parameters)
    files = [node("Hash", "crypto", 1, binaryData=True)] if reads_files else []
    hook = node("Hook", "webhook", version, path="up", httpMethod="POST", options={})
    links = {"Hook": {"main": [[{"node": "Tell", "type": "main", "index": 0}]]}}
    positioned = [{"position": [0, 0], **each} for each in (hook, tell, *files)]
    [export] = read_exports({"name": "Up", "nodes": positioned, "connections": links})
    made = import_workflow(export, builtin_types())
    assert made.errors == ()
    request = payload_of(HookRequest("POST", "default", "up", {"content-type": [kind]}, []), sent)
    run = asyncio.run(run_workflow(made.document, request, http=lambda asked: Answer({})))
    assert (run.error, [json.loads(each.body) for each in run.requests]) == (None, [[body]])


def awaited(*more: dict[str, Any], read: str = "={{ $execution.resumeUrl }}?a=1") -> Any:
    """A workflow that sends the address of a node that waits, and what the request to it had."""
    send = node("Send", "httpRequest", 4.2, url="https://a.example/", options={}, **BY_JSON, jsonBody=f'="{read[1:]}"')
    wait = node("Wait", "wait", 1.1, resume="webhook", httpMethod="POST", options={})
    tell = node(
        "Tell",
        "httpRequest",
        4.2,
        url="https://a.example/",
        options={},
        **BY_JSON,
        jsonBody="={{ [$json.body, $json.params, $json.query.q, $json.headers['x-a'], $json.executionMode] }}",
    )
    nodes = [node("Start", "manualTrigger", 1), send, wait, *more, tell]
    links = {one["name"]: {"main": [[{"node": to["name"], "type": "main", "index": 0}]]} for one, to in pairwise(nodes)}
    [export] = read_exports({"name": "Up", "nodes": [{"position": [0, 0], **each} for each in nodes],
                             "connections": links})  # fmt: skip
    return import_workflow(export, builtin_types())


BY_JSON = {"method": "POST", "sendBody": True, "specifyBody": "json"}


@pytest.mark.parametrize(
    ("kind", "sent", "body"),
    [("application/json", b'{"a": 1}', {"a": 1}), ("text/xml", XML.encode(), READ_XML), ("", b"", {})],
)
def test_what_waits_for_a_request_hands_on_the_item_that_a_webhook_gives(kind: str, sent: bytes, body: Any) -> None:
    made = awaited()
    assert made.errors == ()
    document = made.document
    [wait] = [each for each in document["nodes"] if each["type"] == "waitForWebhook"]
    wait |= {"type": "waitForEvent", "config": {"event": "called"}}
    [send] = [each for each in document["nodes"] if each["type"] == "httpRequest" and each["name"] == "Send"]
    assert send["config"]["body"] == '"{{ctx.callbacks.wait | otherwise(none) | js_text}}?a=1"'
    send["config"]["body"] = '"address"'
    headers = {"x-a": ["b"], **({"content-type": [kind]} if kind else {})}
    request = payload_of(HookRequest("POST", "default", "up", headers, [("q", "7")], "https://x.example/up"), sent)
    run = asyncio.run(run_workflow(document, {}, http=lambda asked: Answer({}), signals=[Signal("called", request)]))

    assert (run.error, [json.loads(each.body) for each in run.requests]) == (
        None,
        ["address", [body, {}, "7", "b", "production"]],
    )


@pytest.mark.parametrize(
    "made",
    [lambda: awaited(node("Other", "wait", 1.1, resume="webhook", httpMethod="POST", options={})),
     lambda: awaited(read="={{ $execution.resumeUrl.match(/a/) }}"),
     lambda: awaited(read="={{ $execution.resumeUrl.split('/')[0] }}"),
     lambda: awaited(read="={{ $execution.resumeUrl.length }}"),
     lambda: awaited(read="={{ (({resumeUrl}) => resumeUrl)($execution) }}"),
     lambda: awaited(read="={{ $execution.customData.get('a') }}")],
)  # fmt: skip
def test_an_address_of_a_run_that_is_not_known_is_not_imported(made: Any) -> None:
    [send] = [each for each in made().report.nodes if each.name == "Send"]
    assert send.status == "placeholder"


def test_a_request_that_a_person_writes_needs_no_body_beside_its_json() -> None:
    hook = node("Hook", "webhook", 2, path="up", httpMethod="POST", options={})
    links = {"Hook": {"main": [[{"node": "Look", "type": "main", "index": 0}]]}}
    nodes = [{"position": [0, 0], **each} for each in (hook, set_to("Look", a="={{ $json.body.a }}"))]
    [export] = read_exports({"name": "Up", "nodes": nodes, "connections": links})
    request = {"headers": {}, "query": {}, "json": {"a": 1}}
    run = asyncio.run(run_workflow(import_workflow(export, builtin_types()).document, request))
    assert (run.status, run.completed) == ("COMPLETED", ["hook", "hook_format", "hook_request", "look"])


def test_xml_that_is_not_well_formed_fails_before_anything_is_done() -> None:
    hook = node("Hook", "webhook", 2, path="up", httpMethod="POST", options={})
    tell = node("Tell", "httpRequest", 4.2, url="https://a.example/", options={})
    links = {"Hook": {"main": [[{"node": "Tell", "type": "main", "index": 0}]]}}
    [export] = read_exports({"name": "Up", "nodes": [{"position": [0, 0], **each} for each in (hook, tell)],
                             "connections": links})  # fmt: skip
    made = import_workflow(export, builtin_types())
    request = payload_of(HookRequest("POST", "default", "up", {"content-type": ["text/xml"]}, []), b"<a><b></a>")
    run = asyncio.run(run_workflow(made.document, request, http=lambda asked: Answer({})))
    assert (run.status, run.requests) == ("FAILED", [])
    assert run.error and run.error["nodeID"] == "hook_body"


def test_a_file_is_hashed_and_goes_no_further() -> None:
    crypto = node("Hash", "crypto", 1, action="hash", type="SHA256", binaryData=True, dataPropertyName="sum")
    [item] = (run_of([download(), crypto], NAMED[:1], serving).output or {})["n8nItems"]
    assert item == {"name": "a", "sum": hashlib.sha256(PICTURE).hexdigest()}


@pytest.mark.parametrize(
    "parameters", [{"binaryData": True, "binaryPropertyName": "other"}, {"value": "={{ $json.no }}"}]
)
def test_what_is_hashed_has_to_be_there(parameters: Any) -> None:
    # n8n 1.123.81 fails, too.
    run = run_of([download(), node("Hash", "crypto", 1, action="hash", type="SHA256", **parameters)], NAMED, serving)
    assert (run.status, run.error and run.error["nodeID"]) == ("FAILED", "hash_value")


def code_of(name: str, source: str) -> dict[str, Any]:
    return node(name, "code", 2, jsCode=source)


def test_files_of_two_branches_are_put_into_one_item_and_sent() -> None:
    # What n8n 1.123.81 gives.
    renamed = (
        "return items.map((item, index) => ({json: item.json, binary: {[`photo${index + %d}`]: item.binary.data}}));"
    )
    merged = ("const merged = {json: {}, binary: {}};\nfor (const item of items) for (const [key, file] of"
              " Object.entries(item.binary || {})) merged.binary[key] = file;\nreturn [merged];")  # fmt: skip
    parts = [{"name": "photos[]", "parameterType": "formBinaryData", "inputDataFieldName": f"photo{n}"} for n in (1, 2)]
    upload = node("Put", "httpRequest", 4.2, method="POST", url="https://files.example/up", sendBody=True, options={},
                  contentType="multipart-form-data", bodyParameters={"parameters": parts})  # fmt: skip
    nodes = [download("One"), download("Two"), code_of("First", renamed % 1), code_of("Second", renamed % 2),
             node("Merge", "merge", 3), code_of("All", merged), upload]  # fmt: skip
    links = [("Begin", 0, "One", 0), ("Begin", 0, "Two", 0), ("One", 0, "First", 0), ("Two", 0, "Second", 0),
             ("First", 0, "Merge", 0), ("Second", 0, "Merge", 1), ("Merge", 0, "All", 0),
             ("All", 0, "Put", 0)]  # fmt: skip
    made = imported(Drawn("files", DOCS, nodes, NAMED[:1], [], links).export())
    assert made.report.status == "exact", [(each.name, each.why) for each in made.report.nodes]
    run = asyncio.run(run_workflow(made.document, {"n8nItems": NAMED[:1]}, http=serving))
    assert uploaded(run) == [("photos[]", "a.png", "image/png", PICTURE)] * 2


def test_code_finds_files_of_its_items_and_of_other_nodes_and_makes_some() -> None:
    # What n8n 1.123.81 gives.
    seen = code_of("See", "const bytes = await this.helpers.getBinaryDataBuffer(0, 'data');\n"
                   "return [{json: {size: bytes.length, names: Object.keys($binary), has: !!$binary,"
                   " keys: Object.keys($input.first()), first: $input.first().binary.data.fileName}}];")  # fmt: skip
    again = code_of("Again", "const before = 'Get';\nconst one = $(before).item;\nfor (const item of $input.all()) {\n"
                    "  item.binary = item.binary || {};\n  for (const key in one.binary) {\n"
                    "    const bytes = Buffer.from(one.binary[key].data, 'base64');\n"
                    "    item.binary[key] = await this.helpers.prepareBinaryData(bytes, one.binary[key].fileName);\n"
                    "  }\n}\nreturn $input.all();")  # fmt: skip
    table = code_of("Table", "const report = await this.helpers.prepareBinaryData(Buffer.from('a,b'), 'x/r.csv');\n"
                    "return [{json: {files: $input.first().binary.data}, binary: {report}}];")  # fmt: skip
    read = set_to("Read", keeps=True, named="={{ $binary.report.fileName }}", type="={{ $binary.report.mimeType }}")
    looked = run_of([download(), seen], NAMED[:1], serving)
    run = run_of([download(), set_to("Less", x="y"), again, table, read], NAMED[:1], serving)

    assert (looked.output or {})["n8nItems"] == [
        {"size": 768, "names": ["data"], "has": True, "keys": ["json", "binary", "pairedItem"], "first": "a.png"}
    ]
    [item] = (run.output or {})["n8nItems"]
    assert (item["named"], item["type"]) == ("r.csv", "text/csv")
    assert {name: item["files"][name] for name in ("fileName", "mimeType", "fileSize", "fileExtension")} == {
        "fileName": "a.png", "mimeType": "image/png", "fileSize": "768 B", "fileExtension": "png"
    }  # fmt: skip


def test_code_that_hands_items_on_hands_their_files_on() -> None:
    passes = code_of("Pass", "return $input.all();")
    drops = code_of("Drop", "return items.map(each => ({json: {a: 1}}));")
    look = code_of("Look", "return items.map(each => ({json: {files: Object.keys(each.binary ?? {})}}));")
    assert (run_of([download(), passes, look], NAMED, serving).output or {})["n8nItems"] == [{"files": ["data"]}] * 2
    assert (run_of([download(), drops, look], NAMED, serving).output or {})["n8nItems"] == [{"files": []}] * 2


@pytest.mark.parametrize(
    "source", ["return $binary", "return (await this.helpers.getBinaryDataBuffer(0, 'data')).length"]
)
def test_code_for_each_item_that_reads_files_is_not_imported(source: str) -> None:
    code = node("Each", "code", 2, mode="runOnceForEachItem", jsCode=f"{source};")
    made = imported(Drawn("files", DOCS, [download(), code], NAMED, []).export())
    assert [each.status for each in made.report.nodes] == ["exact", "exact", "placeholder"]
