"""HTML as a list of its elements, read by libxml2 (lxml) as browsers read it, more or less, and within limits.

Used by `extract_html` and `html_to_markdown`. libxml2 takes time linear in the text, runs nothing and loads nothing.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget

if TYPE_CHECKING:
    from lxml import etree
else:
    etree = deferred("lxml.etree")

# 200 levels: pages have some 30. libxml2 leaves out what is below 256.
HTML_DEPTH_MAX = 200

# 256 attributes of one element: real ones have ten. libxml2 takes time by the square of their number.
HTML_ATTRIBUTES_MAX = 256

# An element costs a microsecond to visit, its text another one (measured).
ELEMENT_UNITS = 4 * ITEM_UNITS

_RAW_TEXT = frozenset({"script", "style"})


class _Counter:
    """Receives each tag from the parser; refuses documents whose tree would be too expensive."""

    def __init__(self, node: str, work: TemplateBudget) -> None:
        self._node = node
        self._work = work

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > HTML_ATTRIBUTES_MAX:
            raise Refused(f"`{self._node}`: an element has more than {HTML_ATTRIBUTES_MAX} attributes")
        self._work.spend(ELEMENT_UNITS + ELEMENT_UNITS * len(attributes))

    def close(self) -> None:
        """Nothing is built."""


def _parsed(data: bytes, target: _Counter | None) -> Any:
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, target=target)
    try:
        return etree.fromstring(data, parser)
    except etree.LxmlError:
        return None  # there is no element in it


class HtmlDocument:
    """The elements of a text in document order, each with the number of the element around it."""

    def __init__(self, text: str, node: str, work: TemplateBudget) -> None:
        """Raises Refused for a text that is nested too deeply, or costs too much."""
        self.work = work
        data = text.encode()
        # The first time only to count: no tree is built, which is what can take long.
        _parsed(data, _Counter(node, work))
        root = _parsed(data, None)
        self.root: Any = root
        self.elements: list[Any] = [] if root is None else list(root.iter())
        work.spend(len(self.elements) * ELEMENT_UNITS)
        numbers = {element: number for number, element in enumerate(self.elements)}
        self.parents = [-1 if each is root else numbers[each.getparent()] for each in self.elements]
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent < 0 else depths[parent] + 1)
        if max(depths, default=0) > HTML_DEPTH_MAX:
            raise Refused(f"`{node}`: the elements are nested more than {HTML_DEPTH_MAX} levels deep")

    @cached_property
    def sizes(self) -> list[int]:
        """About what each element with everything in it costs to write."""
        found = [
            ELEMENT_UNITS
            + len(each.text or "")
            + len(each.tail or "")
            + sum(len(name) + len(value) for name, value in each.attrib.items())
            for each in self.elements
        ]
        for number in range(len(found) - 1, 0, -1):
            found[self.parents[number]] += found[number]
        return found

    def text_of(self, number: int) -> str:
        """The text of an element and everything in it."""
        self.work.spend(self.sizes[number])
        return "".join(self.elements[number].itertext())

    def inner_html_of(self, number: int) -> str:
        """The HTML in an element."""
        self.work.spend(self.sizes[number])
        element = self.elements[number]
        text = element.text or ""
        begin = text if element.tag in _RAW_TEXT else html.escape(text, quote=False)
        return begin + "".join(etree.tostring(child, encoding="unicode", method="html") for child in element)

    def attribute_of(self, number: int, name: str) -> str | None:
        """The value of an attribute; None if the element has none of this name."""
        value: str | None = self.elements[number].get(name)
        return value
