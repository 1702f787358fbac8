"""`@workflow`: declare a function as a coded workflow; and the registries of workers."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.ports import Store
from anabranch.engine.rules.coded.coded_plan import coded_plan
from anabranch.errors import InvalidDefinition

WorkflowFunction: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""`async def NAME(ctx, input)`."""

Duration = str | int | float | timedelta
"""`"5m"`, `"PT5M"`, a number of milliseconds, or a timedelta; 0 to 5 years."""

# The form of every workflow's name.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

# What the first parameter of a method is called.
_OF_METHODS = frozenset({"self", "cls"})

# As large as the column of versions.
VERSION_MAX = 2**31 - 1


OnError: TypeAlias = Literal["fail", "suspend"]


@dataclass(frozen=True, slots=True, eq=False)
class Workflow:
    """A coded workflow in one version. Calling it calls the function, without any durability."""

    name: str
    version: int
    function: WorkflowFunction
    options: Mapping[str, Any]
    """`retention`, `retry`, `deadline`, as they were written; a timedelta in milliseconds."""
    on_error: OnError | None = None
    """What to do after the last failed attempt: `fail` the run, or `suspend` it; None: the worker's setting."""

    def __call__(self, ctx: Any, input: Any) -> Awaitable[Any]:
        """What the function itself returns, for tests with a context of their own."""
        return self.function(ctx, input)

    @property
    def digest(self) -> str:
        """Differs between deployments whose function, or whose file of it, differs. Other modules do not count."""
        code = getattr(self.function, "__code__", None)
        parts = [self.origin.encode(), b"" if code is None else code.co_code, repr(code and code.co_names).encode()]
        with suppress(OSError, TypeError):
            parts.append(Path(inspect.getsourcefile(self.function) or "").read_bytes())
        return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()

    @property
    def origin(self) -> str:
        """Where the function is, to tell two declarations apart."""
        return f"{self.function.__module__}.{self.function.__qualname__}"


class WorkflowRegistry:
    """Coded workflows by name and version."""

    def __init__(self, workflows: Iterable[Workflow] = ()) -> None:
        self._workflows: dict[tuple[str, int], Workflow] = {}
        self.revision = 0
        """Raised by every change."""
        for each in workflows:
            self.add(each)

    def add(self, declared: Workflow) -> None:
        """Register a workflow. Raises InvalidDefinition if it is not one, or if another function has its name and
        version."""
        if not isinstance(declared, Workflow):
            raise InvalidDefinition(
                f"{declared!r} is not a coded workflow",
                hint='Declare the function with `@workflow(name="…")`, and give what that returns.',
            )
        known = self._workflows.setdefault((declared.name, declared.version), declared)
        if known.origin != declared.origin:
            raise InvalidDefinition(
                f"workflow {declared.name!r} version {declared.version} is declared by {known.origin} already,"
                f" and now by {declared.origin}",
                hint="Give the changed function the next version.",
            )
        # The same function again is a module that was imported twice, or reloaded.
        self._workflows[declared.name, declared.version] = declared
        self.revision += 1

    def find(self, name: str, version: int) -> Workflow | None:
        """The workflow, or None: it is not known here in this version."""
        return self._workflows.get((name, version))

    def known(self) -> Sequence[tuple[str, int]]:
        """Name and version of each, in no order."""
        return list(self._workflows)

    def digests(self) -> Mapping[tuple[str, int], str]:
        """The digest of each, by name and version."""
        return {key: each.digest for key, each in self._workflows.items()}

    def clear(self) -> None:
        """Remove all workflows. Running functions continue."""
        self._workflows.clear()
        self.revision += 1

    @contextmanager
    def redeclaring(self, modules: Collection[str]) -> Iterator[None]:
        """Within this context the modules are imported again: what they no longer declare is removed.

        If that raises, all workflows are as before.
        """
        before = dict(self._workflows)
        self._workflows = {
            key: declared for key, declared in before.items() if declared.function.__module__ not in modules
        }
        self.revision += 1
        try:
            yield
        except BaseException:
            self._workflows = before
            self.revision += 1
            raise

    def __iter__(self) -> Iterator[Workflow]:
        """All of them, by name and version."""
        return iter([self._workflows[key] for key in sorted(self._workflows)])

    def __len__(self) -> int:
        return len(self._workflows)


