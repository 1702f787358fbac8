"""The node types: `textCount` counts words, `textRoute` leaves by another handle for long texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from anabranch import HandlerResult, Helpers, NonRetryable, node_type


class CountConfig(BaseModel):
    """What a `textCount` node takes."""

    model_config = ConfigDict(extra="forbid")

    text: str
    most: int = Field(default=3, ge=1, le=100, description="How many words to list.")


@node_type("textCount", title="Count words", config=CountConfig, timeout="5s")
class TextCount:
    """The number of words, and the most frequent ones."""

    async def execute(self, config: CountConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        words = config.text.lower().split()
        if not words:
            raise NonRetryable("there are no words in the text", code="TEXT_EMPTY")
        helpers.log.info("counting %d words", len(words))
        frequent = Counter(words).most_common(config.most)
        return HandlerResult({"words": len(words), "frequent": [{"word": w, "times": n} for w, n in frequent]})


class RouteConfig(BaseModel):
    """What a `textRoute` node takes."""

    model_config = ConfigDict(extra="forbid")

    text: str
    limit: int = 100


@node_type("textRoute", title="Route by length", config=RouteConfig, handles=("default", "long"))
class TextRoute:
    """Leaves by `long` if the text has more characters than `limit`."""

    async def execute(self, config: RouteConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        is_long = len(config.text) > config.limit
        return HandlerResult({"characters": len(config.text)}, next_handle="long" if is_long else None)
