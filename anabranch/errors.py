"""Everything anabranch raises on purpose: a class per situation, a stable code, a hint.

Every module may import this one; it imports nothing of ours. A new error is added here,
listed in `docs/errors.md`, and tested where it is raised. `RunError` is not raised: it is
how an error is stored in the log of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class AnabranchError(Exception):
    """Something went wrong that a person can act on.

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
        """The same for somebody who asks over a network, and may not know what the operator may."""
        return self.as_json()


class InvalidWorkflow(AnabranchError):
    """A drawn workflow that was refused; `details` lists every problem with its own code and place."""

    code = "INVALID_WORKFLOW"
    hint = "Correct the listed problems and save again; `anabranch validate FILE` lists them without saving."


class InvalidDefinition(AnabranchError):
    """A declaration of a coded workflow, or a call of one of its steps, that makes no sense."""

    code = "INVALID_DEFINITION"
    hint = "Correct the code; nothing was written."


class NotInWorkflow(AnabranchError, RuntimeError):
    """A workflow function asked its event loop for something that only a step may do."""

    code = "NOT_IN_WORKFLOW"
    hint = "Do it in a step: the function itself only computes, and waits for its steps."


class WorkflowStuck(AnabranchError):
    """A workflow function waits for what neither a step nor time can bring about, as for a lock that nobody frees."""

    code = "WORKFLOW_STUCK"
    hint = (
        "Look at the lines that the message names: what the tasks wait for must come from a step, or from another task."
    )


class StepNotAwaited(AnabranchError):
    """A workflow function has asked for a step and ended without awaiting it, so it was not done."""

    code = "STEP_NOT_AWAITED"
    hint = "Write `await` before it, or give it to `asyncio.gather` or a task group."


class InvalidInput(AnabranchError):
    """The input of a run does not fit its limits or the workflow's inputSchema."""

    code = "INVALID_INPUT"
    hint = "Change the input so that it fits; details name the place."


class InvalidRequest(AnabranchError):
    """A request or a command line whose fields make no sense."""

    code = "INVALID_REQUEST"


class UnknownWorkflow(AnabranchError):
    """This process is to run a coded workflow whose function it does not have, in this version."""

    code = "UNKNOWN_WORKFLOW"
    hint = "Pass `--import FILE` with the file that declares it."


class UnknownNodeType(AnabranchError):
    """A run has nodes of types that this process does not have."""

    code = "UNKNOWN_NODE_TYPE"


class LimitReached(InvalidRequest):
    """The tenant has as many things of this kind as it may."""

    code = "LIMIT_REACHED"
    hint = "Delete what is not needed any more."


class BadJson(AnabranchError):
    """Text that should have been JSON and is not."""

    code = "BAD_JSON"
    hint = "Check the text with a JSON linter; the message names line and column."


class TooLarge(AnabranchError):
    """A body or file beyond its limit; nothing of it was kept."""

    code = "TOO_LARGE"


class NotFound(AnabranchError):
    """No such thing, or it belongs to another tenant."""

    code = "NOT_FOUND"


class NameTaken(AnabranchError):
    """Another workflow of the tenant has this name."""

    code = "NAME_TAKEN"
    hint = "Choose another name, or save a new version of the existing workflow."


class DraftExists(AnabranchError):
    """The workflow has a draft already; `details` has its id."""

    code = "DRAFT_EXISTS"
    hint = "Open that draft: a workflow has one at a time."


class DraftConflict(AnabranchError):
    """The draft has been saved since it was read (If-Match); `details` says by whom, when, and its revision now."""

    code = "DRAFT_CONFLICT"
    hint = "Read the draft, merge both changes and save with its revision."


class VersionMismatch(AnabranchError):
    """The workflow has moved on since it was read (If-Match)."""

    code = "VERSION_MISMATCH"
    hint = "Read the newest version, apply the change to it and save again."


class WorkflowHasRuns(AnabranchError):
    """The workflow still has open runs."""

    code = "WORKFLOW_HAS_RUNS"
    hint = "Wait for them, or delete it with `force`, which cancels them."


class SourceTooPowerful(InvalidRequest):
    """The role of a data source may do more than queries need; nothing was saved."""

    code = "SOURCE_TOO_POWERFUL"


class DataSourceInUse(AnabranchError):
    """Saved queries still name the data source."""

    code = "DATA_SOURCE_IN_USE"
    hint = "Delete those queries first, or let them run on another source."


class QueryFailed(AnabranchError):
    """A query that was run by hand failed; the message begins with the code that a node would get."""

    code = "QUERY_FAILED"


class RunIsTerminal(AnabranchError):
    """The run has ended; nothing can be done to it any more."""

    code = "RUN_IS_TERMINAL"
    hint = "Start a new run."


class RunIsOpen(AnabranchError):
    """The run cannot be deleted or retried: it, or the run that started it, has not ended."""

    code = "RUN_IS_OPEN"
    hint = "Wait for its end, or cancel it first."


class RunIsCompleted(AnabranchError):
    """The run has ended well: there is nothing to try again."""

    code = "RUN_IS_COMPLETED"
    hint = "Start a new run with the same input: rerun."


