"""The context of an activation: what `{{ctx.…}}` sees, as a cheap snapshot.

Each scope keeps one persistent map of name → (seq, value); a snapshot is a tuple of the maps
from the activation's scope up to the root, so taking one costs the depth of nesting and no
copy, however many names there are. Later writers win by `seq`, whichever scope they wrote in.
Loop names (`item`, `index`, `count`, `results`) are bound when an iteration opens; inner ones
shadow outer ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from immutables import Map

Entries = Map[str, tuple[int, Any]]
"""What one scope has written: name → (seq of the writing event, value)."""

NO_ENTRIES: Entries = Map()

_MISSING: Any = object()


class Prefix:
    """The first items of a list that goes on growing: copied when somebody looks, not when it is bound."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._length = len(items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prefix) and self.copy() == other.copy()

    __hash__ = None  # type: ignore[assignment]  # a list by other means

    def __repr__(self) -> str:
        return f"Prefix({self.copy()!r})"

    def copy(self) -> list[Any]:
        """The items there were when this was made."""
        return self._items[: self._length]


class Context(Mapping[str, Any]):
    """A frozen view of the names visible to one activation. Values are shared: do not change them."""

    __slots__ = ("_bindings", "_maps")

    def __init__(self, maps: tuple[Entries, ...], bindings: tuple[Mapping[str, Any], ...] = ()) -> None:
        """`maps` and `bindings` (loop names) are given innermost first."""
        self._maps = maps
        self._bindings = bindings

    def within(self, bindings: Mapping[str, Any]) -> Context:
        """The same view from inside an iteration with these loop names."""
        return Context(self._maps, (bindings, *self._bindings))

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        for binding in self._bindings:
            if name in binding:
                value = binding[name]
                return value.copy() if isinstance(value, Prefix) else value
        newest = None
        for entries in self._maps:
            entry = entries.get(name)
            if entry is not None and (newest is None or entry[0] > newest[0]):
                newest = entry
        return default if newest is None else newest[1]

    def __getitem__(self, name: str) -> Any:
        value = self.get(name, _MISSING)
        if value is _MISSING:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        for names in (*self._bindings, *self._maps):
            for name in names:
                if name not in seen:
                    seen.add(name)
                    yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in (*self._bindings, *self._maps))
