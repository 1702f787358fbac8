"""Requests about runs: the options and the result of a start, and checks before anything is sent or written.

Used by clients, which check alike whether they talk to a database or to a server, and by the service
for other callers. Types are looked at too: programs are not all checked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.errors import InvalidRequest

if TYPE_CHECKING:
    from anabranch.engine.rules import values
    from anabranch.engine.rules.events import Status
    from anabranch.engine.rules.run_filter import InputFilter
else:
    values = deferred("anabranch.engine.rules.values")

# The prefixes of keys of triggers: if a caller used such a key, an occurrence would be lost.
RESERVED_PREFIXES = ("schedule:", "topic:", "failure:", "hook:")

COMMAND_LINE = "cli"
"""Who did it, where a command was run on the database itself."""

DATABASE_CLIENT = "a client of the database"
"""Who did it, in the log, where a program called a `Client` of the database itself."""

# 8 filters of 32 steps: more than a person uses. Each is evaluated for every run that a list scans, and SQLite joins a
# table for each step, 64 at most.
INPUT_FILTERS_MAX = 8
INPUT_PATH_STEPS_MAX = 32

# As large as the columns of versions and of days.
WHOLE_NUMBER_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How a run is started. Times are milliseconds since the epoch."""

    version: int | None = None
    """Of the workflow; None: the newest. The run stays on it."""
    idempotency_key: str | None = None
    """A repeated key returns the first run that was started with it."""
    retention_days: int | None = None
    """How many days it is kept after its end; None: the workflow's setting. Limited by the operator's maximum."""
    available_at: int | None = None
    """Not before then; None, or in the past: now."""
    deadline_at: int | None = None
    """It fails at this time; None: the workflow's setting."""
    started_by: str | None = None
    """The id of the key that asks for it, or `cli`; shown with the run."""
    rerun_of: str | None = None
    """The run that is repeated."""
    trigger: str | None = None
    """The trigger node that it begins at; None: `start`."""


START_NOW = StartOptions()

SAME_INPUT: Any = object()
"""Marks a re-run without a new input: it uses that of the repeated run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """How a run is retried."""

    reason: str | None = None
    """Kept in the log."""
    all_failed_steps: bool = False
    """For a coded run: execute every failed step again, not only the causes of its failure."""
    new_keys: bool = False
    """Repeated nodes and steps get new idempotency keys, for services that return stored errors."""
    detach: bool = False
    """Continue although the parent no longer waits; the parent does not get the result."""
    deadline_ms: int | None = None
    """The new deadline, counted from now; None: as long as the run had at first."""
    idempotency_key: str | None = None
    """A repeated key returns the answer of the first retry with it."""
    dry_run: bool = False
    """Show what would happen without doing it."""


RETRY = RetryOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """Options of a fork: its starting point, and the definition that it follows."""

    at_seq: int | None = None
    """Reuse what had ended by this row of the log; None: everything that has ended."""
    chosen: tuple[tuple[str, str | None], ...] = ()
    """Nodes that run again, each with a scope, or None for all of its activations."""
    redo_failed: bool = False
    """Failures that the graph handled are not reused."""
    version: int | None = None
    """Of the workflow; None: the run's own."""
    graph: Mapping[str, Any] | None = None
    """A definition that is not saved: the fork is a test run."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """The ids that nodes had in the run, by their new ones."""
    signals: bool = True
    """Signals that nothing has taken go along."""
    if_plan: str | None = None
    """Only if the plan has this digest."""
    idempotency_key: str | None = None
    started_by: str | None = None
    dry_run: bool = False


FORK = ForkOptions()

_FORK_FIELDS = {
    "at": dict,
    "version": int,
    "graph": dict,
    "input": object,
    "renames": dict,
    "redo": list,
    "redoFailed": bool,
    "signals": str,
    "ifPlan": str,
    "dryRun": bool,
}
_AT_FIELDS = {"seq": int, "nodeID": str, "scope": str}
_REDO_FIELDS = {"nodeID": str, "scope": str}
_SIGNALS = ("prefix", "none")


def read_fork(document: object) -> tuple[ForkOptions, Any]:
    """The options that a body of `POST …/fork` has, and its input (SAME_INPUT: it has none). Raises InvalidRequest."""
    asked = check_fields(document, _FORK_FIELDS)
    at, signals = asked.get("at"), asked.get("signals") or "prefix"
    if at is not None and check_fields(at, _AT_FIELDS, "/at").keys().isdisjoint(("seq", "nodeID")):
        raise InvalidRequest("`at` has neither a `seq` nor a `nodeID`", hint="Name a row of the log, or a node.")
    if signals not in _SIGNALS:
        raise InvalidRequest(f"/signals: it is `prefix` or `none`, not {signals!r:.80}")
    at = at or {}
    _check_number(at.get("seq"), "the seq of a row", "/at/seq")
    check_version(asked.get("version"), "/version")
    if "scope" in at and "nodeID" not in at:
        raise InvalidRequest("/at: a `scope` without a `nodeID`", hint="Name the node that runs again there.")
    redo = [check_fields(each, _REDO_FIELDS, f"/redo/{number}") for number, each in enumerate(asked.get("redo") or ())]
    if any("nodeID" not in each for each in redo):
        raise InvalidRequest("/redo: each of them needs a `nodeID`")
    renames = asked.get("renames") or {}
    renames = check_fields(renames, dict.fromkeys(renames, str), "/renames")
    chosen = [at, *redo] if "nodeID" in at else redo
    options = ForkOptions(
        at_seq=at.get("seq"),
        chosen=tuple((each["nodeID"], each.get("scope")) for each in chosen),
        redo_failed=bool(asked.get("redoFailed")),
        version=asked.get("version"),
        graph=asked.get("graph"),
        renames=renames,
        signals=signals == "prefix",
        if_plan=asked.get("ifPlan"),
        dry_run=bool(asked.get("dryRun")),
    )
    return options, document["input"] if isinstance(document, Mapping) and "input" in document else SAME_INPUT


class RetryArguments(TypedDict, total=False):
    """`RetryOptions`, as clients take them; `deadline` in seconds."""

    reason: str
    all_failed_steps: bool
    new_keys: bool
    detach: bool
    deadline: float
    idempotency_key: str
    dry_run: bool


def retry_options(given: RetryArguments) -> RetryOptions:
    """The options that these arguments are. Raises InvalidRequest."""
    known = dict(given)
    unknown = sorted(known.keys() - RetryArguments.__annotations__.keys())
    if unknown:
        raise InvalidRequest(
            f"a retry takes no argument {unknown[0]!r}; it takes {', '.join(RetryArguments.__annotations__)}",
            hint="`steps` of a request is `all_failed_steps=True` here, and a deadline is in seconds.",
        )
    deadline = known.pop("deadline", None)
    check_seconds(deadline, "deadline")
    return RetryOptions(
        **known,  # type: ignore[arg-type]  # checked by the type of the arguments
        deadline_ms=None if deadline is None else round(deadline * 1000),  # type: ignore[operator]
    )


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A start's answer."""

    instance_id: str
    status: Status
    created: bool
    """False: the idempotency key met an earlier run."""
    newest: str | None = None
    """Of an earlier run: the newest one that repeats it, directly or through others."""


