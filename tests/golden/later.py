"""The coded workflow that the recording worker does not know: its run waits for one that does."""

from __future__ import annotations

from typing import Any

from anabranch import workflow
from tests.golden.nodes import KEPT, echo


@workflow(name="golden-later-versions", retention=KEPT)
async def later_versions(ctx: Any, input: Any) -> Any:
    """One step."""
    return await ctx.step.run("known", echo, "known")
