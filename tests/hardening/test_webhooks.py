"""Attacks on webhooks, on a real server: forged and replayed signatures, guessed paths, split responses. None gets
through. And a server that is killed between the run and the answer.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import signal
import time
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.hardening.command_line import Command, Launched
from tests.hardening.conftest import Launch

KEY = "a key for this test alone"
SECRET = "correct horse battery staple"
STANDARD_SECRET = "whsec_" + base64.b64encode(SECRET.encode()).decode()
BODY = b'{"id": 1}'

END = {"id": "end", "type": "end"}
SAY = {
    "id": "say",
    "type": "respond",
    "config": {"status": 200, "headers": {"X-Said": "{{ctx.input.json.said}}"}, "body": "{{ctx.input.json.body}}"},
}
WAIT = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}


def hooked(name: str, *nodes: dict[str, Any], **config: Any) -> dict[str, Any]:
    row = [{"id": "hook", "type": "webhook", "config": {"path": name, **config}}, *nodes, END]
    edges = [{"upstreamNodeID": a["id"], "downstreamNodeID": b["id"]} for a, b in pairwise(row)]
    return {"name": name, "nodes": row, "edges": edges}


def signed_by(scheme: str) -> dict[str, Any]:
    return {"kind": "hmac", "scheme": scheme, "secret": scheme.upper()}


SCHEMES = ("github", "stripe", "slack", "standard")

WORKFLOWS = [
    *(hooked(scheme, auth=signed_by(scheme), rateLimit=100_000) for scheme in SCHEMES),
    hooked("header", auth={"kind": "header", "name": "X-Token", "secret": "GITHUB"}),
    hooked("says", SAY, respond="respondNode"),
    hooked("kept", WAIT, SAY, respond="respondNode", timeout="60s", idempotency={"header": "X-Id"}),
]


class Server:
    """A running `anabranch dev`."""

    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        self.port = urlsplit(launched.saw("http://").split()[-1]).port

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: list[tuple[str, str]] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = self.send(method, path, body, headers or [])
        try:
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def announce(self, path: str, length: int, begun: bytes = b"x") -> int:
        """The status of the answer to a POST whose body does not come beyond its beginning."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", str(length))
        connection.endheaders(begun)
        status = connection.getresponse().status
        connection.close()
        return status

    def send(self, method: str, path: str, body: bytes, headers: list[tuple[str, str]]) -> HTTPConnection:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection

    def rest(self, method: str, path: str, document: Any = None) -> Any:
        headers = [("Authorization", f"Bearer {KEY}"), ("Content-Type", "application/json")]
        status, _, body = self.ask(method, path, b"" if document is None else json.dumps(document).encode(), headers)
        assert status < 300, body
        return json.loads(body) if body else None

    def runs(self, workflow: str) -> list[Any]:
        found: list[Any] = self.rest("GET", f"/v1/workflows/{workflow}/runs")["items"]
        return found


