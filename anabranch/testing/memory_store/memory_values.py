"""The large values of a memory database: each once by its content for a tenant, with the runs that refer to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from anabranch.engine.rules.events import Event
from anabranch.engine.rules.value_parts import PART_BYTES_MIN


class MemoryValues:
    """Large values in a memory store, like the tables of a SQL store. Logs in memory have their payloads whole."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[str, str], bytes] = {}
        """By tenant and hash."""
        self._references: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._of: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)

    def keep(self, tenant_id: str, instance_id: str, events: Iterable[Event]) -> None:
        """Store what new rows of a run refer to."""
        for event in events:
            if event.payload.size <= PART_BYTES_MIN:
                continue
            division = event.payload.division
            for part in () if division is None else division.parts:
                key = (tenant_id, part.sha256)
                if key not in self.bodies:
                    assert part.content is not None, "a value that is taken over is still stored"
                    self.bodies[key] = part.content.raw
                self._references[key].add(instance_id)
                self._of[instance_id].add(key)

    def remove(self, instance_id: str) -> None:
        """Remove what only this run refers to."""
        for key in self._of.pop(instance_id, ()):
            self._references[key].discard(instance_id)
            if not self._references[key]:
                del self._references[key], self.bodies[key]

    def names_of(self, instance_id: str) -> set[str]:
        """The hashes of the values that a run refers to."""
        return {sha256 for _, sha256 in self._of.get(instance_id, ())}
