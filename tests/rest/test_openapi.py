"""The OpenAPI document, held against the server: by a reader of the standard, and by generated requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch.rest.openapi import openapi_document
from anabranch.rest.routes.all_routes import ROUTES
from tests.rest.conftest import Served

HERE = Path(__file__).parent

# Of each operation, besides what its schema itself suggests, in half a minute: `ANABRANCH_OPENAPI_EXAMPLES=50` looks
# for a quarter of an hour.
EXAMPLES_PER_OPERATION = int(os.environ.get("ANABRANCH_OPENAPI_EXAMPLES", "2"))
SEED = 20261121


async def test_the_document_is_served_to_everybody(served: Served):
    answered = await served.ask("GET", "/openapi.json", role=None)
    assert (answered.status, answered.json) == (200, openapi_document(ROUTES))
    assert answered.json["openapi"].startswith("3.1")


async def test_a_document_that_could_not_be_built_is_built_again(served: Served, monkeypatch: pytest.MonkeyPatch):
    failures = [MemoryError(), MemoryError()]

    def build(routes: Any) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return {"openapi": "3.1.0"}

    monkeypatch.setattr("anabranch.rest.application.openapi_document", build)
    statuses = [(await served.ask("GET", "/openapi.json", role=None)).status for _ in range(3)]
    assert statuses == [500, 500, 200]


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does():
    operations = [operation for path in openapi_document(ROUTES)["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    for operation in operations:
        assert operation["summary"].endswith((".", "?")), operation["operationId"]
        assert operation["responses"], operation["operationId"]


def test_a_client_can_be_generated_from_it():
    document = openapi_document(ROUTES)
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            name = operation["operationId"]
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), f"{path}: {name} is no name of a function"
            bodies = [answer.get("content", {}) for status, answer in operation["responses"].items() if status != "204"]
            assert all(content for content in bodies), f"{name}: every answer with a body says which"
            assert [answer for status, answer in operation["responses"].items() if status < "300"], name
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert referred <= schemas.keys(), "every reference leads somewhere"
    problem = schemas["Problem"]["properties"]
    assert problem.keys() >= {"code", "message", "nodeID", "edgeID", "pointer", "hint", "range", "fixes"}


@pytest.mark.timeout(900)  # some 2,000 requests: two minutes, and many more on a machine that does other things
def test_generated_requests_get_no_fault_and_no_undeclared_answer(tmp_path: Path):
    environment = {**os.environ, "ANABRANCH_API_KEY": "generated", "PYTHONPATH": str(HERE.parents[1])}
    dev = [sys.executable, "-m", "anabranch", "dev", "--port", "0"]
    with subprocess.Popen(dev, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().partition("?")[0]
            judged = subprocess.run(
                [
                    *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")),
                    *("run", f"{url}openapi.json", "--header", "Authorization: Bearer generated"),
                    *("--checks", "all", "--phases", "examples,coverage,fuzzing,stateful"),
                    *("--max-examples", str(EXAMPLES_PER_OPERATION), "--seed", str(SEED), "--no-color"),
                    *("--suppress-health-check", "all"),
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            server.terminate()
    assert judged.returncode == 0, judged.stdout[-20_000:] + judged.stderr[-2_000:]
