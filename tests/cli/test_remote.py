"""The command line on a server: the same output, documents and exit codes as on the database that it works on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.conftest import GREETING, WAITING, Command, Printed
from tests.client.serving import Server, in_a_thread, proxied, served

Write = Callable[[str, Any], Path]
NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    """A server and worker on the folder's own database."""
    with in_a_thread(lambda: served(folder)) as running:
        yield running


@pytest.fixture
def remote(anabranch: Command, server: Server) -> Command:
    """Run one command on the server, as its admin."""

    def run(*arguments: str | Path) -> Printed:
        return anabranch(*arguments, "--url", server.url, "--token", server.keys["admin"])

    return run


@pytest.fixture
def greeted(remote: Command, write: Write) -> str:
    """The id of a run of `greeting` that COMPLETED."""
    assert remote("workflows", "import", write("greeting.json", GREETING)).code == 0
    started = remote("runs", "start", "greeting", "--input", '{"name": "Ada"}', "--json")
    instance_id = str(started.document["instanceID"])
    assert remote("runs", "watch", instance_id).code == 0
    return instance_id


@pytest.fixture
def waiting(remote: Command, write: Write) -> str:
    """The id of an open run of `waiting`."""
    remote("workflows", "import", write("waiting.json", WAITING))
    return str(remote("runs", "start", "waiting", "--json").document["instanceID"])


READING = [
    ("runs", "show", "RUN"),
    ("explain", "RUN"),
    ("explain", "RUN", "end", "--scope", ""),
    ("verify", "RUN"),
    ("verify", "--all"),
    ("replay", "--graph", "greeting.json"),
    ("replay", "--workflow", "greeting", "--version", "1"),
    ("runs", "export", "RUN"),
    ("runs", "log", "RUN"),
    ("runs", "log", "RUN", "--after", "2"),
    ("runs", "list"),
    ("runs", "list", "--workflow", "greeting", "--status", "COMPLETED", "--since", "2020-01-01T00:00:00+01:00"),
    ("runs", "list", "--status", "completed", "--since", "2020-01-01", "--version", "1"),
    ("runs", "list", "--version", "2"),
    ("runs", "list", "--status", "FAILED", "--status", "CANCELLED", "--until", "2020-01-01T00:00:00Z"),
    ("workflows", "show", "greeting"),
    ("workflows", "show", "greeting", "--version", "1"),
    ("workflows", "export", "greeting"),
    ("workflows", "export", "greeting", "--output", "copy.json"),
    ("validate", "greeting.json"),
]
DOING = [
    ("workflows", "import", "greeting.json"),
    ("workflows", "import", "shown.json"),
    ("workflows", "import", "less.json"),
    ("workflows", "export", "greeting"),
    ("runs", "start", "greeting", "--key", "one"),
    ("runs", "start", "greeting", "--key", "two", "--version", "1", "--available-at", "2099-01-01T00:00:00Z"),
    ("runs", "list", "--limit", "1"),
]
REFUSED = [
    ("validate", "bad.json"), ("workflows", "import", "bad.json"),
    ("runs", "cancel", "RUN"), ("runs", "signal", "RUN", "go"),
    ("runs", "show", NOBODY), ("runs", "log", NOBODY), ("runs", "cancel", NOBODY), ("runs", "watch", NOBODY),
    ("runs", "show", "no uuid"), ("runs", "show", "../.."), ("runs", "signal", NOBODY, "a/b"),
    ("runs", "start", "absent"), ("runs", "list", "--workflow", "absent"), ("runs", "list", "--cursor", "x"),
    ("runs", "start", "greeting", "--available-at", "2099-01-02T00:00:00Z", "--deadline-at", "2099-01-01T00:00:00Z"),
    ("workflows", "show", "absent"), ("workflows", "show", "greeting", "--version", "7"),
    ("workflows", "export", "absent"), ("workflows", "delete", "absent"),
]  # fmt: skip


