"""`topic`: begins a run for each message on the topics that a pattern fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.entry_points import TOPIC_TYPE
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import Problem
from anabranch.handlers.types.triggers.trigger_spec import TriggerConfig, trigger_spec
from anabranch.triggers.topics.topic_patterns import TOPIC_CHARACTERS_MAX, problem_of_pattern


class TopicConfig(TriggerConfig):
    """What to listen to."""

    topic: str = Field(
        min_length=1,
        max_length=TOPIC_CHARACTERS_MAX,
        description="A topic, or a pattern: `*` stands for one segment, `#` for any number of them.",
        json_schema_extra=x_ui(placeholder="orders.*.created"),
    )


def _problems(config: Mapping[str, Any]) -> Iterator[Problem]:
    pattern = config.get("topic")
    problem = problem_of_pattern(pattern) if isinstance(pattern, str) and pattern else None
    if problem is not None:
        yield "BAD_TOPIC", "/topic", problem


SPEC = trigger_spec(
    TOPIC_TYPE,
    TopicConfig,
    title="Message on a topic",
    icon="inbox",
    description="Starts a run for each message on a topic; the payload is the message.",
    inspect=_problems,
)
