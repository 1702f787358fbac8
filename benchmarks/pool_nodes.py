"""The node type of `benchmarks.pools`: imported by its worker and by its executor."""

from __future__ import annotations

from typing import Any

from anabranch import HandlerResult, node_type

POOL = "bench"
TYPE = "benchmarkPool"


@node_type(TYPE, pool=POOL)
class BenchmarkPool:
    """Returns at once."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        """Do nothing."""
        return HandlerResult({"v": 1})