@pytest.mark.parametrize("commands", [READING, DOING, REFUSED], ids=["reading", "doing", "refused"])
def test_a_server_prints_what_its_database_prints(
    anabranch: Command, remote: Command, greeted: str, write: Write, commands: list[tuple[str, ...]]
) -> None:
    write("shown.json", {**remote("workflows", "show", "greeting", "--json").document, "title": "Greeting", "x-a": 1})
    write("less.json", GREETING)
    write("bad.json", {"nodes": [{"id": "a", "type": "nonsense"}], "edges": []})
    for command in commands:
        asked = [word.replace("RUN", greeted) for word in command]
        first = remote(*asked)  # whatever it does is done then: both of what is compared find the same

        assert (first.code == 2 or "RUN_IS_TERMINAL" in first.err) == (commands is REFUSED), f"{command}: {first}"
        for form in ((), ("--json",)):
            assert remote(*asked, *form) == anabranch(*asked, *form), f"anabranch {' '.join([*asked, *form])}"


def test_fields_of_other_tools_keep_their_spelling(anabranch: Command, remote: Command, folder: Path) -> None:
    kept = '[1e3, 1.0 ,"\\u00e9"]'
    (folder / "tools.json").write_text(json.dumps(GREETING)[:-1] + f', "x-tools" : {kept}}}')
    for command in (anabranch, remote):
        assert command("workflows", "import", "tools.json").out == "greeting is saved as version 1\n"
        for printed in (("show", "greeting", "--json"), ("export", "greeting")):
            shown = command("workflows", *printed).out
            assert f'"x-tools": {kept}' in shown
            (folder / "shown.json").write_text(shown)
            assert command("workflows", "import", "shown.json").out == "greeting is saved as version 1\n"
    assert anabranch("run", "tools.json", "--input", '{"name": "Ada"}').code == 0
    assert f'"x-tools": {kept}' in anabranch("workflows", "export", "greeting").out


def test_a_list_of_workflows_is_the_same_but_for_counts_that_lag(
    anabranch: Command, remote: Command, greeted: str
) -> None:
    assert remote("workflows", "list") == anabranch("workflows", "list")
    (item,) = remote("workflows", "list", "--json").document["items"]
    assert (item["name"], item["version"]) == ("greeting", 1)


def test_watching_ends_with_the_outcome_and_how_to_find_it_again(
    remote: Command, anabranch: Command, server: Server, waiting: str
) -> None:
    assert remote("runs", "signal", waiting, "go", "--payload", '{"by": "Ada"}').code == 0

    watched, again = remote("runs", "watch", waiting), anabranch("runs", "watch", waiting)

    assert watched.code == again.code == 0
    assert watched.out == again.out.rstrip("\n") + f" --url {server.url}\n"
    assert remote("runs", "watch", waiting, "--json").document["output"] == {"last": {"by": "Ada"}}


def test_pages_join_without_gaps_whoever_gave_the_cursor(anabranch: Command, remote: Command, greeted: str) -> None:
    for _ in range(2):
        remote("runs", "start", "greeting", "--available-at", "2099-01-01T00:00:00Z")
    everything = remote("runs", "list", "--json").document["items"]

    first = remote("runs", "list", "--limit", "1", "--json").document
    second = anabranch("runs", "list", "--limit", "1", "--cursor", first["nextCursor"], "--json").document
    third = remote("runs", "list", "--limit", "1", "--cursor", second["nextCursor"], "--json").document

    assert first["items"] + second["items"] + third["items"] == everything
    assert third["nextCursor"] is None


def test_a_workflow_is_deleted_once_its_runs_are_out_of_the_way(remote: Command, waiting: str) -> None:
    refused = remote("workflows", "delete", "waiting")
    assert (refused.code, refused.err.split(":")[0]) == (1, "error WORKFLOW_HAS_RUNS")

    assert remote("workflows", "delete", "waiting", "--force").code == 0
    assert remote("workflows", "show", "waiting").code == 2
    assert remote("runs", "show", waiting, "--json").document["status"] == "CANCELLED"


