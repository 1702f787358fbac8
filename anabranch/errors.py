"""All errors that anabranch raises on purpose: a class per situation, a stable code, a hint.

Every module may import this one; it imports nothing of ours. A new error is added here,
listed in `docs/errors.md`, and tested where it is raised. `RunError` is not raised: it is
how an error is stored in the log of a run.
"""

from __future__ import annotations

from typing import Any, ClassVar

from anabranch.dataclass import dataclass


class AnabranchError(Exception):
    """Base of all errors that a person can act on.

    `code` is stable and public, `message` says what happened to which thing, `hint` says
    what to do next, `details` is data for programs (JSON values only).
    """

    code: str = "INTERNAL"
    hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, details: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.advice = self.hint if hint is None else hint
        self.details = details

    def as_json(self) -> dict[str, Any]:
        """The form that REST and `--json` print: code, message, hint, details."""
        return {"code": self.code, "message": self.message, "hint": self.advice, "details": self.details}

    def as_answer(self) -> dict[str, Any]:
        """The same for clients over a network, without what only the operator may see."""
        return self.as_json()


class InvalidWorkflow(AnabranchError):
    """A drawn workflow that was refused; `details` lists every problem with its own code and place."""

    code = "INVALID_WORKFLOW"
    hint = "Correct the listed problems and save again; `anabranch validate FILE` lists them without saving."


class InvalidDefinition(AnabranchError):
    """An invalid declaration of a coded workflow, or an invalid call of one of its steps."""

    code = "INVALID_DEFINITION"
    hint = "Correct the code; nothing was written."


class NotInWorkflow(AnabranchError, RuntimeError):
    """A workflow function asked its event loop for something that only a step may do."""

    code = "NOT_IN_WORKFLOW"
    hint = "Do it in a step: the function itself only computes, and waits for its steps."


class WorkflowStuck(AnabranchError):
    """A workflow function waits for something that can never happen, such as a lock that is never released."""

    code = "WORKFLOW_STUCK"
    hint = (
        "Check the lines that the message names: what the tasks wait for must come from a step, or from another task."
    )


class StepNotAwaited(AnabranchError):
    """A workflow function called a step and ended without awaiting it, so the step was not executed."""

    code = "STEP_NOT_AWAITED"
    hint = "Write `await` before it, or give it to `asyncio.gather` or a task group."


class InvalidInput(AnabranchError):
    """The input of a run does not fit its limits or the workflow's inputSchema."""

    code = "INVALID_INPUT"
    hint = "Change the input so that it fits; details name the place."


class InvalidRequest(AnabranchError):
    """A request or command line with invalid fields."""

    code = "INVALID_REQUEST"


class UnknownWorkflow(AnabranchError):
    """This process has no function for this coded workflow in this version."""

    code = "UNKNOWN_WORKFLOW"
    hint = "Pass `--import FILE` with the file that declares it."


class UnknownNodeType(AnabranchError):
    """A run has nodes of types that this process does not have."""

    code = "UNKNOWN_NODE_TYPE"


class LimitReached(InvalidRequest):
    """The tenant has reached the limit for things of this kind."""

    code = "LIMIT_REACHED"
    hint = "Delete some that are no longer needed."


class BadJson(AnabranchError):
    """Text that is not valid JSON."""

    code = "BAD_JSON"
    hint = "Check the text with a JSON linter; the message names line and column."


class TooLarge(AnabranchError):
    """A body or file over its limit; nothing of it was stored."""

    code = "TOO_LARGE"


class NotFound(AnabranchError):
    """No such thing, or it belongs to another tenant."""

    code = "NOT_FOUND"


class NameTaken(AnabranchError):
    """Another workflow of the tenant has this name."""

    code = "NAME_TAKEN"
    hint = "Choose another name, or save a new version of the existing workflow."


class DraftExists(AnabranchError):
    """The workflow already has a draft; `details` has its id."""

    code = "DRAFT_EXISTS"
    hint = "Open that draft: a workflow has one at a time."


class DraftConflict(AnabranchError):
    """The draft has been saved since it was read (If-Match); `details` says by whom, when, and its revision now."""

    code = "DRAFT_CONFLICT"
    hint = "Read the draft, merge both changes and save with its revision."


