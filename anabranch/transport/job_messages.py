"""The messages between workers and executors, as plain JSON: jobs, reports about them, and searches for them.

Pure. docs/executors.md has every field. Both sides check what they read: the other one may be another release, or
another program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias, cast, get_args

import orjson

from anabranch.dataclass import dataclass
from anabranch.dead_letters.dead_letters import DeadLetter
from anabranch.engine.handler_contract import HandlerResult
from anabranch.engine.rules.graph.priorities import NORMAL, PRIORITIES, Priority
from anabranch.engine.rules.shared.failures import kept_error, storable
from anabranch.engine.rules.stimuli import Failed
from anabranch.errors import AnabranchError, RunError, ValueTooLarge

PROTOCOL = 1
"""Changes with every change that an older process would not understand."""

# 8 MB: half of what a broker of RabbitMQ 4 takes as one message by default.
MESSAGE_BYTES_MAX = 8 * 1_048_576

# 4,096 characters of a line, as of one that a handler in the worker writes.
LINE_CHARACTERS_MAX = 4_096

# What a letter keeps of an id, which may be anything: more than any of ours has.
_LETTER_CHARACTERS_MAX = 1_024
_ATTEMPTS_MAX = 2**31

Kind: TypeAlias = Literal["started", "beat", "progress", "line", "result"]


class BadMessage(AnabranchError):
    """A message that does not follow the protocol."""

    code = "BAD_MESSAGE"
    hint = "docs/executors.md has the fields of every message."


@dataclass(frozen=True, slots=True)
class JobPart:
    """A large value that a job only refers to: null stands in its place."""

    path: tuple[str | int, ...]
    """The way to it, beginning with `config` or `context`."""
    sha256: str
    """Of its JSON: its name at `GET /v1/values/{sha256}`."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJob:
    """One attempt to execute a node, as a message: ids and values, no objects of a process."""

    job_id: str
    """The same whenever this attempt is sent again."""
    instance_id: str
    tenant_id: str
    node_id: str
    scope: str
    attempt: int
    type: str
    config: Any
    """With all templates resolved."""
    context: Mapping[str, Any]
    idempotency_key: str
    reply_to: str
    """The queue for reports."""
    ticket: str
    """Of the worker that sent it: a cancellation names it, so that it concerns no later sending by another worker."""
    pool: str = "default"
    workflow_id: str | None = None
    key_generation: int = 0
    timeout_ms: int | None = None
    heartbeat_ms: int | None = None
    output_bytes_max: int
    deadline_at: int | None = None
    """When the run fails if it has not ended (ms since the epoch)."""
    sealed: str | None = None
    """Instead of `config`, encrypted, where it has secrets. Servers open it for executors of the pool."""
    parts: Sequence[JobPart] = ()
    """The values of config and context that are fetched from a server."""
    priority: Priority = NORMAL
    sending: int = 1
    """1, 2, 3…: how often it was sent."""

    def to_json(self) -> bytes:
        """The message. Raises ValueTooLarge."""
        fields = {name: getattr(self, field) for field, name in _JOB_FIELDS.items()}
        fields["parts"] = [{"at": each.path, "sha256": each.sha256, "bytes": each.size} for each in self.parts]
        raw = orjson.dumps({"protocol": PROTOCOL, **fields, "context": dict(self.context)})
        if len(raw) > MESSAGE_BYTES_MAX:
            raise ValueTooLarge(
                f"config and context of node {self.node_id} have {len(raw)} bytes; a job has at most"
                f" {MESSAGE_BYTES_MAX}",
                hint="Hand large values on by reference, or run the node in the worker.",
            )
        return raw

    @classmethod
    def from_json(cls, raw: bytes) -> NodeJob:
        """The job in a message. Raises BadMessage."""
        fields = _parsed(raw, "a job")
        if not isinstance(fields, dict):
            raise BadMessage("a job is a JSON object")
        if fields.get("protocol") != PROTOCOL:
            raise BadMessage(f"the job is of protocol {fields.get('protocol')!r}, this process knows {PROTOCOL}")
        values: dict[str, Any] = {field: _text(fields, name) for field, name in _TEXTS.items()}
        numbers = {field: _number(fields, name) for field, name in _NUMBERS.items()}
        context = fields.get("context")
        if not isinstance(context, dict):
            raise BadMessage("context of a job is an object")
        priority = fields.get("priority", NORMAL)
        if priority not in PRIORITIES:
            raise BadMessage(f"the priority of a job is one of {', '.join(PRIORITIES)}, not {priority!r:.60}")
        if numbers["attempt"] is None or numbers["output_bytes_max"] is None:
            raise BadMessage("attempt and outputBytesMax of a job are numbers")
        values |= {field: number for field, number in numbers.items() if number is not None}
        values |= {field: _text(fields, name, may_be_null=True) or None for field, name in _OPTIONAL_TEXTS.items()}
        parts = _parts(fields.get("parts", []))
        return cls(
            config=fields.get("config"), parts=parts, priority=cast("Priority", priority), context=context, **values
        )


