"""Type checkers know what authors are given: mypy and pyright, both strict, on a program that uses it, and on one that
misuses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import Kind, found_or_skip, node, node_packages

ROOT = Path(__file__).parents[1]

IMPORTS = """
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from anabranch import Client, Context, HandlerResult, Helpers, RunHandle, Steps, SyncClient, SyncRunHandle
from anabranch import node_type, workflow
from anabranch.testing import Answer, Request, Signal, run_workflow
"""

SOUND = """
async def create_user(email: str) -> dict[str, Any]:
    return {"id": 42, "email": email}

async def welcome(step: Steps, user: Mapping[str, Any]) -> None:
    await step.sleep("welcome-delay", "5m")
    await step.signal("some-run", "welcomed", user["id"])

@workflow(name="onboard-typed", version=1, retention="30d", deadline="7d")
async def onboard(ctx: Context, input: dict[str, Any]) -> dict[str, Any]:
    user = await ctx.step.run("create-user", create_user, input["email"])
    await welcome(ctx.step, user)
    verified = await ctx.step.wait_for_event("verify", match={"userId": user["id"]}, timeout="7d")
    return {"user": user, "verified": verified is not None, "at": ctx.now().isoformat(), "run": ctx.run_id}

class Config(BaseModel):
    text: str

@node_type(type="typedCount", title="Count words", config=Config)
class TypedCount:
    async def execute(self, config: Config, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        helpers.log.info("attempt %d of %s", helpers.attempt, helpers.node_id)
        words = await helpers.in_thread(config.text.split)
        return HandlerResult({"words": len(words), "key": helpers.idempotency_key})

async def start(url: str) -> Any:
    async with Client(url) as client:
        handle: RunHandle = await client.start("onboard-typed", {"email": "ada@example.org"}, idempotency_key="ada")
        return await handle.result(timeout=30)

def answer(request: Request) -> Answer:
    return Answer({"path": request.path}, status=201)

async def rehearse() -> list[str]:
    run = await run_workflow("workflow.json", {"n": 1}, http=answer, signals=[Signal("approve", after="1d")])
    return [run.status, *run.completed, *(request.url for request in run.requests)]

def start_at_once(url: str) -> Any:
    with SyncClient(url) as client:
        handle: SyncRunHandle = client.start("onboard-typed", {"email": "ada@example.org"}, retention_days=3)
        return handle.result()
"""

UNSOUND = """
async def onboard(ctx: Context, helpers: Helpers, client: Client) -> None:
    await ctx.step.slep("welcome-delay", "5m")
    ctx.now() + 1
    helpers.attempt.upper()
    await client.start("onboard", retention_days="3")
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy says of both, as of programs that have anabranch installed."""
    folder: Path = tmp_path_factory.mktemp("typed")
    (folder / "sound.py").write_text(IMPORTS + SOUND)
    (folder / "unsound.py").write_text(IMPORTS + UNSOUND)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "sound.py", "unsound.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_what_authors_write_is_typed(checked: str) -> None:
    assert "sound.py:" not in checked.replace("unsound.py:", "")


def test_mistakes_are_found(checked: str) -> None:
    for what in (
        '"Steps" has no attribute "slep"',
        'Unsupported operand types for + ("datetime"',
        '"upper"',
        '"start"',
    ):
        assert what in checked, checked
    assert checked.count("error:") == 4, checked


@pytest.fixture(scope="module")
def seen_by_pyright(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The rules that each program breaks in the eyes of pyright."""
    packages = found_or_skip(Kind.JAVASCRIPT, node_packages)
    folder: Path = tmp_path_factory.mktemp("pyright")
    settings = {"typeCheckingMode": "strict", "reportUnusedImport": False, "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    (folder / "sound.py").write_text(IMPORTS + SOUND)
    (folder / "unsound.py").write_text(IMPORTS + UNSOUND)
    command = [node(), packages / "node_modules/pyright/index.js", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found: dict[str, list[str]] = {"sound.py": [], "unsound.py": []}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        found[Path(each["file"]).name].append(each["rule"])
    return found


def test_pyright_finds_nothing_in_what_authors_write(seen_by_pyright: dict[str, list[str]]) -> None:
    assert seen_by_pyright["sound.py"] == []


def test_pyright_finds_mistakes(seen_by_pyright: dict[str, list[str]]) -> None:
    rules = seen_by_pyright["unsound.py"]
    assert rules.count("reportAttributeAccessIssue") == 2
    assert {"reportOperatorIssue", "reportArgumentType"} <= set(rules)