class VersionMismatch(AnabranchError):
    """The workflow, or the variable, was changed since it was read (If-Match)."""

    code = "VERSION_MISMATCH"
    hint = "Read the newest version, apply the change to it and save again."


class WorkflowHasRuns(AnabranchError):
    """The workflow still has open runs."""

    code = "WORKFLOW_HAS_RUNS"
    hint = "Wait for them, or delete it with `force`, which cancels them."


class SourceTooPowerful(InvalidRequest):
    """The database role of a data source has more rights than queries need; nothing was saved."""

    code = "SOURCE_TOO_POWERFUL"


class DataSourceInUse(AnabranchError):
    """Saved queries still use the data source."""

    code = "DATA_SOURCE_IN_USE"
    hint = "Delete those queries first, or let them run on another source."


class QueryFailed(AnabranchError):
    """A query that was run by hand failed; `details` has the code that a node would get."""

    code = "QUERY_FAILED"


class RunIsTerminal(AnabranchError):
    """The run has ended and can no longer be changed."""

    code = "RUN_IS_TERMINAL"
    hint = "A run that FAILED or was CANCELLED can be retried; otherwise start a new one."


class RunIsOpen(AnabranchError):
    """The run cannot be deleted or retried: it, or the run that started it, has not ended."""

    code = "RUN_IS_OPEN"
    hint = "Wait for its end, or cancel it first."


class NoManualStart(AnabranchError):
    """The workflow has no `start` node: only its triggers begin runs."""

    code = "NO_MANUAL_START"
    hint = (
        "Add a start node, or let a trigger begin the run; a test run names the trigger that it begins at (`trigger`)."
    )


class HookPathTaken(AnabranchError):
    """A webhook of another workflow of the tenant has this path."""

    code = "HOOK_PATH_TAKEN"
    hint = "Choose another path, or remove the webhook from the other workflow's active version."


class ArmedByNode(AnabranchError):
    """The schedule or subscription is armed by a node of a workflow."""

    code = "ARMED_BY_NODE"
    hint = "Change the node, and publish the workflow."


class UnknownTrigger(InvalidRequest):
    """The workflow has no trigger with this id, or it is disabled."""

    code = "UNKNOWN_TRIGGER"
    hint = "Name the id of a trigger node of this version."


class RunIsCompleted(AnabranchError):
    """The run has completed: there is nothing to retry."""

    code = "RUN_IS_COMPLETED"
    hint = "Start a new run with the same input: rerun."


class RetryWouldRepeat(AnabranchError):
    """The run failed because of its own data and graph: a retry would fail the same way."""

    code = "RETRY_WOULD_REPEAT"
    hint = (
        "Correct the workflow and fork the run onto its new version, which keeps what has completed, or run it again."
    )


class ParentNotWaiting(AnabranchError):
    """The run that started this one does not wait for it any more."""

    code = "PARENT_HAS_MOVED_ON"
    hint = "Retry the run that the message names, and this one continues with it; or retry this one with `detach`."


class ForkRefused(AnabranchError):
    """Nothing would come of the fork: nothing would run, it would fail at once, or drawn and coded differ."""

    code = "FORK_REFUSED"
    hint = "Name what shall run again (`redo`), or start a run from nothing (`rerun`)."


class PlanChanged(AnabranchError):
    """The plan is another one than the one that was agreed to."""

    code = "PLAN_CHANGED"
    hint = "Check the plan again (`dryRun`), then send its digest as `ifPlan`."


class RetryRefused(AnabranchError):
    """The run cannot be retried: its workflow is deleted, its family too large, or its log ends in an unknown way."""

    code = "RETRY_REFUSED"
    hint = "Start a new run with the same input: rerun."


class RunFailed(AnabranchError):
    """The run failed, so it has no result. `details` is the run's error."""

    code = "RUN_FAILED"
    hint = "The error says why; the run's log has every step."


class RunCancelled(AnabranchError):
    """The run was cancelled, so it has no result. The message ends with the reason."""

    code = "RUN_CANCELLED"


class TooManySignals(AnabranchError):
    """The run has reached its limit of unconsumed signals."""

    code = "TOO_MANY_SIGNALS"
    hint = "Send it again after the run has consumed some of them."


class TooManyPending(AnabranchError):
    """The limit of runs that wait to start is reached."""

    code = "TOO_MANY_PENDING"
    hint = "Retry later, or add workers."