class RetryWouldRepeat(AnabranchError):
    """The run failed on its own data, by its graph alone: tried again, it fails again."""

    code = "RETRY_WOULD_REPEAT"
    hint = "Correct the workflow and run it again (rerun), with another input if need be."


class ParentHasMovedOn(AnabranchError):
    """The run that started this one does not wait for it any more."""

    code = "PARENT_HAS_MOVED_ON"
    hint = "Retry the run that the message names: what it waits for goes on with it. Or retry this one with `detach`."


class ForkRefused(AnabranchError):
    """Nothing would come of the fork: nothing would run, it would fail at once, or the run is coded."""

    code = "FORK_REFUSED"
    hint = "A `dryRun` says what would be reused and what would run, and why."


class PlanChanged(AnabranchError):
    """The plan is another one than the one that was agreed to."""

    code = "PLAN_CHANGED"
    hint = "Look at the plan again (`dryRun`), then send its digest as `ifPlan`."


class RetryRefused(AnabranchError):
    """The run cannot be retried: its workflow is deleted, its family too large, or its log ends in an unknown way."""

    code = "RETRY_REFUSED"
    hint = "Start a new run with the same input: rerun."


class RunFailed(AnabranchError):
    """A result was asked for, and the run has none: it failed. `details` is the run's error."""

    code = "RUN_FAILED"
    hint = "The error says why; the run's log has every step."


class RunCancelled(AnabranchError):
    """A result was asked for, and the run has none: it was cancelled. The message ends with the reason."""

    code = "RUN_CANCELLED"


class TooManySignals(AnabranchError):
    """The run keeps as many unconsumed signals as it may."""

    code = "TOO_MANY_SIGNALS"
    hint = "Send again once the run has taken some of them."


class TooManyPending(AnabranchError):
    """More runs wait to start than may wait."""

    code = "TOO_MANY_PENDING"
    hint = "Retry later, or add workers."


class RunTooLarge(InvalidRequest):
    """A run has more rows than one answer is folded from."""

    code = "RUN_TOO_LARGE"
    hint = "Read its log and steps in pages, or ask for an earlier `seq`."


class TooManyChecks(TooManyPending):
    """More large documents of one tenant wait to be checked than may wait."""

    code = "TOO_MANY_CHECKS"
    hint = "Try again in some seconds, and ask for one check after the other."


class TooManyRequests(AnabranchError):
    """A connection sends more than it may; the request was not looked at."""

    code = "TOO_MANY_REQUESTS"
    hint = "Send fewer a second; who goes on is disconnected."


class TooManyConnections(AnabranchError):
    """The process has as many connections as it may, and all are at work."""

    code = "TOO_MANY_CONNECTIONS"
    hint = "Try again in some seconds, and keep connections open for several requests."


class BadHttp(AnabranchError):
    """Bytes that are no request of HTTP/1.1, or one with a head that is too large; the connection ends."""

    code = "BAD_HTTP"
    hint = "Speak HTTP/1.1 to this port (no TLS), with at most 8 KB in each line of the head."


class EncodingRefused(AnabranchError):
    """A body that is compressed."""

    code = "UNSUPPORTED_ENCODING"
    hint = "Send the body as it is, without the header `Content-Encoding`."


class TooManyJoins(AnabranchError):
    """A connection watches as many runs as it may."""

    code = "TOO_MANY_JOINS"
    hint = "Leave some with workflow_run_leave, or open another connection."


class StoreUnavailable(AnabranchError):
    """The database cannot be reached, or refuses to write; nothing is known to be written.

    The caller may repeat the same call.
    """

    code = "STORE_UNAVAILABLE"
    hint = "Check that the database is up, reachable and has free space; work resumes once it is."


class DatabaseAway(StoreUnavailable):
    """The same in the words of the database, which name its address and user: they are for the operator alone."""

    def as_answer(self) -> dict[str, Any]:
        """Without those words."""
        return {**self.as_json(), "message": "the database cannot be reached, or does not write"}


class ShuttingDown(AnabranchError):
    """This process was told to end and takes no new work; nothing of the request was done."""

    code = "SHUTTING_DOWN"
    hint = "Send it again: another process takes it, or this one once it is back."


class AddressUnusable(AnabranchError):
    """The server cannot listen where it was told to."""

    code = "ADDRESS_UNUSABLE"


class NoApiKey(AnabranchError):
    """The server would be reached by others, and there is no API key that lets anybody in."""

    code = "NO_API_KEY"
    hint = "Make one with `anabranch keys create --tenant default`, or listen on 127.0.0.1."


class NotAuthenticated(AnabranchError):
    """The request carries no API key, or one that is not valid (any more)."""

    code = "UNAUTHORIZED"
    hint = "Send `Authorization: Bearer KEY`; `anabranch keys create --tenant T` makes a key."


class NotPermitted(AnabranchError):
    """The key's role does not allow this."""

    code = "FORBIDDEN"
    hint = "Use a key with a higher role; `anabranch keys create --role ROLE` makes one."


