"""Text jobs: execute the node types of this package in a thread, within a budget.

They always give the same for the same, but may work for a second: too long for a decision, which is made in the event
loop. Used by the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anabranch.engine.handler_contract import HandlerResult, HandlerReturn, Helpers
from anabranch.engine.rules.templates.budget import WORK_MAX, Refused, TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.types.data.items import DATA_INVALID

# Eight times what a template may do: about a second of a thread on a small machine, and enough to go over the largest
# value (1 MB) in every way that these types have.
TEXT_WORK_MAX = 8 * WORK_MAX


def in_thread(
    evaluate: Callable[[Any, TemplateBudget], Any],
) -> Callable[[Any, Mapping[str, Any], Helpers], Awaitable[HandlerReturn]]:
    """A handler whose refusals are final failures of the node: the same data would be refused again."""

    def work_on(config: Any) -> Any:
        try:
            return evaluate(config, TemplateBudget(limit=TEXT_WORK_MAX))
        except Refused as refusal:
            raise NonRetryable(str(refusal), code=DATA_INVALID) from None

    async def execute(config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        return HandlerResult(await helpers.in_thread(work_on, config))

    return execute
