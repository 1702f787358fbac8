"""How a node type's own failures reach the log: their code, their type, and when the next attempt is due."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from anabranch import HandlerResult, node_type
from anabranch.engine.rules.instants import from_iso
from anabranch.errors import EgressRefused, HttpAnswerInvalid, HttpUnreachable, NodeFailure, SecretUnknown
from tests.engine.conftest import TENANT, Process
from tests.engine.drawing import QUICK_RETRY, drawn, node


class FailureConfig(BaseModel):
    """How to fail the first time."""

    retryable: bool = True
    retry_after_ms: int | None = None
    raises: str = ""


OURS = {each.__name__: each for each in (EgressRefused, HttpAnswerInvalid, HttpUnreachable, SecretUnknown)}


@node_type("testNodeFailure", config=FailureConfig)
class FailsByName:
    """Fails its first attempt with a code of its own, or with an error of ours."""

    async def execute(self, config: FailureConfig, context: Any, helpers: Any) -> HandlerResult:
        if helpers.attempt > 1:
            return HandlerResult(helpers.attempt)
        if config.raises == "GeneratorExit":
            raise GeneratorExit
        if config.raises:
            raise OURS[config.raises]("no way")
        raise NodeFailure(
            "OUT_OF_PAPER",
            "the tray is empty",
            type_name="PrinterError",
            retryable=config.retryable,
            retry_after_ms=config.retry_after_ms,
        )


async def _log_of(process: Process, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """How a run of this one node ended, and the last event of each type that the node has."""
    document = drawn("fails", node("n", "testNodeFailure", config=config, retry=QUICK_RETRY, outputVariable="out"))
    run_id = await process.run(document)
    run = await process.ended(run_id)
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    return run, {entry["eventType"]: entry for entry in log if entry["nodeID"] == "n"}


async def test_a_failure_keeps_its_code_type_and_message(process: Process) -> None:
    run, events = await _log_of(process, {"retryable": False})
    error = events["NODE_FAILED"]["payload"]["error"]
    assert (error["code"], error["type"], error["message"]) == ("OUT_OF_PAPER", "PrinterError", "the tray is empty")
    assert (run["status"], run["error"]["code"]) == ("FAILED", "OUT_OF_PAPER")
    assert "NODE_ATTEMPT_FAILED" not in events


async def test_a_handler_that_raises_generator_exit_fails_and_is_tried_again(process: Process) -> None:
    run, events = await _log_of(process, {"raises": "GeneratorExit"})
    error = events["NODE_ATTEMPT_FAILED"]["payload"]["error"]
    assert (error["code"], error["type"], run["status"]) == ("HANDLER_ERROR", "GeneratorExit", "COMPLETED")


async def test_the_next_attempt_is_due_when_the_failure_says(process: Process) -> None:
    run, events = await _log_of(process, {"retry_after_ms": 300})
    failed, again = events["NODE_ATTEMPT_FAILED"], events["NODE_DISPATCHED"]
    due_at = from_iso(failed["payload"]["dueAt"])
    assert due_at - from_iso(failed["createdAt"]) >= 290, "the policy alone would have tried after 20 ms"
    assert (again["nodeAttempt"], from_iso(again["createdAt"]) >= due_at) == (2, True)
    assert run["status"] == "COMPLETED"


async def test_a_shorter_wish_than_the_policys_wait_changes_nothing(process: Process) -> None:
    _, events = await _log_of(process, {"retry_after_ms": 0})
    failed = events["NODE_ATTEMPT_FAILED"]
    assert from_iso(failed["payload"]["dueAt"]) - from_iso(failed["createdAt"]) >= 10


@pytest.mark.parametrize("name", ["EgressRefused", "HttpAnswerInvalid", "SecretUnknown"])
async def test_what_another_attempt_cannot_mend_is_not_tried_again(process: Process, name: str) -> None:
    run, events = await _log_of(process, {"raises": name})
    assert (run["error"]["code"], events["NODE_FAILED"]["nodeAttempt"]) == (OURS[name].code, 1)


async def test_no_connection_is_tried_again(process: Process) -> None:
    run, events = await _log_of(process, {"raises": "HttpUnreachable"})
    assert events["NODE_ATTEMPT_FAILED"]["payload"]["error"]["code"] == "HTTP_UNREACHABLE"
    assert run["status"] == "COMPLETED"
