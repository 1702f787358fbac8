"""Mapping rules: decorators that declare which node types of n8n a function maps, and how.

Pure. Used by the modules of mappings as a decorator; `mapping` collects what it makes.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.dataclass import dataclass
from anabranch.n8n.job import MappingJob


@dataclass(frozen=True, slots=True)
class MappingRule:
    """How nodes of some types are mapped. Called, it maps one."""

    map: Callable[[MappingJob], None]
    kinds: tuple[str, ...]
    becomes: str
    """Our types, for the documentation."""
    needs_items: bool = False
    """It would do something for an empty list, where n8n does not run it at all."""
    begins: bool = False
    """It begins runs."""

    def __call__(self, job: MappingJob) -> None:
        """Map a node: as part of another mapping."""
        self.map(job)


def maps(
    *kinds: str, becomes: str, needs_items: bool = False, begins: bool = False
) -> Callable[[Callable[[MappingJob], None]], MappingRule]:
    """The function maps these types of n8n."""

    def decorate(function: Callable[[MappingJob], None]) -> MappingRule:
        return MappingRule(function, kinds, becomes, needs_items, begins)

    return decorate