DECLARED = WorkflowRegistry()
"""Every workflow that a module declared when it was imported; it grows as modules are."""


def workflow(
    function: None = None,
    /,
    *,
    name: str = "",
    version: int = 1,
    retention: Duration | None = None,
    retry: Mapping[str, Any] | None = None,
    deadline: Duration | None = None,
    on_error: OnError | None = None,
    pool: str | None = None,
) -> Callable[[WorkflowFunction], Workflow]:
    """Declare an async function `NAME(ctx, input)` as a coded workflow.

    `name` has up to 64 characters of `a-z`, `0-9`, `_`, `-`; a changed function gets the next
    `version`. `retention` is how long an ended run is kept, in whole days rounded up, `deadline` how
    long a run may take (both durations, longer than nothing), `retry` (`{"maxAttempts": 3, "backoff": {…}}`)
    how often the whole function is tried. With `on_error="suspend"` a run whose function has failed for good is
    suspended, until somebody resumes it: then the function is tried once more. `pool` names the workers that run it.
    Raises InvalidDefinition for a
    declaration that makes no sense, or a version that another function has.
    """
    if function is not None:  # taken only to be refused with words that help
        raise InvalidDefinition(f'{function!r}: write `@workflow(name="…")`; a workflow needs a name that stays')
    options = {
        "retention": without_timedelta(retention),
        "retry": None if retry is None else dict(retry),
        "deadline": without_timedelta(deadline),
    }
    if pool is not None:
        options["pool"] = pool
    _check(name, version, options)
    if on_error not in (None, "fail", "suspend"):
        raise InvalidDefinition(f"workflow {name!r}: on_error is {on_error!r}; it is 'fail' or 'suspend'")

    def declare(function: WorkflowFunction) -> Workflow:
        _check_function(name, function)
        declared = Workflow(name, version, function, options, on_error)
        DECLARED.add(declared)
        return declared

    return declare


def _check_function(name: str, function: WorkflowFunction) -> None:
    """Refuse what a worker could not call as `function(ctx, input)`."""
    if not inspect.iscoroutinefunction(function):
        raise InvalidDefinition(f"workflow {name!r}: {function!r} is not an `async def NAME(ctx, input)`")
    signature = inspect.signature(function)
    takes = f"workflow {name!r}: {function.__qualname__}{signature} "
    if next(iter(signature.parameters), None) in _OF_METHODS:
        raise InvalidDefinition(
            f"{takes}is a method; a workflow is a function `async def NAME(ctx, input)`",
            hint="Declare it outside of the class; a worker has no object to call it on.",
        )
    try:
        signature.bind("ctx", "input")
    except TypeError:
        raise InvalidDefinition(
            f"{takes}cannot be called with two arguments; write `async def {function.__name__}(ctx, input)`",
            hint="The function gets its context and its input, also where it does not need one of them.",
        ) from None


def _check(name: object, version: object, options: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidDefinition(
            f"{name!r} cannot name a workflow: write up to 64 of a-z, 0-9, `_`, `-`, beginning with a letter or digit"
        )
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION_MAX:
        raise InvalidDefinition(f"workflow {name!r}: a version is a whole number from 1 up, not {version!r}")
    try:
        plan = coded_plan(name, version, options)
    except ValueError as refusal:
        raise InvalidDefinition(f"workflow {name!r}: {refusal}") from None
    for option, length_ms in (("retention", plan.retention_ms), ("deadline", plan.deadline_ms)):
        if length_ms == 0:
            raise InvalidDefinition(f"workflow {name!r}: {option} must be longer than 0")


def without_timedelta(duration: Duration | None) -> str | int | float | None:
    """The value with a timedelta replaced by milliseconds, for JSON and `parse_duration`."""
    return duration / timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration


async def register(store: Store, registry: WorkflowRegistry, *, active: bool = False) -> None:
    """Note every workflow of the registry in the table of definitions. Raises StoreUnavailable."""
    for each in registry:
        await store.register_code(
            name=each.name, version=each.version, definition={"workflowOptions": dict(each.options)}, active=active
        )