class RunTooLarge(InvalidRequest):
    """The log of the run is too long for this request."""

    code = "RUN_TOO_LARGE"
    hint = "Read its log and steps in pages, or ask for an earlier `seq`."


class TooManyChecks(TooManyPending):
    """The limit of large documents that wait to be checked is reached for this tenant."""

    code = "TOO_MANY_CHECKS"
    hint = "Try again in a few seconds, and request one check at a time."


class TooManyRequests(AnabranchError):
    """A connection sends too many requests; this one was not processed."""

    code = "TOO_MANY_REQUESTS"
    hint = "Send fewer per second; a client that continues is disconnected."


class WebhookBusy(TooManyRequests):
    """A webhook gets more requests a second than it accepts; this one started nothing."""

    code = "RATE_LIMITED"
    hint = "Send it again in a second. The webhook's `rateLimit` or ANABRANCH_WEBHOOK_RATE sets the limit."


class ResponseTimeout(AnabranchError):
    """A webhook's run has not answered in time; it goes on."""

    code = "RESPONSE_TIMEOUT"
    hint = "The run goes on. Sent again with its idempotency key, the request waits for the same run."


class NoResponse(AnabranchError):
    """A webhook's run has ended without an answer for its caller: it failed, was cancelled, or reached no `respond`."""

    code = "NO_RESPONSE"
    hint = "Look at the run."


class CallbackExpired(AnabranchError):
    """A one-time address that can no longer be used: its time is over, or nothing waits for it any more."""

    code = "CALLBACK_EXPIRED"
    hint = "Ask the sender of the address for a new one."


class CallbackUsed(AnabranchError):
    """A one-time address has been used already, by another call."""

    code = "CALLBACK_USED"
    hint = "Nothing was changed: the first call counts."


class NotListening(AnabranchError):
    """A test address was called while no test run of its draft waits for a request."""

    code = "NOT_LISTENING"
    hint = 'Press "Listen for a test call" in the editor, then send the request again.'


class TooManyConnections(AnabranchError):
    """The process has reached its limit of connections, and all are in use."""

    code = "TOO_MANY_CONNECTIONS"
    hint = "Try again in a few seconds, and keep connections open for several requests."


class BadHttp(AnabranchError):
    """Bytes that are not an HTTP/1.1 request, or a head that is too large; the connection is closed."""

    code = "BAD_HTTP"
    hint = "Speak HTTP/1.1 to this port (no TLS), with at most 8 KB in each line of the head."


class EncodingRefused(AnabranchError):
    """A compressed request body."""

    code = "UNSUPPORTED_ENCODING"
    hint = "Send the body uncompressed, without the header `Content-Encoding`."


class TooManyJoins(AnabranchError):
    """A connection has reached its limit of watched runs."""

    code = "TOO_MANY_JOINS"
    hint = "Leave some with workflow_run_leave, or open another connection."


class StoreUnavailable(AnabranchError):
    """The database cannot be reached, or refuses to write; nothing is known to be written.

    The caller may repeat the same call.
    """

    code = "STORE_UNAVAILABLE"
    hint = "Check that the database is up, reachable and has free space; work resumes once it is."


class DatabaseUnreachable(StoreUnavailable):
    """The same with the database's own message, which names its address and user: for the operator only."""

    def as_answer(self) -> dict[str, Any]:
        """Without those words."""
        return {**self.as_json(), "message": "the database cannot be reached, or does not write"}


class ShuttingDown(AnabranchError):
    """This process is stopping and accepts no new work; nothing was done."""

    code = "SHUTTING_DOWN"
    hint = "Send it again: another process accepts it, or this one after its restart."


class AddressUnusable(AnabranchError):
    """The server cannot listen on the given address."""

    code = "ADDRESS_UNUSABLE"


class NoApiKey(AnabranchError):
    """The server would be reachable by others, and no API key exists."""

    code = "NO_API_KEY"
    hint = "Make one with `anabranch keys create --tenant default`, or listen on 127.0.0.1."


class NotAuthenticated(AnabranchError):
    """The request has no API key, or an invalid one."""

    code = "UNAUTHORIZED"
    hint = "Send `Authorization: Bearer KEY`; `anabranch keys create --tenant T` makes a key."


