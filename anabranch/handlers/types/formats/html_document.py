"""HTML as a list of its elements, read as the HTML standard says (justhtml), and within limits.

Used by `extract_html`, `html_layout` and `html_to_markdown`. justhtml is plain Python, takes time linear in the tree,
runs nothing and loads nothing. The one thing that makes a tree much larger than its text, marks that are never closed,
is counted before it is read (`_check_marks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import re2

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget

if TYPE_CHECKING:
    import justhtml
else:
    justhtml = deferred("justhtml")

# 200 levels: pages have some 30.
HTML_DEPTH_MAX = 200

# 256 attributes of one element: real ones have ten.
HTML_ATTRIBUTES_MAX = 256

# 250,000 elements that a reader adds by itself: where marks such as `<b>` are not closed, it opens them again in every
# paragraph that follows. Pages need some hundred; a quarter of a million takes a second and 80 MB.
HTML_REOPENED_MAX = 250_000

# An element costs some five microseconds to read and to visit (measured).
ELEMENT_UNITS = 16 * ITEM_UNITS

# The standard's marks that are opened again, and elements without meaning for that.
_MARKS = ("b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u")
_PLAIN = "span|a|abbr|cite|q|label|br|img|input|wbr|svg|path|g|use|rect|circle|line|polygon|polyline|defs|sub|sup|time"
_ATTRIBUTES = r"""(?:\s+[\w:.@-]+(?:\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'=<>`/]+))?)*\s*/?"""
_PLAIN_TAG = re2.compile(rf"(?i)</?(?:{_PLAIN}){_ATTRIBUTES}>")
_CLOSED_MARK = re2.compile("(?i)" + "|".join(rf"<{name}{_ATTRIBUTES}>[^<]*</{name}\s*>" for name in _MARKS))
_MARK = re2.compile(rf"(?i)<(?:{'|'.join(_MARKS)})[\s/>]")
_PLAINLY_WRITTEN_MARK = re2.compile(rf"(?i)<(?:{'|'.join(_MARKS)}){_ATTRIBUTES}>")
# 8: marks within marks are taken away from the inside out.
_MARKS_WITHIN = 8
# The standard keeps three open marks that are the same, and forgets older ones.
_SAME_MARKS = 3

VOID = frozenset({"area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen",
                  "link", "meta", "param", "source", "track", "wbr"})  # fmt: skip
"""Elements that have no content and no end."""

RAW_TEXT = frozenset({"style", "script", "xmp", "iframe", "noembed", "noframes", "plaintext", "noscript"})
"""Elements whose content is text in which nothing is escaped."""

CODE = frozenset({"script", "style"})
"""Elements whose text nobody sees."""

_TEXT_ESCAPES = str.maketrans({"&": "&amp;", "\xa0": "&nbsp;", "<": "&lt;", ">": "&gt;"})
_VALUE_ESCAPES = str.maketrans({"&": "&amp;", "\xa0": "&nbsp;", '"': "&quot;"})


class HtmlComment:
    """A comment."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class HtmlElement:
    """An element with its attributes and what stands in it."""

    __slots__ = ("attributes", "content", "parent", "tag")

    def __init__(self, tag: str, attributes: Mapping[str, str], parent: HtmlElement | None) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.content: list[Content] = []

    @property
    def children(self) -> list[HtmlElement]:
        """The elements in it."""
        return [each for each in self.content if isinstance(each, HtmlElement)]

    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of an attribute."""
        return self.attributes.get(name, default)


Content: TypeAlias = "HtmlElement | HtmlComment | str"


def _check_marks(text: str, node: str) -> None:
    """Refuse a text in which so many marks stay open that the tree could get too large."""
    rest = _PLAIN_TAG.sub("x", text)
    for _ in range(_MARKS_WITHIN):
        shorter = _CLOSED_MARK.sub("x", rest)
        if shorter == rest:
            break
        rest = shorter
    known = Counter(found.group() for found in _PLAINLY_WRITTEN_MARK.finditer(rest))
    others = sum(1 for _ in _MARK.finditer(rest)) - known.total()
    open_marks = others + sum(min(count, _SAME_MARKS) for count in known.values())
    if open_marks * rest.count("<") > HTML_REOPENED_MAX:
        raise Refused(f"`{node}`: too many marks such as `<b>` are not closed before the next element")


class HtmlDocument:
    """The elements of a text in document order, each with the number of the element around it."""

    def __init__(self, text: str, node: str, work: TemplateBudget) -> None:
        """Raises Refused for a text that is nested too deeply, or costs too much."""
        self.work = work
        self._node = node
        work.spend((text.count("<") - text.count("</")) * ELEMENT_UNITS)
        _check_marks(text, node)
        self.elements: list[HtmlElement] = []
        self.parents: list[int] = []
        self._depths: list[int] = []
        self.root = self._read(justhtml.JustHTML(text, sanitize=False).root)

    def _read(self, document: Any) -> HtmlElement | None:
        """Our elements of those that were read."""
        root: HtmlElement | None = None
        ahead: list[tuple[Any, int]] = [(each, -1) for each in reversed(document.children)]
        while ahead:
            found, parent = ahead.pop()
            around = self.elements[parent] if parent >= 0 else None
            if found.name == "#text":
                if around is not None and found.data:
                    around.content.append(found.data)
                continue
            if found.name.startswith(("#", "!", "?")):
                if around is not None and found.name == "#comment":
                    around.content.append(HtmlComment(found.data or ""))
                continue
            number = self._add(found, parent, around)
            root = root or self.elements[number]
            inner = getattr(found, "template_content", None)
            ahead += [(each, number) for each in reversed(found.children if inner is None else inner.children)]
        return root

    def _add(self, found: Any, parent: int, around: HtmlElement | None) -> int:
        given = found.attrs or {}
        if len(given) > HTML_ATTRIBUTES_MAX:
            raise Refused(f"`{self._node}`: an element has more than {HTML_ATTRIBUTES_MAX} attributes")
        depth = self._depths[parent] + 1 if parent >= 0 else 0
        if depth > HTML_DEPTH_MAX:
            raise Refused(f"`{self._node}`: the elements are nested more than {HTML_DEPTH_MAX} levels deep")
        self.work.spend(ITEM_UNITS + ITEM_UNITS * len(given))
        element = HtmlElement(found.name, {name: value or "" for name, value in given.items()}, around)
        if around is not None:
            around.content.append(element)
        self.elements.append(element)
        self.parents.append(parent)
        self._depths.append(depth)
        return len(self.elements) - 1

    @cached_property
    def sizes(self) -> list[int]:
        """About what each element with everything in it costs to write."""
        found = [
            ELEMENT_UNITS
            + sum(len(part) if isinstance(part, str) else 0 for part in each.content)
            + sum(len(part.text) for part in each.content if isinstance(part, HtmlComment))
            + sum(len(name) + len(value) for name, value in each.attributes.items())
            for each in self.elements
        ]
        for number in range(len(found) - 1, 0, -1):
            found[self.parents[number]] += found[number]
        return found

    def text_of(self, number: int, *, left_out: frozenset[str] = frozenset()) -> str:
        """The text of an element and everything in it but for elements of these names."""
        self.work.spend(self.sizes[number])
        return "".join(_texts(self.elements[number], left_out))

    def inner_html_of(self, number: int) -> str:
        """The HTML in an element, as the standard writes it."""
        self.work.spend(self.sizes[number])
        return "".join(_written(self.elements[number]))

    def attribute_of(self, number: int, name: str) -> str | None:
        """The value of an attribute; None if the element has none of this name. Only SVG has names with capitals."""
        element = self.elements[number]
        return element.get(name, element.get(name.lower()))


def _texts(element: HtmlElement, left_out: frozenset[str]) -> Iterator[str]:
    ahead: list[Content] = [element]
    while ahead:
        part = ahead.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, HtmlElement) and part.tag not in left_out:
            ahead += reversed(part.content)


def _written(element: HtmlElement) -> Iterator[str]:
    ahead: list[tuple[Content | None, HtmlElement]] = [(part, element) for part in reversed(element.content)]
    while ahead:
        part, around = ahead.pop()
        if part is None:
            yield f"</{around.tag}>"
        elif isinstance(part, str):
            yield part if around.tag in RAW_TEXT else part.translate(_TEXT_ESCAPES)
        elif isinstance(part, HtmlComment):
            yield f"<!--{part.text}-->"
        else:
            given = (f' {name}="{value.translate(_VALUE_ESCAPES)}"' for name, value in part.attributes.items())
            yield f"<{part.tag}{''.join(given)}>"
            if part.tag not in VOID:
                ahead.append((None, part))
                ahead += [(inner, part) for inner in reversed(part.content)]