def test_a_workflow_of_the_database_is_deleted_alike(anabranch: Command, write: Write) -> None:
    anabranch("workflows", "import", write("waiting.json", WAITING))
    run = anabranch("runs", "start", "waiting", "--json").document["instanceID"]

    assert anabranch("workflows", "delete", "waiting").code == 1
    assert anabranch("workflows", "delete", "waiting", "--force", "--json").document["deleted"] is True
    assert anabranch("runs", "show", run, "--json").document["status"] == "CANCELLED"


def test_the_server_may_be_named_by_the_settings(
    anabranch: Command, server: Server, greeted: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "token").write_text(server.keys["viewer"] + "\n")
    monkeypatch.setenv("ANABRANCH_URL", server.url)
    monkeypatch.setenv("ANABRANCH_TOKEN_FILE", str(folder / "token"))

    assert anabranch("runs", "list", "--json").document["items"][0]["instanceID"] == greeted
    assert anabranch("runs", "start", "greeting").code == 2, "it is the server that is asked: a viewer may not start"
    elsewhere = ("--database-url", "sqlite:///elsewhere.db")
    anabranch("migrate", *elsewhere)
    assert anabranch("runs", "list", *elsewhere, "--json").document["items"] == [], "a flag beats the environment"
    assert server.keys["viewer"] not in anabranch("doctor", "--json").out


@pytest.mark.parametrize(
    ("token", "code"), [("viewer", "FORBIDDEN"), ("wrong", "UNAUTHORIZED"), ("not a key", "INVALID_REQUEST")]
)
def test_a_key_that_may_not_is_to_be_corrected(
    anabranch: Command, server: Server, greeted: str, token: str, code: str
) -> None:
    key = server.keys.get(token, token)

    refused = anabranch("runs", "start", "greeting", "--url", server.url, "--token", key)

    assert refused.code == 2
    assert refused.err.startswith(f"error {code}: ")
    assert "hint: " in refused.err
    assert key not in refused.out + refused.err or code == "FORBIDDEN"


@pytest.mark.parametrize(
    "flags",
    [
        ("--url", "http://127.0.0.1:1", "--token", "k", "--database-url", "sqlite:///x.db"),
        ("--url", "http://127.0.0.1:1", "--token", "k", "--tenant", "acme"),
        ("--url", "http://127.0.0.1:1"),
        ("--token", "k"),
        ("--url", "127.0.0.1:1", "--token", "k"),
        ("--url", "http://u:hunter2@127.0.0.1:1", "--token", "k"),
    ],
    ids=" ".join,
)
def test_flags_that_contradict_each_other_are_refused(anabranch: Command, folder: Path, flags: tuple[str, ...]) -> None:
    refused = anabranch("runs", "list", *flags)

    assert refused.code == 2
    assert "hint: " in refused.err
    assert "hunter2" not in refused.err
    assert not (folder / ".anabranch").exists(), "nothing is opened"


def test_a_server_that_is_away_exits_1(anabranch: Command) -> None:
    printed = anabranch("runs", "list", "--url", "http://127.0.0.1:1", "--token", "hunter2")

    assert printed.code == 1
    assert printed.err.startswith("error SERVER_UNREACHABLE: ")
    assert "hunter2" not in printed.err


def test_a_start_whose_answer_is_lost_starts_one_run(anabranch: Command, server: Server, greeted: str) -> None:
    lost: list[str] = []

    def loses_the_first_start(request: web.Request) -> bool:
        is_lost = request.method == "POST" and request.path.endswith("/runs") and not lost
        lost.extend([request.path] if is_lost else [])
        return is_lost

    with in_a_thread(lambda: proxied(server.url, loses_the_first_start)) as proxy:
        flags = ("--url", proxy.url, "--token", server.keys["admin"])
        started = anabranch("runs", "start", "greeting", "--input", '{"name": "Bo"}', *flags)

        assert lost, "the proxy has lost an answer"
        assert started.code == 0
        assert "was started before" not in started.out
        assert len(anabranch("runs", "list", "--json", *flags).document["items"]) == 2, "that one and `greeted`"