class NotPermitted(AnabranchError):
    """The key's role does not allow this."""

    code = "FORBIDDEN"
    hint = "Use a key with a higher role; `anabranch keys create --role ROLE` makes one."


class MethodNotAllowed(AnabranchError):
    """The path exists, but not for this HTTP method."""

    code = "METHOD_NOT_ALLOWED"
    hint = "The header Allow lists the methods; /openapi.json describes them."


class MediaTypeRefused(AnabranchError):
    """A body with another content type than JSON."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    hint = "Send the header `Content-Type: application/json`."


class RequestTimeout(AnabranchError):
    """The body of a request did not arrive in time; nothing was done."""

    code = "REQUEST_TIMEOUT"
    hint = "Send it again over a better connection."


class WorkflowIsCoded(AnabranchError):
    """The workflow is a Python function: it is changed in its code."""

    code = "WORKFLOW_IS_CODED"
    hint = "Change the code and raise its version, or save a drawn workflow under another name."


class SchemaMismatch(AnabranchError):
    """The database has another schema version than this program."""

    code = "SCHEMA_MISMATCH"


class OlderProcesses(AnabranchError):
    """Processes run that could not go on with the schema that a migration would make."""

    code = "OLDER_PROCESSES"
    hint = (
        "Stop them (each hands its runs over), and migrate again; one that was killed is forgotten after a minute and a"
        " half. `anabranch migrate --force` migrates all the same."
    )


class DatabaseMissing(AnabranchError):
    """The database of this command does not exist, or is empty."""

    code = "DATABASE_NOT_FOUND"


class BackupDamaged(AnabranchError):
    """The copy of the database did not pass the integrity check, and was removed; `details` has the first findings."""

    code = "BACKUP_DAMAGED"
    hint = "The database itself is damaged: keep its files, and restore the last good backup."


class SettingsError(AnabranchError):
    """A setting with an unknown name or a value out of bounds."""

    code = "INVALID_SETTING"


class ValueNotStorable(AnabranchError):
    """A value that is not plain JSON: NaN, Infinity, NUL, a lone surrogate, a wide integer, too deep."""

    code = "VALUE_NOT_STORABLE"
    hint = (
        "Return JSON values only: null, booleans, 64-bit integers, finite floats, text, lists, objects with text keys."
    )


class ValueTooLarge(AnabranchError):
    """A value over its limit in bytes of JSON."""

    code = "VALUE_TOO_LARGE"
    hint = "Keep large data outside (a file, an object store) and pass a reference."


class ValueMissing(AnabranchError):
    """A large value that a log refers to and that is not stored: its run was just removed, or data were lost."""

    code = "VALUE_MISSING"
    hint = "Ask again; if the run is still there, `anabranch doctor --data` says what is missing."


class LogUnreadable(AnabranchError):
    """A stored row of a run's log that the engine cannot have written; `details` has the run and the seq."""

    code = "LOG_UNREADABLE"
    hint = "Restore the database from a backup; `anabranch doctor --data` names all such runs."


class RunUnreadable(AnabranchError):
    """The stored row of a run has a value that the engine cannot have written; `details` has the run."""

    code = "RUN_UNREADABLE"
    hint = "Restore the row from a backup; `anabranch doctor --data` names all such runs."


class TemplateError(AnabranchError):
    """A template that does not compile, or whose evaluation fails."""

    code = "TEMPLATE_ERROR"


class TemplatePathMissing(TemplateError):
    """A template reads a path that does not exist in the context."""

    code = "TEMPLATE_PATH_MISSING"
    hint = "Give it a value before this node, or write `| default(...)`."


class SecretNotAllowed(TemplateError):
    """A template reads a secret where none are available, or does more with it than insert it."""

    code = "SECRET_NOT_ALLOWED"
    hint = "Write {{secret.NAME}} in the config of a node that sends it, such as httpRequest."


class SecretUnknown(AnabranchError):
    """The tenant has no secret of this name."""

    code = "SECRET_UNKNOWN"
    hint = "Store it with `anabranch secrets set NAME`, or correct the name."


class SecretKeyMissing(AnabranchError):
    """A secret cannot be stored or read without an encryption key."""

    code = "SECRET_KEY_MISSING"
    hint = "Set ANABRANCH_SECRET_KEY to 32 bytes in base64 (`openssl rand -base64 32`), or ANABRANCH_SECRET_KEY_FILE."


