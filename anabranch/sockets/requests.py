"""Models of socket requests and responses.

Pure. Any input becomes a valid request or an `InvalidRequest`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from anabranch.engine.rules.values import Payload
from anabranch.errors import AnabranchError, InvalidRequest, ValueNotStorable, ValueTooLarge

# 1 MB a message, as any single value of a run. A larger test run is started over HTTP.
MESSAGE_BYTES_MAX = 1_048_576

# 10 problems of one request are named; further ones are found when these are mended.
PROBLEMS_MAX = 10


class _Request(BaseModel):
    """Unknown fields are ignored: a newer client may talk to an older server."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore", hide_input_in_errors=True)


class RunRequest(_Request):
    """A request about one run."""

    run_id: Annotated[StrictStr, Field(alias="runId")]


class JoinRequest(RunRequest):
    """Watch a run; with `since` its updates after that seq, too."""

    since: Annotated[StrictInt, Field(ge=0)] | None = None


class RunTestRequest(_Request):
    """Run a graph that is not saved; the service refuses unknown options."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    nodes: list[Any]
    edges: list[Any]

    def fields(self) -> dict[str, Any]:
        """All fields, as the service takes them."""
        return {"nodes": self.nodes, "edges": self.edges, **(self.model_extra or {})}


R = TypeVar("R", bound=_Request)


def read_request(form: type[R], arguments: tuple[Any, ...]) -> R:
    """The payload of an event as this model. Raises InvalidRequest with JSON pointers."""
    if len(arguments) != 1 or not isinstance(arguments[0], dict):
        raise InvalidRequest("this event needs one JSON object", hint="docs/sockets.md shows the forms.")
    try:
        Payload.of(arguments[0], bytes_max=MESSAGE_BYTES_MAX)
        return form.model_validate(arguments[0])
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise InvalidRequest(refusal.message, details=[{"code": refusal.code, "message": refusal.message}]) from None
    except ValidationError as refusal:
        problems = [
            {
                "code": problem["type"].upper(),
                "pointer": "".join(f"/{part}" for part in problem["loc"]),
                "message": problem["msg"],
            }
            for problem in refusal.errors(include_url=False, include_input=False)[:PROBLEMS_MAX]
        ]
        first = problems[0]
        raise InvalidRequest(f"{first['pointer']}: {first['message']}", details=problems) from None


def refusal_of(error: AnabranchError) -> dict[str, Any]:
    """The response for an error."""
    return {"ok": False, **error.as_answer()}
