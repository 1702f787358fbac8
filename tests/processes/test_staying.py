"""serve, worker and dev as real processes: how they begin, share the work, and end when they are told to."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from anabranch.process.stop_signals import EXIT_AT_ONCE
from tests.hardening.drawing import EFFECTS, chain, effect
from tests.processes.conftest import Installation, Launch
from tests.processes.launching import Staying, until

Serve = Callable[..., Staying]

DEAF = Path(__file__).with_name("deaf.py")
PATIENT = Path(__file__).with_name("patient.py")

HELD = chain("held", effect("first"), effect("held", gate="gate"), effect("last"))

# Longer than any test: whoever takes over before that was handed the run, and did not wait for its lease.
LONG_LEASE = {"ANABRANCH_LEASE": "10m"}
# With `PATIENT`: executions have 1 s.
NO_GRACE = {"ANABRANCH_GRACE": "0s"}
SHORT_LEASE = {"ANABRANCH_LEASE": "1s"}

pytestmark = pytest.mark.timeout(180)


def test_sigterm_hands_a_run_over_to_another_worker_at_once(
    launch: Launch, served: Serve, installation: Installation
) -> None:
    server = served(installation, "--no-worker")
    server.save(HELD)
    leaving = launch(installation, "worker", "--import", EFFECTS, "--import", PATIENT, **NO_GRACE, **LONG_LEASE).ready()
    run_id = server.start("held")
    until(lambda: [line["node"] for line in installation.begun()] == ["first", "held"])
    heir = launch(installation, "worker", "--import", EFFECTS, **LONG_LEASE).ready()

    assert leaving.stop() == 0
    until(lambda: [line["pid"] for line in installation.begun()][2:] == [heir.pid])
    installation.open_gate("gate")

    assert server.ended_run(run_id)["status"] == "COMPLETED"
    begun = installation.begun()
    assert [(line["node"], line["attempt"]) for line in begun] == [("first", 1), ("held", 1), ("held", 1), ("last", 1)]
    assert begun[1]["key"] == begun[2]["key"]


def test_an_execution_under_way_has_its_grace(launch: Launch, served: Serve, installation: Installation) -> None:
    server = served(installation, "--no-worker")
    server.save(HELD)
    leaving = launch(installation, "worker", "--import", EFFECTS).ready()
    run_id = server.start("held")
    until(lambda: len(installation.begun()) == 2)

    leaving.tell(signal.SIGTERM)
    installation.open_gate("gate")

    assert leaving.ended() == 0
    launch(installation, "worker", "--import", EFFECTS).ready()
    assert server.ended_run(run_id)["status"] == "COMPLETED"
    assert [line["node"] for line in installation.begun()] == ["first", "held", "last"], "nothing was executed twice"


def test_a_thread_that_does_not_end_keeps_no_process_from_ending(
    served: Serve, sqlite_installation: Installation
) -> None:
    server = served(sqlite_installation, "--import", DEAF, "--import", PATIENT, **NO_GRACE)
    server.save(chain("deaf", {"id": "deaf", "type": "deaf"}))
    server.start("deaf")
    until(sqlite_installation.begun)

    assert server.stop() == 0


def test_a_blocked_event_loop_keeps_no_process_from_ending_with_its_grace(
    served: Serve, sqlite_installation: Installation
) -> None:
    server = served(sqlite_installation, "--import", DEAF, ANABRANCH_GRACE="1s")
    server.save(chain("blocks", {"id": "blocks", "type": "blocksTheLoop"}))
    server.start("blocks")
    until(sqlite_installation.begun)

    assert server.stop() == EXIT_AT_ONCE
    assert "stopped after its grace" in server.text


def test_a_worker_that_is_killed_loses_nothing(launch: Launch, served: Serve, installation: Installation) -> None:
    server = served(installation, "--no-worker")
    server.save(HELD)
    to_cancel = launch(installation, "worker", "--import", EFFECTS, **SHORT_LEASE).ready()
    run_id = server.start("held")
    until(lambda: len(installation.begun()) == 2)

    assert to_cancel.stop(signal.SIGKILL) == -signal.SIGKILL
    launch(installation, "worker", "--import", EFFECTS).ready()
    installation.open_gate("gate")

    assert server.ended_run(run_id)["status"] == "COMPLETED"
    assert len({line["key"] for line in installation.begun() if line["node"] == "held"}) == 1


def test_a_second_signal_ends_a_process_at_once(
    launch: Launch, served: Serve, sqlite_installation: Installation
) -> None:
    server = served(sqlite_installation)
    server.save(HELD)
    server.start("held")
    until(lambda: len(sqlite_installation.begun()) == 2)

    server.tell(signal.SIGTERM)
    until(lambda: server.ask("GET", "/readyz").status == 503)

    assert server.stop() == 1
    assert "at once" in server.text


def test_a_stopping_server_says_so_and_then_closes_its_port(served: Serve, sqlite_installation: Installation) -> None:
    server = served(sqlite_installation)
    server.save(HELD)
    assert server.ask("GET", "/readyz").status == 200
    run_id = server.start("held")
    until(lambda: len(sqlite_installation.begun()) == 2)

    server.tell(signal.SIGTERM)
    until(lambda: server.ask("GET", "/readyz").status == 503)
    refused = server.ask("POST", "/v1/workflows/held/runs", {"input": {}})
    seen = server.ask("GET", f"/v1/runs/{run_id}")
    sqlite_installation.open_gate("gate")

    assert (refused.status, refused.body["error"]["code"]) == (503, "SHUTTING_DOWN")
    assert int(refused.headers["Retry-After"]) > 0
    assert seen.status == 200, "what takes no new work is answered until the end"
    assert server.ask("GET", "/healthz").status == 200
    assert server.ended() == 0
    with pytest.raises(urllib.error.URLError):
        server.ask("GET", "/readyz")


def test_an_idle_server_keeps_its_port_until_who_asks_was_told(
    served: Serve, sqlite_installation: Installation
) -> None:
    server = served(sqlite_installation)
    assert server.ask("GET", "/readyz").status == 200

    server.tell(signal.SIGTERM)
    until(lambda: server.ask("GET", "/readyz").status == 503)

    assert server.ended() == 0


def test_ctrl_c_ends_an_idle_server_in_order(served: Serve, installation: Installation) -> None:
    assert served(installation).stop(signal.SIGINT) == 0


def test_two_servers_share_one_database(served: Serve, installation: Installation) -> None:
    one, other = served(installation), served(installation)
    one.save(HELD)
    run_id = one.start("held")
    until(lambda: len(installation.begun()) == 2)

    assert other.ask("GET", f"/v1/runs/{run_id}").body["status"] == "RUNNING"
    cancelled = other.ask("POST", f"/v1/runs/{run_id}/cancel")

    assert (cancelled.status, cancelled.body["status"]) == (200, "CANCELLED")
    assert one.ended_run(run_id)["status"] == "CANCELLED"


def test_serve_is_not_reached_by_others_before_there_is_a_key(
    launch: Launch, sqlite_installation: Installation
) -> None:
    refused = launch(sqlite_installation, "serve", "--host", "0.0.0.0", "--port", "0", "--json")

    assert refused.ended() == 2
    error = json.loads("".join(refused.out))["error"]
    assert error["code"] == "NO_API_KEY"
    assert "anabranch keys create" in error["hint"]

    sqlite_installation.make_key()
    launch(sqlite_installation, "serve", "--host", "0.0.0.0", "--port", "0").ready()


def test_serve_on_loopback_says_how_to_make_the_first_key(launch: Launch, sqlite_installation: Installation) -> None:
    server = launch(sqlite_installation, "serve", "--port", "0").ready()

    server.saw("anabranch keys create")
    assert server.ask("GET", "/v1/workflows").status == 401
    assert server.ask("GET", "/readyz").status == 200


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_a_taken_port_is_one_clear_error(launch: Launch, sqlite_installation: Installation, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = launch(sqlite_installation, command, "--port", str(port))

        assert refused.ended() == 2
    assert refused.out == []
    assert any(f"ADDRESS_UNUSABLE: port {port} of 127.0.0.1 is taken" in line for line in refused.err)


def test_a_server_of_this_machine_answers_to_no_other_name(served: Serve, sqlite_installation: Installation) -> None:
    server = served(sqlite_installation)

    assert server.ask("GET", "/v1/workflows", host="rebound.example").status == 403
    assert server.ask("GET", "/v1/workflows", host="localhost").status == 200


def test_dev_prints_one_line_that_lets_its_owner_in_and_has_something_to_run(
    launch: Launch, sqlite_installation: Installation
) -> None:
    process = launch(sqlite_installation, "dev", "--port", "0").ready()

    assert process.url.startswith("http://127.0.0.1:") and process.key
    (workflow,) = process.ask("GET", "/v1/workflows").body["items"]
    run = process.ended_run(process.start(workflow["name"], {"name": "Ada"}))
    assert (run["status"], run["output"]) == ("COMPLETED", {"message": "Hello, Ada!", "waited": True})
    assert process.stop(signal.SIGINT) == 0
    assert len(process.out) == 1, "one line and no more"


def test_dev_takes_a_chosen_key_and_keeps_what_is_there(
    launch: Launch, served: Serve, sqlite_installation: Installation
) -> None:
    before = served(sqlite_installation)
    before.save(chain("mine", effect("only")))
    assert before.stop() == 0
    environment = {"ANABRANCH_API_KEY": "chosen&kept"}
    process = launch(sqlite_installation, "dev", "--port", "0", "--import", EFFECTS, "--json", **environment)
    document = json.loads(process.line())
    process.url, process.key = document["url"].split("/?")[0], document["key"]

    assert process.key == "chosen&kept"
    assert document["url"].endswith("?key=chosen%26kept")
    assert [each["name"] for each in process.ask("GET", "/v1/workflows").body["items"]] == ["mine"], "no sample"
    assert process.ended_run(process.start("mine"))["status"] == "COMPLETED"


def test_dev_without_a_database_url_keeps_everything_in_its_folder(
    launch: Launch, sqlite_installation: Installation
) -> None:
    sqlite_installation.environment = {"PYTHONUNBUFFERED": "1"}
    (sqlite_installation.folder / "workflows").mkdir()
    (sqlite_installation.folder / "workflows" / "types.py").write_text(EFFECTS.read_text())

    process = launch(sqlite_installation, "dev", "--port", "0").ready()

    assert (sqlite_installation.folder / ".anabranch" / "anabranch.db").exists()
    types = [each["name"] for each in process.ask("GET", "/v1/node-types").body["items"]]
    assert "effect" in types, "workflows/*.py is loaded without being named"


def test_dev_keeps_its_key_over_restarts_for_its_owner_alone(launch: Launch, sqlite_installation: Installation) -> None:
    first = launch(sqlite_installation, "dev", "--port", "0").ready()
    assert first.stop() == 0

    second = launch(sqlite_installation, "dev", "--port", "0").ready()

    assert second.key == first.key and first.key.startswith("ab_")
    assert second.ask("GET", "/v1/workflows").status == 200
    kept = sqlite_installation.folder / ".anabranch" / "dev.key"
    assert (kept.read_text().strip(), kept.stat().st_mode & 0o777) == (first.key, 0o600)


def test_a_chosen_key_beats_the_kept_one_and_leaves_it_alone(launch: Launch, sqlite_installation: Installation) -> None:
    kept = launch(sqlite_installation, "dev", "--port", "0").ready()
    assert kept.stop() == 0

    chosen = launch(sqlite_installation, "dev", "--port", "0", ANABRANCH_API_KEY="chosen").ready()

    assert chosen.key == "chosen"
    assert chosen.stop() == 0
    assert launch(sqlite_installation, "dev", "--port", "0").ready().key == kept.key


def test_a_file_without_a_key_is_a_clear_stop(launch: Launch, sqlite_installation: Installation) -> None:
    file = sqlite_installation.folder / ".anabranch" / "dev.key"
    file.parent.mkdir()
    file.touch(mode=0o600)

    process = launch(sqlite_installation, "dev", "--port", "0")

    assert process.ended() == 2
    assert "dev.key holds no key" in process.text and "Remove the file" in process.text


def test_dev_saves_the_drawn_workflows_that_it_is_given_beside_the_sample(
    launch: Launch, sqlite_installation: Installation
) -> None:
    file = sqlite_installation.folder / "flow.json"
    file.write_text(json.dumps(chain("flow", effect("only"))))
    arguments = ("dev", "--port", "0", "--import", EFFECTS, "--workflow", file)

    for _ in range(2):
        process = launch(sqlite_installation, *arguments).ready()
        saved = {each["name"]: each["version"] for each in process.ask("GET", "/v1/workflows").body["items"]}
        assert saved == {"hello": 1, "flow": 1}, "what has not changed is no new version"
        assert process.stop() == 0


def test_dev_refuses_a_drawn_workflow_that_is_invalid(launch: Launch, sqlite_installation: Installation) -> None:
    file = sqlite_installation.folder / "flow.json"
    file.write_text('{"name": "flow", "nodes": [], "edges": []}')

    process = launch(sqlite_installation, "dev", "--port", "0", "--workflow", file)

    assert process.ended() == 2
    assert "error INVALID_WORKFLOW" in process.text


def test_a_worker_opens_no_port(launch: Launch, sqlite_installation: Installation) -> None:
    worker = launch(sqlite_installation, "worker", "--json")

    assert set(json.loads(worker.line())) == {"worker"}
    assert listening_ports(worker.pid) == []
    assert worker.stop() == 0


def listening_ports(pid: int) -> list[int]:
    """The TCP ports that a process listens on."""
    return [
        connection.laddr.port
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]


CODE = """
from anabranch import workflow

async def says_version(ctx, input):
    ctx.log.info("of no interest")
    ctx.log.warning("version %s", ctx.version)
    return ctx.version

for version in {versions}:
    workflow(name="rolled-back", version=version)(says_version)
"""


def test_a_worker_with_active_code_takes_starts_back_to_it_and_tells_lines_of_its_level_on_stderr(
    launch: Launch, served: Serve, sqlite_installation: Installation
) -> None:
    old, new = sqlite_installation.folder / "old.py", sqlite_installation.folder / "new.py"
    old.write_text(CODE.format(versions="(1,)"))
    new.write_text(CODE.format(versions="(1, 2)"))
    server = served(sqlite_installation, "--no-worker")
    launch(sqlite_installation, "worker", "--import", new).ready().stop()

    rolled_back = launch(
        sqlite_installation, "worker", "--import", old, "--active", ANABRANCH_LOG_LEVEL="warning"
    ).ready()
    run_id = server.start("rolled-back")

    assert server.ended_run(run_id)["output"] == 1
    assert rolled_back.stop() == 0
    (line,) = [json.loads(each) for each in rolled_back.err if each.startswith("{")]
    assert (line["instanceID"], line["level"], line["text"]) == (run_id, "warning", "version 1")