class SecretKeyWrong(AnabranchError):
    """A value was encrypted with another key, or was changed since."""

    code = "SECRET_KEY_WRONG"
    hint = "Start with the ANABRANCH_SECRET_KEY that it was stored with."


class ExecutorRefused(AnabranchError):
    """An executor was refused what its job refers to: secrets, or large values."""

    code = "EXECUTOR_REFUSED"
    hint = "Give the executor ANABRANCH_URL and ANABRANCH_TOKEN: `anabranch keys create --role executor --pools POOL`."


class EgressRefused(AnabranchError):
    """This installation may not reach the address."""

    code = "EGRESS_REFUSED"
    hint = "Only public addresses may be reached, and those that the operator lists in ANABRANCH_EGRESS_ALLOW."


class HttpUnreachable(AnabranchError):
    """No response: the name does not resolve, or the connection fails or is closed. A retry may help."""

    code = "HTTP_UNREACHABLE"


class HttpTimeout(AnabranchError):
    """The response did not arrive in time. A retry may help."""

    code = "HTTP_TIMEOUT"


class HttpRefused(AnabranchError):
    """A request that cannot be sent: a forbidden header, an unknown method."""

    code = "HTTP_REQUEST_INVALID"


class HttpAnswerInvalid(AnabranchError):
    """A response that cannot be read as a value: a stream, an unknown encoding, broken JSON."""

    code = "HTTP_RESPONSE_INVALID"


class ServerUnreachable(AnabranchError):
    """A server of anabranch does not respond. The request may have been executed nevertheless."""

    code = "SERVER_UNREACHABLE"
    hint = "Check the URL, and that the server is running. The request may have arrived: check before you repeat it."


class ServerAnswerInvalid(AnabranchError):
    """The response of the URL is not one of anabranch."""

    code = "SERVER_ANSWER_INVALID"
    hint = "Check the URL: it names the server, and its prefix if it has one, without `/v1`."


class ServerRefusal(AnabranchError):
    """An error of a server with a code that this program does not know; code and message are the server's."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, details: Any = None) -> None:
        super().__init__(message, hint=hint, details=details)
        self.code = code


class NonRetryable(Exception):
    """Raise it in a handler or step: this attempt failed, and a retry cannot help."""

    def __init__(self, message: str = "", *, code: str = "HANDLER_ERROR") -> None:
        super().__init__(message)
        self.code = code


class NodeFailure(Exception):
    """The failure of a node type, with a code of its own.

    `type_name` is the type that the error has in the log; `retryable` lets the node's retry policy
    decide, and `retry_after_ms` is the minimum wait before the next attempt. `traceback` says where in code that is
    not Python of this process, and `original` is the exception that it replaces because that names secrets.
    """

    original: BaseException | None = None

    def __init__(
        self,
        code: str,
        message: str,
        *,
        type_name: str | None = None,
        retryable: bool = True,
        retry_after_ms: int | None = None,
        traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.type_name = type_name or type(self).__name__
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class RunError:
    """An error as the log keeps it: `{code, type, message, nodeID, scope, attempt}`."""

    code: str
    type: str
    message: str
    node_id: str = ""
    scope: str = ""
    attempt: int = 0
    traceback: str = ""
    """Where in the author's code it happened: a handler, a step, a workflow function, a code node."""
    steps: tuple[tuple[str, str], ...] | None = None
    """Of a workflow function's: the failed steps among its causes, by name and scope. None: not determined."""

    def as_json(self) -> dict[str, Any]:
        """The public form; `traceback` only where there is one."""
        trace = {"traceback": self.traceback} if self.traceback else {}
        steps = {} if self.steps is None else {"steps": [{"nodeID": name, "scope": at} for name, at in self.steps]}
        return {
            "code": self.code,
            "type": self.type,
            "message": self.message,
            "nodeID": self.node_id,
            "scope": self.scope,
            "attempt": self.attempt,
            **trace,
            **steps,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunError:
        """Read back what `as_json` wrote."""
        return cls(
            value["code"],
            value["type"],
            value["message"],
            value["nodeID"],
            value["scope"],
            value["attempt"],
            value.get("traceback", ""),
            tuple((each["nodeID"], each["scope"]) for each in value["steps"]) if "steps" in value else None,
        )
