"""Which kind of state a run has: the one place that tells drawn runs from coded ones.

Pure. A plan knows what it is a plan of; holders of a state use only what `run_state` has.
"""

from __future__ import annotations

from typing import TypeAlias, overload

from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.shared.run_state import InstanceHead

AnyPlan: TypeAlias = Plan | CodedPlan
AnyState: TypeAlias = InstanceState | CodedState


@overload
def new_state(plan: Plan, head: InstanceHead, *, log_limit: LogLimit = LOG_LIMIT) -> InstanceState: ...


@overload
def new_state(plan: CodedPlan, head: InstanceHead, *, log_limit: LogLimit = LOG_LIMIT) -> CodedState: ...


def new_state(plan: AnyPlan, head: InstanceHead, *, log_limit: LogLimit = LOG_LIMIT) -> AnyState:
    """The state of a run that nothing has happened to yet."""
    state = CodedState(plan, head) if isinstance(plan, CodedPlan) else InstanceState(plan, head)
    state.log_limit = log_limit
    return state