def check_start(*, version: object, retention_days: object) -> None:
    """Raise InvalidRequest unless these are None or valid numbers."""
    _check_number(version, "version", "/version")
    _check_number(retention_days, "retentionDays", "/retentionDays")


def check_start_key(key: object) -> None:
    """Refuse an idempotency key that no start of a person or program may have. Raises InvalidRequest."""
    values.check_key(key, "an idempotency key")
    if is_reserved(str(key)):
        *first, last = map(repr, RESERVED_PREFIXES)
        message = f"idempotency keys that begin with {', '.join(first)} or {last} are reserved"
        raise InvalidRequest(
            message,
            hint="Triggers start their runs under such keys; choose another beginning.",
            details=[{"code": "RESERVED_KEY", "pointer": "/idempotencyKey", "message": message}],
        )


def is_reserved(key: str) -> bool:
    """Whether the key is reserved for triggers."""
    return key.startswith(RESERVED_PREFIXES)


def check_moment(at: object, name: str) -> None:
    """Raise InvalidRequest unless it is None or an aware datetime within the years that can be written."""
    if at is None:
        return
    if not isinstance(at, datetime):
        raise InvalidRequest(f"{name} is a datetime, not {at!r:.80}", hint="Write datetime.now(UTC) + timedelta(…).")
    if at.utcoffset() is None:
        raise InvalidRequest(f"{name} has no time zone", hint="Write datetime.now(UTC), or give it a tzinfo.")
    try:
        at.astimezone(UTC) + timedelta(milliseconds=1)  # it is rounded to milliseconds
    except OverflowError:
        raise InvalidRequest(f"{name} is not within the years 1 to 9999 of UTC") from None


def check_limit(limit: object) -> None:
    """Raise InvalidRequest unless it is a valid number of items of a list."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= WHOLE_NUMBER_MAX:
        raise InvalidRequest(f"a list has at least 1 item, a whole number, not {limit!r:.80}")


def check_seconds(seconds: object, name: str) -> None:
    """Raise InvalidRequest unless it is None or a length of time in seconds."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
        raise InvalidRequest(f"{name} is a number of seconds, not {seconds!r:.80}")


_TYPE_WORDS = {dict: "an object", list: "a list", str: "text", int: "a whole number", bool: "true or false"}


def check_fields(value: object, fields: Mapping[str, type], pointer: str = "") -> dict[str, Any]:
    """The fields of an object that are not null. Raises InvalidRequest, unless they are of these names and types."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{pointer or 'the request'}: it is an object, not {value!r:.80}")
    for name, given in value.items():
        if name not in fields:
            raise InvalidRequest(f"{pointer}/{name}: unknown field", hint=f"The fields are {', '.join(fields)}.")
        is_other = not isinstance(given, fields[name]) or (isinstance(given, bool) and fields[name] is int)
        if given is not None and is_other:
            raise InvalidRequest(f"{pointer}/{name}: it is {_TYPE_WORDS[fields[name]]}, not {given!r:.80}")
    return {name: given for name, given in value.items() if given is not None}


def check_version(version: object, pointer: str) -> None:
    """Raise InvalidRequest unless it is None or can be the number of a version."""
    _check_number(version, "a version", pointer)


def _check_number(number: object, what: str, pointer: str) -> None:
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= WHOLE_NUMBER_MAX:
        message = f"{what} is a whole number from 1 to {WHOLE_NUMBER_MAX}, not {number!r:.80}"
        raise InvalidRequest(message, details=[{"code": "INVALID_VALUE", "pointer": pointer, "message": message}])


def check_input_filters(filters: Sequence[InputFilter]) -> None:
    """Reject filters on inputs that cost too much for each run. Raises InvalidRequest."""
    if len(filters) > INPUT_FILTERS_MAX:
        raise InvalidRequest(f"a list takes at most {INPUT_FILTERS_MAX} filters on the input, not {len(filters)}")
    for path, _ in filters:
        if len(path) > INPUT_PATH_STEPS_MAX:
            shown = ".".join(path)[:80]
            raise InvalidRequest(f"a path into the input has at most {INPUT_PATH_STEPS_MAX} steps: {shown}…")


def is_run_id(text: str) -> bool:
    """Could this be the id of a run? If not, it is not found without a query."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
