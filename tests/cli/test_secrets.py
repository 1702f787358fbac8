"""`anabranch secrets`, and what a run on the command line makes of them."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, chain

VALUE = "s3cr3t-v4lue"
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(32)).decode()


class Echo(BaseHTTPRequestHandler):
    """Answers with the Authorization header that it got."""

    def do_GET(self) -> None:
        body = json.dumps({"said": self.headers["Authorization"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def echo_port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def calling(port: int) -> dict[str, Any]:
    config = {"url": f"http://127.0.0.1:{port}/", "auth": {"type": "bearer", "token": "{{secret.TOKEN}}"}}
    return chain("calling", {"id": "call", "type": "httpRequest", "config": config, "outputVariable": "last"})


def test_a_secret_is_set_listed_and_deleted_and_never_shown(anabranch: Command) -> None:
    stored = anabranch("secrets", "set", "TOKEN", "--value", VALUE, "--json")
    again = anabranch("secrets", "set", "TOKEN", "--value", VALUE)
    listed, table = anabranch("secrets", "list", "--json"), anabranch("secrets", "list")

    assert (stored.code, stored.document["name"], stored.document["version"]) == (0, "TOKEN", 1)
    assert again.out == "secret TOKEN is stored, version 2\n"
    assert [set(item) for item in listed.document["items"]] == [{"name", "version", "createdAt", "updatedAt"}]
    assert table.out.splitlines()[1].startswith("TOKEN  2")
    assert not any(VALUE in text for printed in (stored, again, listed, table) for text in (printed.out, printed.err))

    assert anabranch("secrets", "delete", "TOKEN", "--json").document == {"name": "TOKEN", "deleted": True}
    missing = anabranch("secrets", "delete", "TOKEN")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "error SECRET_UNKNOWN: there is no secret TOKEN")


def test_a_value_may_come_through_a_pipe(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, Any], Path], echo_port: int
) -> None:
    monkeypatch.setenv("ANABRANCH_EGRESS_ALLOW", f"127.0.0.1:{echo_port}")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    assert anabranch("secrets", "set", "TOKEN").code == 0

    ran = anabranch("run", write("calling.json", calling(echo_port)), "--json")
    assert ran.code == 0
    assert ran.document["output"]["last"]["body"] == {"said": "Bearer ***"}
    log = anabranch("runs", "log", ran.document["instanceID"], "--json")
    assert VALUE not in log.out + ran.out + ran.err
    assert not any(VALUE.encode() in path.read_bytes() for path in Path(".anabranch").iterdir())


def test_secrets_of_another_tenant_are_not_there(anabranch: Command) -> None:
    anabranch("secrets", "set", "TOKEN", "--value", VALUE, "--tenant", "a")
    assert anabranch("secrets", "list", "--json").document["items"] == []
    assert len(anabranch("secrets", "list", "--tenant", "a", "--json").document["items"]) == 1


def test_a_run_without_its_secret_names_it(
    anabranch: Command, write: Callable[[str, Any], Path], echo_port: int
) -> None:
    ran = anabranch("run", write("calling.json", calling(echo_port)), "--json")
    error = ran.document["error"]
    assert (ran.code, error["code"], error["attempt"]) == (1, "SECRET_UNKNOWN", 1)
    assert "TOKEN" in error["message"]


def test_without_a_setting_no_inner_host_is_reached(
    anabranch: Command, write: Callable[[str, Any], Path], echo_port: int
) -> None:
    anabranch("secrets", "set", "TOKEN", "--value", VALUE)
    error = anabranch("run", write("calling.json", calling(echo_port)), "--json").document["error"]
    assert (error["code"], error["attempt"]) == ("EGRESS_REFUSED", 1)
    assert "ANABRANCH_EGRESS_ALLOW" in error["message"]


def test_another_key_than_the_stored_secrets_have_is_a_clear_stop(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, Any], Path], echo_port: int
) -> None:
    monkeypatch.setenv("ANABRANCH_SECRET_KEY", KEY)
    assert anabranch("secrets", "set", "TOKEN", "--value", VALUE).code == 0
    monkeypatch.setenv("ANABRANCH_SECRET_KEY", OTHER_KEY)
    refused = anabranch("secrets", "set", "OTHER", "--value", VALUE)
    ran = anabranch("run", write("calling.json", calling(echo_port)), "--json")

    assert (refused.code, refused.err.split(":")[0]) == (2, "error SECRET_KEY_WRONG")
    assert (ran.document["error"]["code"], ran.document["error"]["attempt"]) == ("SECRET_KEY_WRONG", 1)


def test_a_database_of_ones_own_needs_a_key_of_ones_own(anabranch: Command, tmp_path: Path) -> None:
    refused = anabranch("secrets", "set", "TOKEN", "--value", VALUE, "--database-url", f"sqlite:///{tmp_path}/own.db")
    assert (refused.code, refused.err.split(":")[0]) == (2, "error SECRET_KEY_MISSING")
    assert "ANABRANCH_SECRET_KEY" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [("set", "9x", "--value", "a"), ("set", "A", "--value", ""), ("set",), ("delete",), ("set", "A b", "--value", "x")],
)
def test_what_is_no_secret_is_refused(anabranch: Command, arguments: tuple[str, ...]) -> None:
    refused = anabranch("secrets", *arguments)
    assert (refused.code, refused.err.split(":")[0]) == (2, "error INVALID_REQUEST")


def test_secrets_elsewhere_are_refused_before_anything_runs(
    anabranch: Command, write: Callable[[str, Any], Path]
) -> None:
    workflow = chain("leak", {"id": "leak", "type": "set", "config": {"values": {"a": "{{secret.TOKEN}}"}}})
    refused = anabranch("validate", write("leak.json", workflow), "--json")
    assert refused.code == 2
    assert [(problem["code"], problem["nodeID"]) for problem in refused.document["errors"]] == [
        ("SECRET_NOT_ALLOWED", "leak")
    ]


def test_an_entry_of_the_allow_list_that_is_no_host_stops_the_start(
    anabranch: Command, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, Any], Path]
) -> None:
    monkeypatch.setenv("ANABRANCH_EGRESS_ALLOW", "10.0.0.1/8")
    refused = anabranch("run", write("w.json", chain("w")))
    assert (refused.code, refused.err.split(":")[0]) == (2, "error INVALID_SETTING")
