"""Large values of a job: left out by the worker where a server can hand them out, and put back by the executor.

A value over 64 kB that the log of the run refers to is stored by its hash, and a server gives it to the executors of
the job's tenant. What only a template has made is not stored: it stays in the message, whose size is limited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.value_parts import PART_BYTES_MIN, Division, divide
from anabranch.transport.job_messages import BadMessage, JobPart


class StoredReferences(Protocol):
    """Knows which values the log of a run refers to."""

    async def referenced_values(self, instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        """Those of these hashes that the run refers to. Raises StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class DividedJob:
    """Config and context of a job, with null in the places of the parts."""

    config: Any
    context: dict[str, Any]
    parts: Sequence[JobPart]


async def divide_job(stored: StoredReferences, instance_id: str, config: Any, context: Mapping[str, Any]) -> DividedJob:
    """Leave out what the log of the run refers to. Raises StoreUnavailable."""
    divisions = [*_large("config", config), *_large("context", context)]
    hashes = {part.sha256 for _, division in divisions for part in division.parts}
    found = await stored.referenced_values(instance_id, hashes) if hashes else ()
    whole = {"config": config, "context": dict(context)}
    if isinstance(config, dict):
        whole["config"] = dict(config)
    parts = []
    for (holder, name), division in divisions:
        value = orjson.loads(division.shell)
        for part in division.parts:
            is_stored = part.sha256 in found
            if is_stored:
                parts.append(JobPart((holder, name, *part.path), part.sha256, part.size))
            assert part.content is not None, "it was just divided off"
            value = _with(value, part.path, None if is_stored else part.content.value)
        whole[holder][name] = value
    return DividedJob(whole["config"], whole["context"], parts)


def put_back(config: Any, context: Mapping[str, Any], values: Mapping[JobPart, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Config and context with their parts. Raises BadMessage for a part whose path leads nowhere."""
    whole: Any = {"config": config, "context": context}
    for part, value in values.items():
        try:
            whole = _with(whole, part.path, value)
        except (LookupError, TypeError):
            raise BadMessage(f"the job has no value at {list(part.path)!r:.200}") from None
    return whole["config"], whole["context"]


def _large(holder: str, values: Any) -> Iterator[tuple[tuple[str, str], Division]]:
    for name, value in values.items() if isinstance(values, Mapping) else ():
        raw = orjson.dumps(value)
        if len(raw) > PART_BYTES_MIN:
            yield (holder, name), divide(value, raw)


def _with(whole: Any, path: Sequence[str | int], value: Any) -> Any:
    """The value with another one at a path; it is changed."""
    if not path:
        return value
    holder = whole
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]]  # a path to what is not there leads nowhere
    holder[path[-1]] = value
    return whole
