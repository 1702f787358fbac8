"""What the order of a log must show, whatever the timing: joins decided at once, loops as wide as they may be.

Called by the tests beside the oracle, which says what ends but not when. Read from the log and the
document alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anabranch.engine.rules.events import ENDINGS, Event, EventType
from tests.oracle.prediction import ActivationKey
from tests.oracle.shape import Shape


def disorder(document: Mapping[str, Any], log: Sequence[Event]) -> Iterator[str]:
    """Each place where the log shows a join that was decided late or early, or a loop too wide or too narrow."""
    reading = _Reading(Shape(document), log)
    yield from reading.joins()
    yield from reading.loops()


class _Reading:
    def __init__(self, shape: Shape, log: Sequence[Event]) -> None:
        self._shape = shape
        self._log = log
        self._ended: dict[ActivationKey, Event] = {(e.node_id, e.scope): e for e in log if e.type in ENDINGS}
        # A result from outside is an ending that no other event can bring about.
        self._outside = [e.seq for e in log if e.type in ENDINGS and not self._follows_from_another(e)]

    def joins(self) -> Iterator[str]:
        """A node is dispatched or skipped right after the edge that decides it, before any other result."""
        begun: dict[ActivationKey, Event] = {}
        for event in self._log:
            if event.node_id and event.type in (EventType.NODE_DISPATCHED, EventType.NODE_SKIPPED):
                begun.setdefault((event.node_id, event.scope), event)
        for (name, scope), event in begun.items():
            deciding = self._decided_at(name, scope)
            if deciding is not None and event.type is EventType.NODE_DISPATCHED:
                late = any(deciding < seq < event.seq for seq in self._outside)
                if late or event.seq < deciding:
                    yield f"{name} in {scope!r} was dispatched at {event.seq}, its edges decided at {deciding}"

    def loops(self) -> Iterator[str]:
        """No more iterations open than allowed, and as many as allowed from the beginning."""
        for opened in (event for event in self._log if event.type is EventType.LOOP_OPENED):
            name, config = opened.node_id, self._shape.nodes[opened.node_id]["config"]
            width = 1 if "while" in config else config.get("concurrency", 1)
            body = [node for node, home in self._shape.home.items() if home == name]
            prefix = f"{opened.scope}/{name}[".lstrip("/")
            remaining: dict[str, int] = {}
            widest = at_once = 0
            until = next((seq for seq in self._outside if seq > opened.seq), len(self._log) + 1)
            for event in self._log:
                if event.scope.startswith(prefix) and "/" not in event.scope[len(prefix) :]:
                    left = remaining.setdefault(event.scope, len(body))
                    remaining[event.scope] = left - (event.type in ENDINGS)
                    widest = max(widest, sum(1 for left in remaining.values() if left))
                if event.seq < until:
                    at_once = len(remaining)
            if widest > width:
                yield f"{name} in {opened.scope!r} had {widest} iterations open, its concurrency is {width}"
            if "while" not in config and body and at_once < min(width, opened.payload.value["count"]):
                yield f"{name} in {opened.scope!r} opened {at_once} iterations at once, its concurrency is {width}"

    def _decided_at(self, name: str, scope: str) -> int | None:
        """The seq of the ending that gave the deciding verdict; None where the scope's opening did."""
        live: list[int] = []
        every: list[int] = []
        for source, handle, _ in (edge for edge in self._shape.forward if edge[2] == name):
            if self._shape.home[name] == source:
                live.append(0)
                every.append(0)
            elif (source, scope) in self._ended:
                ending = self._ended[source, scope]
                every.append(ending.seq)
                if ending.type is not EventType.NODE_SKIPPED and ending.next_handle == handle:
                    live.append(ending.seq)
        joins_any = self._shape.nodes[name].get("joinMode") == "any"
        return (min(live, default=0) if joins_any else max(every, default=0)) or None

    def _follows_from_another(self, event: Event) -> bool:
        return event.type is EventType.NODE_SKIPPED or self._shape.nodes[event.node_id]["type"] == "loop"