@pytest.fixture
def server(folder: Path, launch: Launch, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with webhooks and their secrets."""
    monkeypatch.setenv("ANABRANCH_API_KEY", KEY.replace(" ", "-"))
    monkeypatch.setattr("tests.hardening.test_webhooks.KEY", KEY.replace(" ", "-"))
    server = Server(launch("dev", "--port", "0", "--no-open"))
    for workflow in WORKFLOWS:
        server.rest("POST", "/v1/workflows", workflow)
    for name in ("GITHUB", "STRIPE", "SLACK", "STANDARD"):
        server.rest("POST", "/v1/secrets", {"name": name, "value": STANDARD_SECRET if name == "STANDARD" else SECRET})
    return server


def mac_of(text: bytes, key: str = SECRET) -> bytes:
    return hmac.digest(key.encode(), text, hashlib.sha256)


def right(scheme: str, body: bytes = BODY, *, now: float | None = None, key: str = SECRET) -> dict[str, str]:
    """The headers of a right signature."""
    stamp = str(int(time.time() if now is None else now))
    if scheme == "github":
        return {"X-Hub-Signature-256": f"sha256={mac_of(body, key).hex()}"}
    if scheme == "stripe":
        return {"Stripe-Signature": f"t={stamp},v1={mac_of(f'{stamp}.'.encode() + body, key).hex()}"}
    if scheme == "slack":
        mac = mac_of(f"v0:{stamp}:".encode() + body, key).hex()
        return {"X-Slack-Signature": f"v0={mac}", "X-Slack-Request-Timestamp": stamp}
    mac = base64.b64encode(mac_of(f"msg_1.{stamp}.".encode() + body, key)).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": f"v1,{mac}"}


def forgeries(scheme: str) -> list[tuple[bytes, list[tuple[str, str]]]]:
    """Requests that nobody with the secret has sent: bodies and headers."""
    now = time.time()
    good = right(scheme, now=now)
    found = [
        (BODY, {}),
        (BODY + b" ", good),
        (b"", good),
        (BODY, right(scheme, b"")),
        (BODY, right(scheme, key="")),
        (BODY, right(scheme, key="wrong")),
        (BODY, dict.fromkeys(good, "")),
        (
            BODY,
            {
                name: value.replace("sha256=", "sha1=").replace("v1", "v9").replace("v0=", "v9=")
                for name, value in good.items()
            },
        ),
        (BODY, {name: value[:-2] for name, value in good.items()}),
        (BODY, dict.fromkeys(good, "*")),
        (
            BODY,
            {**good, "Authorization": f"Bearer {SECRET}"}
            if scheme == "none"
            else {"Authorization": f"Bearer {SECRET}"},
        ),
    ]
    if scheme != "github":
        found += [
            (BODY, right(scheme, now=now - 3_600)),
            (BODY, right(scheme, now=now + 3_600)),
            (
                BODY,
                {
                    name: value.replace(str(int(now)), str(int(now) - 1))
                    for name, value in right(scheme, now=now).items()
                },
            ),
        ]
    requests = [(body, list(headers.items())) for body, headers in found]
    requests.append((BODY, [*good.items(), *right(scheme, key="wrong").items()]))  # each header twice
    requests.append((BODY, [*right(scheme, key="wrong").items(), *good.items()]))
    return requests


@pytest.mark.timeout(240)
def test_no_attack_gets_through(server: Server) -> None:
    through = []
    for scheme in SCHEMES:
        for number, (body, headers) in enumerate(forgeries(scheme)):
            status, _, _ = server.ask("POST", f"/hooks/default/{scheme}", body, headers)
            through += [] if status == 404 else [(scheme, number, status)]
        assert server.runs(scheme) == [], scheme
        sent = right(scheme)
        first = server.ask("POST", f"/hooks/default/{scheme}", BODY, list(sent.items()))
        assert first[0] == 202
        for number in range(10):  # a copy, with whatever is not signed changed
            more = [*sent.items(), ("X-GitHub-Delivery", str(number)), ("Content-Type", f"text/x{number}")]
            status, _, _ = server.ask("POST", f"/hooks/default/{scheme}?n={number}", BODY, more)
            through += [] if status == 200 else [(scheme, "replay", status)]
        assert len(server.runs(scheme)) == 1, scheme
    assert through == []

    told = set()
    for path in (
        "github",
        "header",
        "nothing",
        "github/",
        "GITHUB",
        "github%00",
        "..%2fgithub",
        "%2e%2e/x",
        "a" * 3_000,
    ):
        for tenant in ("default", "nobody", "%00"):
            for headers in ([], [("X-Token", "guess")], [("Authorization", "Basic eDp5")]):
                status, fields, body = server.ask("POST", f"/hooks/{tenant}/{path}", BODY, headers)
                told.add((status, body, *sorted(set(fields) - {"date"})))
    assert len(told) == 1, told

    split = []
    breaks = ("\r\n", "\n", "\r", "\0", "\u560a", "\u2028", "\x85", "%0d%0a", "\r\n\r\nHTTP/1.1 200 OK\r\n")
    for text in breaks:
        said = json.dumps({"said": f"a{text}X-Split: yes", "body": f"{text}X-Split: yes"}).encode()
        json_type = [("Content-Type", "application/json")]
        _, fields, _ = server.ask("POST", "/hooks/default/says", said, json_type)
        split += [text] if "x-split" in fields or "set-cookie" in fields else []
    assert split == []
    status, fields, body = server.ask("POST", "/hooks/default/says", b'{"said": "x", "body": "<script>"}', json_type)
    assert (status, body, fields["x-content-type-options"]) == (200, b"<script>", "nosniff")
    assert fields["content-security-policy"].startswith("sandbox")
    test_address = attack_a_test_address(server)
    attack_a_one_time_address(server, test_address)
    attack_the_lists(server)


def attack_a_test_address(server: Server) -> str:
    """Guesses, split responses, wrong bodies, and a hundred callers at once. Returns the address."""
    document = hooked("tested", SAY, respond="respondNode", bodyLimit=200)
    hook = f"/v1/drafts/{server.rest('POST', '/v1/drafts', {'document': document})['draftID']}/test-hooks/hook"
    address = urlsplit(server.rest("GET", hook)["url"]).path
    token = address.rpartition("/")[2]
    json_type = [("Content-Type", "application/json")]

    guesses = ("x", token[:-1], token + "A", token.swapcase(), "A" * len(token), "%00", "..%2f" + token, "a" * 3_000)
    told = {server.ask("POST", f"/test-hooks/{guess}", BODY)[::2] for guess in guesses}
    assert len(told) == 1, told
    assert server.ask("POST", address, BODY)[0] == 409

    server.rest("POST", f"{hook}/listen")
    wrong = (
        (b"{", json_type, 400),
        (b"x" * 201, [], 413),
        (b"x", [("Content-Encoding", "gzip")], 415),
        (b'{"a": 1, "a": 2}', json_type, 400),
    )
    for body, headers, status in wrong:
        assert server.ask("POST", address, body, headers)[0] == status, body
    for method in ("GET", "OPTIONS", "DELETE", "TRACE"):
        assert server.ask(method, address)[0] in (404, 405), method
    for text in ("\r\n", "\u560a", "\n"):
        said = json.dumps({"said": f"a{text}X-Split: yes", "body": "x"}).encode()
        _, fields, _ = server.ask("POST", address, said, json_type)
        assert "x-split" not in fields, text
        server.rest("POST", f"{hook}/listen")

    bodies = [json.dumps({"said": "a", "body": f"{number}"}).encode() for number in range(100)]
    calls = [server.send("POST", address, body, json_type) for body in bodies]
    answers = [(answer.status, answer.read()) for answer in (call.getresponse() for call in calls)]
    for call in calls:
        call.close()
    assert sorted(status for status, _ in answers) == [200] + [409] * 99
    return address


def attack_a_one_time_address(server: Server, test_address: str) -> None:
    """Guesses, tokens of other addresses, bodies that are only announced, and answers that contradict each other."""
    ask = {"id": "ask", "type": "waitForWebhook", "config": {"timeout": "1h"}}
    edges = [{"upstreamNodeID": "start", "downstreamNodeID": "ask"}]
    server.rest(
        "POST", "/v1/workflows", {"name": "asks", "nodes": [{"id": "start", "type": "start"}, ask], "edges": edges}
    )
    run = server.rest("POST", "/v1/workflows/asks/runs", {})["instanceID"]
    while (shown := server.rest("GET", f"/v1/runs/{run}"))["status"] != "WAITING":
        time.sleep(0.01)  # the test's time limit bounds it
    address = urlsplit(next(node["waitsFor"]["url"] for node in shown["nodes"] if node["waitsFor"])).path
    token, other = address.rpartition("/")[2], test_address.rpartition("/")[2]

    guesses = (
        "x",
        token[:-1],
        token + "A",
        token.swapcase(),
        other,
        "A" * len(token),
        "%00",
        "..%2f" + token,
        "a" * 3_000,
    )
    told = {server.ask("POST", f"/callbacks/{guess}", BODY)[::2] for guess in guesses}
    assert len(told) == 1, told
    assert server.ask("POST", f"/test-hooks/{token}", BODY)[0] == 404
    for path in ("/callbacks/x", f"/callbacks/{other}", "/test-hooks/x"):
        assert server.announce(path, 16_000_000) == 404, path
    assert server.announce(address, 16_000_000, b"x" * 1_048_577) == 413

    for method in ("GET", "HEAD"):
        for query in ("decision=yes", "a=<script>alert(1)</script>"):
            status, fields, page = server.ask(method, f"{address}?{query}", headers=[("Accept", "text/html")])
            assert (status, b"<script>alert" in page) == (200, False)
            assert "default-src 'none'" in fields["content-security-policy"]
    assert server.rest("GET", f"/v1/runs/{run}")["status"] == "WAITING"
    answers = [server.ask("POST", f"{address}?n={number}", BODY)[0] for number in range(10)]
    assert answers == [202] + [409] * 9


def attack_the_lists(server: Server) -> None:
    """Lists of what begins runs tell neither strangers anything nor anybody a secret or its name."""
    for path in ("/v1/triggers", "/v1/webhooks"):
        assert server.ask("GET", path)[0] == 401, path
        status, _, listed = server.ask("GET", path, headers=[("Authorization", f"Bearer {KEY}")])
        assert (status, b"github" in listed) == (200, True)
        assert not [
            each for each in (SECRET.encode(), STANDARD_SECRET.encode(), b"GITHUB", b"X-Token") if each in listed
        ]
        for query in ("cursor=x", "cursor=" + "A" * 600, "limit=0", "limit=100000", "workflow=", "kind=%00"):
            status, _, _ = server.ask("GET", f"{path}?{query}", headers=[("Authorization", f"Bearer {KEY}")])
            assert status in (400, 422), (path, query)
        for query in ("workflow=%00", "workflow=..%2f", "workflow=%27%20OR%201%3D1--", "workflow=" + "a" * 3_000):
            status, _, listed = server.ask("GET", f"{path}?{query}", headers=[("Authorization", f"Bearer {KEY}")])
            assert status in (400, 404) or json.loads(listed)["items"] == [], (path, query)


@pytest.mark.timeout(240)
def test_a_server_that_is_killed_before_its_answer_leaves_one_run_that_answers(
    server: Server, anabranch: Command, launch: Launch
) -> None:
    request = ("POST", "/hooks/default/kept", b'{"said": "x", "body": "at last"}')
    headers = [("X-Id", "1"), ("Content-Type", "application/json")]
    connection = server.send(*request, headers)
    while not server.runs("kept"):
        time.sleep(0.01)  # until it is durable; the test's time limit bounds it
    server.launched.send(signal.SIGKILL)
    connection.close()
    again = Server(launch("dev", "--port", "0", "--no-open"))
    (run,) = again.runs("kept")
    again.rest("POST", f"/v1/runs/{run['instanceID']}/signals/go")
    status, _, body = again.ask(*request, headers)
    assert (status, body) == (200, b"at last")
    assert len(again.runs("kept")) == 1
