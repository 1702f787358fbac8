"""CSS selectors: which elements of a document match, in time linear in the document.

cssselect reads a selector; each of its parts is then decided for all elements at once, so that no selector goes over
the document more often than it has parts. Used by `extract_html`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import ITEM_UNITS
from anabranch.handlers.types.formats.html_document import HtmlDocument, HtmlElement

if TYPE_CHECKING:
    from cssselect import parser as css
else:
    css = deferred("cssselect.parser")

# 512 characters: longer than those that browsers suggest for an element.
SELECTOR_CHARACTERS_MAX = 512

_KEPT = 256

_Flags = list[bool]


@lru_cache(maxsize=_KEPT)
def parsed(selector: str) -> Sequence[Any]:
    """The alternatives of a selector. Raises ValueError for what it cannot be."""
    try:
        found = css.parse(selector)
    except (css.SelectorError, RecursionError) as refusal:
        raise ValueError(f"`{selector}` is not a CSS selector: {refusal}") from None
    for each in found:
        if each.pseudo_element is not None:
            raise ValueError(f"`{selector}`: pseudo-elements (`::{each.pseudo_element}`) are not supported")
        _check(each.parsed_tree, selector)
    return [each.parsed_tree for each in found]


def matching(document: HtmlDocument, selector: str) -> list[int]:
    """The numbers of the elements that match, in document order. Raises ValueError, and Refused for too much work."""
    columns = [_Matching(document).of(tree) for tree in parsed(selector)]
    return [number for number, flags in enumerate(zip(*columns, strict=True)) if any(flags)]


def _check(tree: Any, selector: str) -> None:
    """Raise ValueError for parts that `_Matching` cannot decide."""
    name = type(tree).__name__
    if name not in _PARTS:
        raise ValueError(f"`{selector}`: {_UNKNOWN.get(name, name)} is not supported")
    if name == "Pseudo" and tree.ident not in _PSEUDO:
        raise ValueError(f"`{selector}`: `:{tree.ident}` is not supported; there are {_shown(_PSEUDO)}")
    if name == "Function":
        if tree.name not in _NTH:
            raise ValueError(
                f"`{selector}`: `:{tree.name}()` is not supported; there are {_shown(_NTH)}, not, is, where"
            )
        css.parse_series(tree.arguments)
    for part in ("selector", "subselector"):
        inner = getattr(tree, part, None)
        if inner is not None:
            _check(inner, selector)
    for inner in getattr(tree, "selector_list", ()):
        _check(inner, selector)


def _shown(names: Mapping[str, Any]) -> str:
    return ", ".join(names)


class _Matching:
    """Decides the parts of a selector for all elements of a document."""

    def __init__(self, document: HtmlDocument) -> None:
        self._document = document
        self._elements = document.elements
        self._parents = document.parents

    def of(self, tree: Any) -> _Flags:
        """For each element, whether it matches."""
        self._document.work.spend(len(self._elements) * ITEM_UNITS)
        return _PARTS[type(tree).__name__](self, tree)

    def element(self, tree: Any) -> _Flags:
        if tree.element is None:
            return [True] * len(self._elements)
        name = tree.element.lower()
        return [each.tag == name for each in self._elements]

    def hash(self, tree: Any) -> _Flags:
        return self._narrowed(tree.selector, lambda each: each.get("id") == tree.id)

    def class_(self, tree: Any) -> _Flags:
        name = tree.class_name
        return self._narrowed(tree.selector, lambda each: name in (each.get("class") or "").split())

    def attribute(self, tree: Any) -> _Flags:
        name = tree.attrib.lower()
        if tree.operator == "exists":
            return self._narrowed(tree.selector, lambda each: each.get(name) is not None)
        value, holds = tree.value.value, _OPERATORS[tree.operator]
        return self._narrowed(tree.selector, lambda each: holds(each.get(name), value))

    def negation(self, tree: Any) -> _Flags:
        wanted, refused = self.of(tree.selector), self.of(tree.subselector)
        return [yes and not no for yes, no in zip(wanted, refused, strict=True)]

    def any_of(self, tree: Any) -> _Flags:
        wanted, columns = self.of(tree.selector), [self.of(each) for each in tree.selector_list]
        return [yes and any(flags) for yes, *flags in zip(wanted, *columns, strict=True)]

    def combined(self, tree: Any) -> _Flags:
        """The elements that the right selector matches below, in or behind those of the left one."""
        left, right = self.of(tree.selector), self.of(tree.subselector)
        reached = self._below(left) if tree.combinator == " " else None
        if tree.combinator == ">":
            reached = [parent >= 0 and left[parent] for parent in self._parents]
        elif tree.combinator in ("+", "~"):
            reached = self._behind(left, nearest=tree.combinator == "+")
        assert reached is not None, "there are four combinators"
        return [yes and here for yes, here in zip(right, reached, strict=True)]

    def pseudo(self, tree: Any) -> _Flags:
        """The elements that a selector with a pseudo-class matches."""
        name = tree.ident
        wanted = self.of(tree.selector)
        if name == "root":
            found = [parent < 0 for parent in self._parents]
        elif name == "empty":
            found = [not any(isinstance(part, (HtmlElement, str)) for part in each.content) for each in self._elements]
        else:
            found = [True] * len(self._elements)
            for from_end, of_type in _PSEUDO[name]:
                positions = self._positions(from_end=from_end, of_type=of_type)
                found = [yes and position == 1 for yes, position in zip(found, positions, strict=True)]
        return [yes and here for yes, here in zip(wanted, found, strict=True)]

    def function(self, tree: Any) -> _Flags:
        wanted = self.of(tree.selector)
        from_end, of_type = _NTH[tree.name]
        step, first = css.parse_series(tree.arguments)
        positions = self._positions(from_end=from_end, of_type=of_type)
        return [yes and _in_series(position, step, first) for yes, position in zip(wanted, positions, strict=True)]

    def _narrowed(self, selector: Any, holds: Callable[[Any], bool]) -> _Flags:
        wanted = self.of(selector)
        return [yes and holds(each) for yes, each in zip(wanted, self._elements, strict=True)]

    def _below(self, left: _Flags) -> _Flags:
        """Whether an element around each one is on the left: parents come before what is in them."""
        found: _Flags = []
        for parent in self._parents:
            found.append(parent >= 0 and (left[parent] or found[parent]))
        return found

    def _behind(self, left: _Flags, *, nearest: bool) -> _Flags:
        """Whether a sibling before each one is on the left, or the one just before it."""
        found = [False] * len(left)
        last: dict[int, bool] = {}
        for number, parent in enumerate(self._parents):
            found[number] = last.get(parent, False)
            last[parent] = left[number] if nearest else left[number] or found[number]
        return found

    def _positions(self, *, from_end: bool, of_type: bool) -> list[int]:
        """The number of each element among its siblings, from 1."""
        self._document.work.spend(len(self._elements) * ITEM_UNITS)
        positions = [0] * len(self._parents)
        counts: Counter[Any] = Counter()
        numbers = range(len(positions))
        for number in reversed(numbers) if from_end else numbers:
            key = (self._parents[number], self._elements[number].tag) if of_type else self._parents[number]
            counts[key] += 1
            positions[number] = counts[key]
        return positions


def _in_series(position: int, step: int, first: int) -> bool:
    """Whether a position is `step * n + first` for an n from 0 on."""
    return position == first if step == 0 else (position - first) % step == 0 and (position - first) // step >= 0


_PARTS: Mapping[str, Callable[[_Matching, Any], _Flags]] = {
    "Element": _Matching.element,
    "Hash": _Matching.hash,
    "Class": _Matching.class_,
    "Attrib": _Matching.attribute,
    "Negation": _Matching.negation,
    "Matching": _Matching.any_of,
    "SpecificityAdjustment": _Matching.any_of,
    "CombinedSelector": _Matching.combined,
    "Pseudo": _Matching.pseudo,
    "Function": _Matching.function,
}

_UNKNOWN = {"Relation": "`:has()`"}

_PSEUDO: Mapping[str, Sequence[tuple[bool, bool]]] = {
    "root": (),
    "empty": (),
    "first-child": ((False, False),),
    "last-child": ((True, False),),
    "only-child": ((False, False), (True, False)),
    "first-of-type": ((False, True),),
    "last-of-type": ((True, True),),
    "only-of-type": ((False, True), (True, True)),
}
"""By name, whether to count from the end, and among elements of the same name: all of these positions have to be 1."""

_NTH: Mapping[str, tuple[bool, bool]] = {
    "nth-child": (False, False),
    "nth-last-child": (True, False),
    "nth-of-type": (False, True),
    "nth-last-of-type": (True, True),
}

_OPERATORS: Mapping[str, Callable[[str | None, str], bool]] = {
    "=": lambda has, value: has == value,
    "!=": lambda has, value: has != value,
    "~=": lambda has, value: has is not None and value in has.split(),
    "|=": lambda has, value: has is not None and (has == value or has.startswith(value + "-")),
    "^=": lambda has, value: bool(value) and has is not None and has.startswith(value),
    "$=": lambda has, value: bool(value) and has is not None and has.endswith(value),
    "*=": lambda has, value: bool(value) and has is not None and value in has,
}
