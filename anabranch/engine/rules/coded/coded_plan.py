"""The compiled form of a coded definition: the options that the database stores. The function itself is in the workers.

Pure. A server without the code reads it from the definition that a worker has registered, so that a start applies
deadline, retention and retry there as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.graph.plan import Body, PlanNode
from anabranch.engine.rules.graph.pools import POOL_NAME_PATTERN, is_pool_name, needed
from anabranch.engine.rules.shared.retry import DEFAULT_STEP_RETRY, RetryPolicy

CODED_KIND = "coded"
CODED_TENANT_ID = ""
"""The tenant of coded definitions, which all tenants see."""

FUNCTION_TYPE = "codedFunction"
STEP_TYPE = "codedStep"
"""The node type of a workflow function's job; no drawn node can have it."""

NO_RETRY = RetryPolicy(max_attempts=1)


@dataclass(frozen=True, slots=True, eq=False)
class CodedPlan:
    """A version of a coded workflow, ready to run."""

    function: PlanNode
    """The node of the function's job; its config names the function."""
    retry: RetryPolicy
    """Of the whole workflow: how often its function is begun again after an error that it did not catch."""
    deadline_ms: int | None = None
    retention_ms: int | None = None
    python: str = ""
    """The Python that functions are called with in this process."""
    input_schema: Mapping[str, Any] | None = field(default=None)
    needs: tuple[str, ...] = ()
    """The pool that it names, as a need (`graph.pools`)."""


def coded_plan(name: str, version: int, options: Mapping[str, Any], *, python: str = "") -> CodedPlan:
    """The plan of a workflow with these options: `{"retry", "deadline", "retention", "pool"}`, null or absent by
    default.

    Raises ValueError that names the invalid option.
    """
    retry = options.get("retry")
    return CodedPlan(
        function=_function_node(name, version),
        retry=NO_RETRY if retry is None else RetryPolicy.parse(retry, default=DEFAULT_STEP_RETRY),
        deadline_ms=_duration(options.get("deadline")),
        retention_ms=_duration(options.get("retention")),
        python=python,
        needs=_needs(options.get("pool")),
    )


def _needs(pool: Any) -> tuple[str, ...]:
    if pool is None:
        return ()
    if not isinstance(pool, str) or not is_pool_name(pool):
        raise ValueError(f"the pool {pool!r} must match {POOL_NAME_PATTERN}")
    return needed((pool,))


def _duration(value: Any) -> int | None:
    return None if value is None else parse_duration(value)


def _function_node(name: str, version: int) -> PlanNode:
    return PlanNode(
        id=FUNCTION_NODE_ID,
        type=FUNCTION_TYPE,
        config={"workflow": name, "version": version},
        output_variable=None,
        join_any=False,
        error_handling="fail_workflow",
        retry=NO_RETRY,
        timeout_ms=None,
        handles=frozenset(),
        exits=frozenset(),
        home=Body(loop=None),
    )
