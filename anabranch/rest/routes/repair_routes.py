"""Routes that repair runs."""

from __future__ import annotations

from anabranch.errors import (
    InvalidInput,
    ParentHasMovedOn,
    RetryRefused,
    RetryWouldRepeat,
    RunIsCompleted,
    RunIsOpen,
    RunTooLarge,
    TooManyPending,
)
from anabranch.keys.access import Role
from anabranch.rest.models.repair_forms import Retried, Retry
from anabranch.rest.routes.route import Call, Header, Reply
from anabranch.rest.routes.run_routes import about_run, run_id_of
from anabranch.run_requests import KEY_CHARACTERS_MAX, RetryOptions

_RETRY_KEY = Header("Idempotency-Key", "A repeated key answers as the first retry with it.", KEY_CHARACTERS_MAX)


async def retry_run(call: Call) -> Reply:
    """The run goes on where it was, with what failed tried again; a SUSPENDED one is resumed."""
    asked: Retry = call.body or Retry.model_validate({})
    options = RetryOptions(
        reason=asked.reason,
        all_failed_steps=asked.steps == "failed",
        new_keys=asked.newKeys,
        detach=asked.detach,
        deadline_ms=asked.deadline,
        idempotency_key=call.headers.get("Idempotency-Key"),
        dry_run=asked.dryRun,
    )
    return Reply(
        await call.services.workflows.retry_run(await run_id_of(call), options, tenant_id=call.tenant_id, by=call.actor)
    )


ROUTES = (
    about_run(
        "POST",
        "/retry",
        retry_run,
        "Let a run that has failed or was cancelled go on.",
        Role.OPERATOR,
        {200: Retried},
        body=Retry,
        body_required=False,
        headers=(_RETRY_KEY,),
        errors=(
            InvalidInput,
            RunIsCompleted,
            RunIsOpen,
            RetryWouldRepeat,
            ParentHasMovedOn,
            RetryRefused,
            RunTooLarge,
            TooManyPending,
        ),
    ),
)