class MethodNotAllowed(AnabranchError):
    """The path is there, and does not know this HTTP method."""

    code = "METHOD_NOT_ALLOWED"
    hint = "The header Allow lists the methods; /openapi.json describes them."


class MediaTypeRefused(AnabranchError):
    """A body that is declared to be something else than JSON."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    hint = "Send the header `Content-Type: application/json`."


class RequestTimeout(AnabranchError):
    """The body of a request did not arrive in time; nothing of it was kept."""

    code = "REQUEST_TIMEOUT"
    hint = "Send it again over a better connection."


class WorkflowIsCoded(AnabranchError):
    """The workflow is a Python function: only the worker that registers it changes it."""

    code = "WORKFLOW_IS_CODED"
    hint = "Change the code and raise its version, or save a drawn workflow under another name."


class SchemaMismatch(AnabranchError):
    """The database has another schema version than this program."""

    code = "SCHEMA_MISMATCH"


class DatabaseMissing(AnabranchError):
    """A command that reads, or changes what is there, was given a database that does not exist, or is empty."""

    code = "DATABASE_NOT_FOUND"


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
    """A value beyond its limit in bytes of JSON."""

    code = "VALUE_TOO_LARGE"
    hint = "Keep large data outside (a file, an object store) and pass a reference."


class TemplateError(AnabranchError):
    """A template that does not compile, or whose evaluation is not allowed or goes wrong."""

    code = "TEMPLATE_ERROR"


class TemplatePathMissing(TemplateError):
    """A template names a path of the context that is not there."""

    code = "TEMPLATE_PATH_MISSING"
    hint = "Give it a value before this node, or write `| default(...)`."


class SecretNotAllowed(TemplateError):
    """A template reads a secret where secrets are not given, or does more with it than insert it."""

    code = "SECRET_NOT_ALLOWED"
    hint = "Write {{secret.NAME}} in the config of a node that sends it, such as httpRequest."


class SecretUnknown(AnabranchError):
    """The tenant has no secret of this name."""

    code = "SECRET_UNKNOWN"
    hint = "Store it with `anabranch secrets set NAME`, or correct the name."


class SecretKeyMissing(AnabranchError):
    """A secret is to be stored or read, and there is no key to encrypt with."""

    code = "SECRET_KEY_MISSING"
    hint = "Set ANABRANCH_SECRET_KEY to 32 bytes in base64 (`openssl rand -base64 32`), or ANABRANCH_SECRET_KEY_FILE."


class SecretKeyWrong(AnabranchError):
    """Something was encrypted with another key than the one at hand, or was changed since."""

    code = "SECRET_KEY_WRONG"
    hint = "Start with the ANABRANCH_SECRET_KEY that it was stored with."


class EgressRefused(AnabranchError):
    """The address is not one that this installation may reach."""

    code = "EGRESS_REFUSED"
    hint = "Only public addresses are reached, unless the operator lists others in ANABRANCH_EGRESS_ALLOW."


class HttpUnreachable(AnabranchError):
    """No answer: the name does not resolve, the connection fails or breaks off. Another try may help."""

    code = "HTTP_UNREACHABLE"


class HttpTimeout(AnabranchError):
    """The answer was not there in time. Another try may help."""

    code = "HTTP_TIMEOUT"


class HttpRefused(AnabranchError):
    """A request that cannot be sent as it is: a forbidden header, an unknown method."""

    code = "HTTP_REQUEST_INVALID"


class HttpAnswerInvalid(AnabranchError):
    """An answer that cannot become a value: a stream, an unknown encoding, broken JSON."""

    code = "HTTP_RESPONSE_INVALID"


class ServerUnreachable(AnabranchError):
    """A server of anabranch gives no answer. What was asked may have been done all the same."""

    code = "SERVER_UNREACHABLE"
    hint = (
        "Check the URL, and that the server is up. Whether the request arrived is not known: look before repeating it."
    )


class ServerAnswerInvalid(AnabranchError):
    """What answers at the URL does not answer as anabranch does."""

    code = "SERVER_ANSWER_INVALID"
    hint = "Check the URL: it names the server, and its prefix if it has one, without `/v1`."


class ServerRefusal(AnabranchError):
    """A server's refusal with a code that this program does not know; it keeps the server's code and words."""

    def __init__(self, code: str, message: str, *, hint: str | None = None, details: Any = None) -> None:
        super().__init__(message, hint=hint, details=details)
        self.code = code


class NonRetryable(Exception):
    """Raise it in a handler or step: this try failed and no further try can help."""

    def __init__(self, message: str = "", *, code: str = "HANDLER_ERROR") -> None:
        super().__init__(message)
        self.code = code


class NodeFailure(Exception):
    """How a node type fails with a code of its own.

    `type_name` is the type that the error has in the log; `retryable` lets the node's retry policy
    decide, and `retry_after_ms` puts the next try off at least so long. `traceback` says where in code that is
    not Python of this process.
    """

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
    """Of a workflow function's: the failed steps among its causes, by name and scope. None: nobody looked."""

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
