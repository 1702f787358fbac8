"""Topics and the patterns that subscribe to them.

Pure. Called by the service on subscribe and publish, and by `publisher`. A topic is
segments with dots between, `orders.eu.created`. In a pattern `*` stands for one segment and `#` for
any number of them, none included.
"""

from __future__ import annotations

from collections.abc import Sequence

# 255 characters, as for keys: fits every database's index.
TOPIC_CHARACTERS_MAX = 255

# 16 segments: names with more levels are paths of something. It bounds what a message costs where a tenant
# has thousands of patterns full of wildcards.
SEGMENTS_MAX = 16

ONE = "*"
ANY = "#"

_NOT_IN_SEGMENTS = frozenset("/*#")


def problem_of_topic(topic: str) -> str | None:
    """Why this is not a valid topic; None if it is."""
    return _problem(topic, "a topic", wildcards=False)


def problem_of_pattern(pattern: str) -> str | None:
    """Why this is not a valid pattern; None if it is."""
    return _problem(pattern, "a pattern", wildcards=True)


def fits(pattern: str, topic: str) -> bool:
    """Whether the pattern matches the topic. Takes time proportional to the product of their lengths."""
    segments = topic.split(".")
    reached = [True] + [False] * len(segments)
    """Which beginnings of the topic the pattern so far fits, by their number of segments."""
    for part in pattern.split("."):
        reached = _after(part, segments, reached)
    return reached[-1]


def heads_of(topic: str) -> Sequence[str]:
    """The possible first segments of patterns that match this topic, for an index lookup."""
    return (topic.split(".", 1)[0], ONE, ANY)


def head_of(pattern: str) -> str:
    """The first segment of a pattern."""
    return pattern.split(".", 1)[0]


def _after(part: str, segments: Sequence[str], reached: Sequence[bool]) -> list[bool]:
    if part == ANY:
        first = reached.index(True) if True in reached else len(reached)
        return [number >= first for number in range(len(reached))]
    steps = (before and part in (ONE, segment) for before, segment in zip(reached[:-1], segments, strict=True))
    return [False, *steps]


def _problem(text: str, what: str, *, wildcards: bool) -> str | None:
    if not 1 <= len(text) <= TOPIC_CHARACTERS_MAX:
        return f"{what} has 1 to {TOPIC_CHARACTERS_MAX} characters, not {len(text)}"
    segments = text.split(".")
    if len(segments) > SEGMENTS_MAX:
        return f"{what} has at most {SEGMENTS_MAX} segments, not {len(segments)}"
    for segment in segments:
        if not segment:
            return f"{what} is segments with single dots between; {text!r} has an empty one"
        if wildcards and segment in (ONE, ANY):
            continue
        if not segment.isprintable() or " " in segment or not _NOT_IN_SEGMENTS.isdisjoint(segment):
            allowed = "; `*` and `#` stand alone between dots" if wildcards else "; only patterns have `*` and `#`"
            return f"a segment has printable characters without spaces, `/`, `*` and `#`{allowed}"
    return None
