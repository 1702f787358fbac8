"""Two node types of our own for the dependency review: a service that is sometimes busy, and a tally."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

from pydantic import BaseModel

from anabranch import HandlerResult, node_type


class ServiceBusy(Exception):
    """The advisory service answered 503."""


class LookupConfig(BaseModel):
    package: str
    verdict: str


@node_type("advisoryLookup", title="Look up advisories", config=LookupConfig)
class AdvisoryLookup:
    """Asks the (pretend) advisory service about a package.

    Like a real one it is busy now and then: for about one package in four the first call fails,
    and the node's retry policy takes care of it.
    """

    async def execute(self, config: LookupConfig, context: Any, helpers: Any) -> HandlerResult:
        if helpers.attempt == 1 and zlib.crc32(config.package.encode()) % 4 == 0:
            raise ServiceBusy(f"503, try again: {config.package}")
        return HandlerResult({"package": config.package, "verdict": config.verdict})


class TallyConfig(BaseModel):
    items: list[dict[str, Any]]
    by: str


@node_type("tally", title="Count by a field", config=TallyConfig)
class Tally:
    """Counts items by one of their fields, and lists the names under each value."""

    async def execute(self, config: TallyConfig, context: Any, helpers: Any) -> HandlerResult:
        counts = Counter(str(item[config.by]) for item in config.items)
        return HandlerResult(
            {
                value: {"count": count, "names": [i["package"] for i in config.items if i[config.by] == value][:10]}
                for value, count in sorted(counts.items())
            }
        )
