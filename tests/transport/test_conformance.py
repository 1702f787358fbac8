"""Executors follow the protocol of docs/executors.md: ours, and the example in Node.js, which also executes a run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from anabranch.testing import executor_conformance
from anabranch.testing.executor_conformance import NAMES, NotConforming, Trial, conformance
from tests.rabbitmq import Forwarder, RabbitMQ
from tests.tools import Kind, executor_packages, found_or_skip, node
from tests.transport import conformance_nodes
from tests.transport.test_executors import PATIENCE_S, lines_say, working

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# `make chaos` tries all cases: a sign of life comes after 10 s, and other tests kill our executors.
ALL_CASES = "ANABRANCH_TEST_ALL_CASES" in os.environ
OURS = [name for name in NAMES if ALL_CASES or name not in ("beats", "killed")]
THEIRS = [name for name in NAMES if ALL_CASES or name != "beats"]

# How many results examples/executor-node keeps, as its page says.
KEPT_BY_NODE = 100


def our_executor() -> list[str]:
    return [sys.executable, "-m", "anabranch", "executor", "--import", str(Path(conformance_nodes.__file__))]


def node_executor(handlers: Path) -> list[str]:
    program = found_or_skip(Kind.JAVASCRIPT, node)
    return [str(program), str(found_or_skip(Kind.JAVASCRIPT, executor_packages) / "executor.mjs"), str(handlers)]


@pytest.mark.timeout(600)
async def test_our_executor_follows_the_protocol(broker: RabbitMQ) -> None:
    assert await conformance(broker.url, our_executor(), names=OURS) == dict.fromkeys(OURS)


@pytest.mark.timeout(600)
async def test_the_executor_in_node_follows_the_protocol(broker: RabbitMQ) -> None:
    command = node_executor(HERE / "conformance_handlers.mjs")
    assert await conformance(broker.url, command, names=THEIRS) == dict.fromkeys(THEIRS)


async def test_the_executor_in_node_keeps_the_results_that_came_last(broker: RabbitMQ, tmp_path: Path) -> None:
    """A job that lasted longer than a hundred others was forgotten with its end, and executed again."""
    gate, handlers = tmp_path / "gate", tmp_path / "handlers.mjs"
    os.mkfifo(gate)
    handlers.write_text(f"""
        import {{ readFile }} from "node:fs/promises";
        export const quick = async (config, context, job) => void job.line("quick");
        export const lasting = async (config, context, job) => {{
          job.line("lasting");
          await readFile({json.dumps(str(gate))}); // until the test has opened it, too
        }};
    """)
    async with await aio_pika.connect(broker.url) as connection:
        trial = Trial(broker.url, node_executor(handlers), await connection.channel(), {})
        await trial.open()
        try:
            await trial.start()
            lasting = await trial.send(trial.job("lasting"))
            await trial.report(lasting, "line")
            quick = [trial.job("quick") for _ in range(KEPT_BY_NODE + 1)]
            for each in quick:
                await trial.send(each)
                await trial.result(each)
            assert await _executions_when_sent_again(trial, quick[1]) == 1, "a job under way takes no room of a result"
            await asyncio.to_thread(gate.write_bytes, b"")
            await trial.result(lasting)
            assert await _executions_when_sent_again(trial, lasting) == 1
        finally:
            await trial.close()


async def _executions_when_sent_again(trial: Trial, job: dict[str, Any]) -> int:
    """How often a job has been executed that has ended, and is sent again."""
    await trial.send(job)
    await trial.result(job, nth=2)
    return len(trial.reports_of(job, "line"))


async def test_the_executor_in_node_executes_a_node_of_a_run(broker: RabbitMQ, tmp_path: Path) -> None:
    example = ROOT / "examples" / "executor-node"
    runpy.run_path(str(example / "nodes.py"))
    executor = await asyncio.create_subprocess_exec(
        *node_executor(example / "handlers.mjs"),
        env=os.environ | {"ANABRANCH_BROKER_URL": broker.url, "ANABRANCH_POOLS": "node"},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        workflow = json.loads((example / "workflow.json").read_text())
        async with working(broker.url, tmp_path, workflow) as (worker, client):
            run = await client.start("words", {"text": "an example of an executor"})
            assert await run.result(timeout=PATIENCE_S) == {"words": 5, "longest": "executor"}
            await lines_say(worker, run.run_id, "5 words in count, attempt 1")
    finally:
        executor.terminate()
        code = await executor.wait()
    assert code == 0


def test_its_files_have_as_many_lines_of_code_as_its_page_says() -> None:
    example = ROOT / "examples" / "executor-node"
    said = dict(re.findall(r"^\| `([a-z]+\.mjs)` \| (\d+) \|", (example / "README.md").read_text(), re.MULTILINE))
    counted = {name: str(_lines_of_code((example / name).read_text())) for name in said}
    assert (said, set(said)) == (counted, {"executor.mjs", "job.mjs", "slots.mjs"})
    assert int(said["executor.mjs"]) <= 100


def _lines_of_code(text: str) -> int:
    lines = [line.strip() for line in text.splitlines()]
    return sum(line != "" and not line.startswith(("//", "/**")) for line in lines)


def test_the_executor_in_node_masks_reports_with_and_without_a_body() -> None:
    """A beat of a job with secrets, which has none, ended it."""
    job = (ROOT / "examples" / "executor-node" / "job.mjs").as_uri()
    script = f"""
        const {{ masked }} = await import({json.dumps(job)});
        const told = [masked(undefined, ["hush"]), masked({{ text: "a hush", list: ["hush"] }}, ["hush"])];
        console.log(JSON.stringify(told));
    """
    command = [str(found_or_skip(Kind.JAVASCRIPT, node)), "--input-type=module", "--eval", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [{}, {"text": "a ***", "list": ["***"]}]


async def test_a_program_that_is_no_executor_does_not_conform(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_conformance, "PATIENCE_S", 0.05)
    found = await conformance(broker.url, ["sleep", "60"], names=["job", "bad_message"])
    assert found == {
        "job": "no result of conformanceEcho was reported, for 0.05 s",
        "bad_message": "no result of conformanceEcho was reported, for 0.05 s",
    }


async def test_what_the_trial_asks_the_broker_is_not_given_up_half_way(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_conformance, "PATIENCE_S", 0.01)
    way = Forwarder(broker)
    await way.open()
    async with await aio_pika.connect(way.url) as connection:
        trial = Trial(way.url, ["true"], await connection.channel(), {})
        await trial.open()
        way.may_answer.clear()
        asking = asyncio.create_task(trial.until_ready(1, "no job waits"))
        await asyncio.wait([asking], timeout=0.1)  # the patience is over, however quick this machine is
        way.may_answer.set()
        with pytest.raises(NotConforming, match="no job waits"):
            await asking
        await trial.close()
    way.cut()