# The fields of a job by their names in the message.
_TEXTS = {
    "job_id": "jobID",
    "instance_id": "instanceID",
    "tenant_id": "tenantID",
    "node_id": "nodeID",
    "scope": "scope",
    "type": "type",
    "pool": "pool",
    "idempotency_key": "idempotencyKey",
    "reply_to": "replyTo",
    "ticket": "ticket",
}
_OPTIONAL_TEXTS = {"workflow_id": "workflowID", "sealed": "sealed"}
_NUMBERS = {
    "attempt": "attempt",
    "key_generation": "keyGeneration",
    "timeout_ms": "timeoutMs",
    "heartbeat_ms": "heartbeatTimeoutMs",
    "output_bytes_max": "outputBytesMax",
    "deadline_at": "deadlineAt",
    "sending": "sending",
}
_JOB_FIELDS = {**_TEXTS, **_OPTIONAL_TEXTS, **_NUMBERS, "priority": "priority", "config": "config"}


@dataclass(frozen=True, slots=True)
class JobReport:
    """A report of an executor about a job."""

    job_id: str
    kind: Kind
    body: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The message."""
        return orjson.dumps({"protocol": PROTOCOL, "jobID": self.job_id, "kind": self.kind, **self.body})

    @classmethod
    def from_fields(cls, fields: object) -> JobReport:
        """The report that an object of a message is. Raises BadMessage."""
        if not isinstance(fields, dict):
            raise BadMessage("a report is a JSON object")
        kind = fields.get("kind")
        if kind not in get_args(Kind):
            raise BadMessage(f"a report is one of {', '.join(get_args(Kind))}, not {kind!r:.60}")
        body = {name: value for name, value in fields.items() if name not in ("protocol", "jobID", "kind")}
        return cls(_text(fields, "jobID"), cast("Kind", kind), body)


def reports_in(raw: bytes) -> tuple[list[JobReport], list[BadMessage]]:
    """The reports in a message, which has one or an array of them, and what is wrong with the others."""
    try:
        decoded = _parsed(raw, "a report")
    except BadMessage as refusal:
        return [], [refusal]
    reports, refusals = [], []
    for fields in decoded if isinstance(decoded, list) else [decoded]:
        try:
            reports.append(JobReport.from_fields(fields))
        except BadMessage as refusal:
            refusals.append(refusal)
    return reports, refusals


@dataclass(frozen=True, slots=True)
class JobSearch:
    """A worker that has taken runs over asks who executes their jobs, so that these are not sent again."""

    reply_to: str
    """The queue for reports of who has one of them."""
    tickets: Mapping[str, str]
    """By the job's id, the ticket that it has from now on."""

    def to_json(self) -> bytes:
        """The message."""
        jobs = [{"jobID": job_id, "ticket": ticket} for job_id, ticket in self.tickets.items()]
        return orjson.dumps({"protocol": PROTOCOL, "replyTo": self.reply_to, "jobs": jobs})

    @classmethod
    def from_json(cls, raw: bytes) -> JobSearch:
        """The search in a message. Raises BadMessage."""
        fields = _parsed(raw, "a search")
        jobs = fields.get("jobs") if isinstance(fields, dict) else None
        if not isinstance(jobs, list) or not all(isinstance(each, dict) for each in jobs):
            raise BadMessage("a search is an object, and its jobs a list of objects")
        return cls(_text(fields, "replyTo"), {_text(each, "jobID"): _text(each, "ticket") for each in jobs})


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message of a queue of jobs that the broker has set aside."""

    raw: bytes
    queue: str
    reason: str

    def as_letter(self) -> DeadLetter:
        """The job as a dead letter."""
        try:
            decoded = orjson.loads(self.raw)
        except orjson.JSONDecodeError:
            decoded = None
        fields = decoded if isinstance(decoded, dict) else {}

        def text(name: str) -> str:
            value = fields.get(name)
            return storable(value, _LETTER_CHARACTERS_MAX) if isinstance(value, str) else ""

        attempt = fields.get("attempt")
        return DeadLetter(
            letter_id=text("jobID") or hashlib.sha256(self.raw).hexdigest(),
            tenant_id=text("tenantID"),
            instance_id=text("instanceID"),
            node_id=text("nodeID"),
            scope=text("scope"),
            attempt=attempt if isinstance(attempt, int) and 0 <= attempt < _ATTEMPTS_MAX else 0,
            queue=self.queue,
            reason=self._reason(),
        )

    def _reason(self) -> str:
        if self.reason != "rejected":
            return f"its executors ended again and again while they had it ({self.reason})"
        try:
            NodeJob.from_json(self.raw)
        except BadMessage as refusal:
            return f"executors cannot read it: {refusal.message}"
        return "executors refused it"


def completed(job_id: str, result: HandlerResult) -> JobReport:
    """The report of a handler that has returned."""
    body = {"status": "completed", "output": result.output, "nextHandle": result.next_handle}
    return JobReport(job_id, "result", {**body, "queueDelayMs": result.queue_delay})


def failed(job_id: str, failure: Failed) -> JobReport:
    """The report of an attempt that has failed."""
    error = failure.error
    body = {
        "status": "failed",
        "error": {"code": error.code, "type": error.type, "message": error.message, "traceback": error.traceback},
        "retryable": failure.retryable,
        "retryAfterMs": failure.retry_after_ms,
    }
    return JobReport(job_id, "result", body)


def outcome_in(report: JobReport, *, node_id: str, scope: str, attempt: int) -> HandlerResult | Failed:
    """The outcome in a result; what the log cannot keep becomes a failure. Raises BadMessage."""
    body = report.body
    if body.get("status") == "completed":
        handle, delay = body.get("nextHandle"), body.get("queueDelayMs")
        if not isinstance(handle, str | None) or isinstance(delay, bool) or not isinstance(delay, int | float | None):
            raise BadMessage("nextHandle of a result is text, queueDelayMs a number")
        return HandlerResult(body.get("output"), next_handle=handle, queue_delay=delay)
    error = body.get("error")
    if body.get("status") != "failed" or not isinstance(error, dict):
        raise BadMessage("a result is `completed` with an output, or `failed` with an error")
    kept: RunError = kept_error(
        error.get("code", "HANDLER_ERROR"),
        error.get("type", "Error"),
        error.get("message", ""),
        node_id,
        scope,
        attempt,
        str(error.get("traceback") or ""),
    )
    after = body.get("retryAfterMs")
    return Failed(kept, body.get("retryable") is not False, after if isinstance(after, int) else None)


def _parsed(raw: bytes, what: str) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as refusal:
        raise BadMessage(f"{what} is not JSON: {refusal}") from None


def _parts(decoded: Any) -> tuple[JobPart, ...]:
    if not isinstance(decoded, list) or not all(isinstance(each, dict) for each in decoded):
        raise BadMessage("parts of a job is a list of objects")
    parts = []
    for each in decoded:
        path, size = each.get("at"), _number(each, "bytes")
        if not isinstance(path, list) or path[:1] not in (["config"], ["context"]) or size is None:
            raise BadMessage("a part of a job has `at`, a path from config or context, and `bytes`")
        parts.append(JobPart(tuple(path), _text(each, "sha256"), size))
    return tuple(parts)


def _text(fields: Mapping[str, Any], name: str, *, may_be_null: bool = False) -> str:
    value = fields.get(name)
    if value is None and may_be_null:
        return ""
    if not isinstance(value, str):
        raise BadMessage(f"{name} is text")
    return value


def _number(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadMessage(f"{name} is a whole number")
    return value