def test_a_server_that_goes_away_while_it_is_watched_exits_1(
    anabranch: Command, server: Server, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.client.remote.WAIT_ASKED_S", 1)
    monkeypatch.setattr("anabranch.client.caller.FIRST_PAUSE_S", 0.01)
    answered: list[str] = []

    def goes_away_after_the_first_log(request: web.Request) -> bool:
        answered.append(request.path)
        return len(answered) > 1

    with in_a_thread(lambda: proxied(server.url, goes_away_after_the_first_log)) as proxy:
        watched = anabranch("runs", "watch", waiting, "--url", proxy.url, "--token", server.keys["viewer"])

    assert watched.code == 1
    assert watched.err.startswith("error SERVER_UNREACHABLE: ")


def test_openapi_needs_no_server(anabranch: Command, folder: Path) -> None:
    document = anabranch("openapi").document

    assert document["openapi"].startswith("3.1")
    assert "/v1/runs/{instanceID}" in document["paths"]
    assert anabranch("openapi", "--output", "openapi.json").code == 0
    assert anabranch("openapi", "--output", "absent/openapi.json").code == 2
    assert (folder / "openapi.json").read_text() == anabranch("openapi").out
    assert not (folder / ".anabranch").exists()


def test_a_repeated_key_names_the_newest_rerun(anabranch: Command, remote: Command, greeted: str) -> None:
    start = ("runs", "start", "greeting", "--key", "order 7", "--input", '{"name": "Ada"}')
    first = remote(*start, "--json").document["instanceID"]
    assert remote("runs", "watch", first).code == 0
    again = remote("runs", "rerun", first, "--json").document["instanceID"]
    for process in (anabranch, remote):
        assert process(*start, "--json").document == {"instanceID": first, "status": "COMPLETED", "newest": again}
        assert f"run {again} repeats it" in process(*start).out
        shown = process("runs", "show", first, "--json").document
        assert (shown["startedBy"]["kind"], shown["startedBy"]["idempotencyKey"]) == ("key", "order 7")
        assert process("runs", "show", again, "--json").document["rerunOf"] == first


def test_bulk_meets_only_runs_with_these_values_of_this_version(remote: Command, waiting: str) -> None:
    other = str(remote("runs", "start", "waiting", "--input", '{"order": {"n": 7}}', "--json").document["instanceID"])
    meets = ("--workflow", "waiting", "--where", "order.n=7", "--version", "1")
    done = remote("runs", "bulk", "cancel", *meets, "--json")
    assert f"bulk run {done.document['bulkID']} is stored; a worker performs it" in done.err
    assert (done.code, done.document["total"], done.document["succeeded"]) == (0, 1, 1)
    assert remote("runs", "show", other, "--json").document["status"] == "CANCELLED"
    assert remote("runs", "show", waiting, "--json").document["status"] == "WAITING"
    assert remote("runs", "bulk", "rerun", "--rerun-of", other, "--dry-run", "--json").document["total"] == 0
    assert remote("runs", "bulk", "resume", "--reason", "crashed", "--json").document["total"] == 0
    assert remote("runs", "bulk", "cancel", "--where", "order").code == 2


def test_runs_that_a_bulk_run_of_the_command_line_begins_name_it_and_no_key(anabranch: Command, greeted: str) -> None:
    meets = ("--workflow", "greeting", "--status", "completed")
    assert anabranch("runs", "bulk", "rerun", *meets, "--json").document["succeeded"] == 1
    again = anabranch("runs", "list", "--workflow", "greeting", "--json").document["items"][0]
    assert (again["rerunOf"], again["startedBy"]["kind"]) == (greeted, "cli")
