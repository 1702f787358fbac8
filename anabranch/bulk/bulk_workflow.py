"""The coded system workflow of bulk runs: it first selects all runs, then acts on them page by page.

Every worker knows it. It is a run like others: it survives its worker, is seen with `runs show`, and is cancelled by
`runs cancel`.
"""

from __future__ import annotations

from typing import Any

from anabranch.bulk.bulk_actions import BULK_NAME, PAGE_RUNS, RUNS_MAX, BulkActions
from anabranch.durable.context import Context
from anabranch.durable.definition import Workflow
from anabranch.errors import NonRetryable

BULK_VERSION = 1

# 10 attempts, at most a minute apart: an outage of some minutes does not end a bulk run.
_RETRY = {"maxAttempts": 10, "backoff": {"kind": "exp", "base": "1s", "max": "60s"}}

_OPTIONS = {"retention": None, "retry": {"maxAttempts": 1}, "deadline": None}


def bulk_workflow(actions: BulkActions) -> Workflow:
    """The workflow, with these actions as its steps."""

    async def bulk(ctx: Context, input: Any) -> Any:
        """Choose the runs, then act on them page by page. Returns their number, and the counts by outcome."""
        ids: list[str] = []
        before = None
        while True:
            chosen = await ctx.step.run("choose", actions.choose, ctx.run_id, input, before, retry=_RETRY)
            ids += chosen["ids"]
            before = chosen["before"]
            if len(ids) > RUNS_MAX:
                raise NonRetryable(f"more than {RUNS_MAX:,} runs meet the filter", code="TOO_MANY_RUNS")
            if before is None:
                break
        await ctx.step.run("total", _total, len(ids))
        counts: dict[str, int] = {}
        for first in range(0, len(ids), PAGE_RUNS):
            page = ids[first : first + PAGE_RUNS]
            result = await ctx.step.run("page", actions.act, ctx.run_id, input, page, retry=_RETRY)
            for outcome, runs in result["counts"].items():
                counts[outcome] = counts.get(outcome, 0) + runs
        return {"total": len(ids), "counts": counts}

    return Workflow(BULK_NAME, BULK_VERSION, bulk, _OPTIONS)


async def _total(count: int) -> int:
    return count
