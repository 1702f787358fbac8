"""HTML as plain text that is laid out in lines, as in the text of an e-mail: the rules of the package html-to-text.

Paragraphs are apart, headings are in capitals, lists have marks, links their addresses in brackets, and lines break at
80 characters. No recursion: elements are opened and closed one after the other, each block paying for its text, so
that deep or long HTML costs what the budget allows. Used by `extract_html`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.rules.templates.budget import TemplateBudget, check_size
from anabranch.handlers.types.formats.html_document import CODE, RAW_TEXT, Content, HtmlDocument, HtmlElement

# 80 characters: the lines of plain text for more than fifty years.
LINE_MAX = 80

# 20 characters are left to the lines of blocks within blocks.
_NARROWEST = 20

_SPACE = " \t\r\n\f\u200b"
_WORD = re.compile(f"[^{_SPACE}]+")
_BLANK = re.compile("[\\s\ufeff]*")
_BEFORE, _AFTER = 2, 2

# Names of blocks with the empty lines before and behind them; one line break is not an empty line.
_BLOCKS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("article", "aside", "div", "footer", "form", "header", "main", "nav", "section"), (1, 1)),
    **dict.fromkeys(("blockquote", "p", "pre", "table", "h4", "h5", "h6"), (2, 2)),
    **dict.fromkeys(("h1", "h2", "h3"), (3, 2)),
}
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


def _length(text: str) -> int:
    """How long a text counts: in units of UTF-16."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


@dataclass(slots=True)
class _Block:
    """A part of the text that is being written: done text, and the lines and words behind it."""

    width: int
    before: int = 1
    """Line breaks that it needs before it."""
    is_raw: bool = False
    done: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    left: int = 0
    """How much space the line has."""
    pending: int = 0
    """Line breaks that are needed before what follows."""
    has_space: bool = False
    may_break: bool = False
    prefix: str = ""
    prefix_width: int = 0

    def __post_init__(self) -> None:
        self.left = self.width

    @property
    def has_text(self) -> bool:
        """Whether anything is in it."""
        return any(self.done) or bool(self.lines) or bool(self.words)

    def taken(self) -> str:
        """Its text; the lines become done text."""
        if self.lines or self.words:
            self.done.append("\n".join(" ".join(words) for words in [*self.lines, self.words]))
        text = "".join(self.done)
        self.done, self.lines, self.words, self.left = [text], [], [], self.width
        return text

    def end_line(self, count: int = 1) -> None:
        """Begin a new line."""
        self.lines.append(self.words)
        self.lines += [[] for _ in range(count - 1)]
        self.words, self.left = [], self.width

    def push(self, word: str) -> None:
        """A word behind a space, or at the begin of a line."""
        if self.left <= 0:
            self.end_line()
        cost = _length(word) + (1 if self.words else 0)
        if cost > self.left and self.words:
            self.end_line()
            cost = _length(word)
        self.words.append(word)
        self.left -= cost

    def glue(self, word: str) -> None:
        """A word without a space before it."""
        if self.may_break and _length(word) > self.left:
            self.push(word)
            self.may_break = False
            return
        last = ""
        if self.words:
            last = self.words.pop()
            self.left += _length(last) + (1 if self.words else 0)
        self.push(last + word)

    def put(self, text: str, before: int, after: int) -> None:
        """A block within it."""
        breaks = max(self.pending, before)
        if self.has_text:
            self.lines_done()
            self.done.append("\n" * breaks + text)
        else:
            self.done, self.before = [text], breaks
        self.pending = after

    def lines_done(self) -> None:
        """The lines become done text."""
        if self.lines or self.words:
            self.done.append("\n".join(" ".join(words) for words in [*self.lines, self.words]))
        self.lines, self.words, self.left = [], [], self.width


def laid_out(document: HtmlDocument, number: int) -> str:
    """The content of an element as plain text; of a page, that of its body."""
    element = document.elements[number]
    document.work.spend(document.sizes[number])
    bodies = [each for each in element.children if each.tag == "body"]
    layout = _Layout(document.work)
    return layout.of(bodies or layout.content_of(element))


class _Layout:
    def __init__(self, work: TemplateBudget) -> None:
        self._work = work
        self._blocks = [_Block(LINE_MAX)]
        self._headings = 0
        self._links: list[bool] = []
        """For each link that is open, whether there are words in it."""
        self._top: set[int] = set()

    def of(self, content: Sequence[Content]) -> str:
        """The text of this."""
        self._top = {id(part) for part in content}
        ahead: list[Content | Callable[[], None]] = [*reversed(content)]
        while ahead:
            part = ahead.pop()
            if isinstance(part, str):
                self._inline(part)
            elif isinstance(part, HtmlElement):
                ahead += reversed(self._opened(part))
            elif callable(part):
                part()
        return self._closed()

    def _opened(self, element: HtmlElement) -> list[Content | Callable[[], None]]:
        """Open an element: return its content, and what ends it."""
        tag = element.tag
        if tag in CODE:
            return []
        match tag:
            case "br":
                self._break()
            case "wbr":
                self._blocks[-1].may_break = True
            case "hr":
                self._open(_BEFORE)
                self._inline("-" * LINE_MAX)
                self._close(_AFTER)
            case "img":
                self._inline(_image(element), is_word=False)
            case "a" if (target := (element.get("href") or "").removeprefix("mailto:")) and target[0] != "#":
                self._links.append(False)
                return [*self.content_of(element), lambda: self._link(target)]
            case "ul" | "ol":
                return self._list(element)
            case _ if tag in _BLOCKS:
                before, after = _BLOCKS[tag]
                self._headings += tag in _HEADINGS
                self._open(before, narrower=2 if tag == "blockquote" else 0, is_raw=tag == "pre")
                return [*self.content_of(element), lambda: self._close_element(tag, after)]
            case _:
                return [*self.content_of(element)]
        return []

    def content_of(self, element: HtmlElement) -> Sequence[Content]:
        """The content of an element; the HTML in one that has it as text is read."""
        if element.tag not in RAW_TEXT:
            return element.content
        text = "".join(part for part in element.content if isinstance(part, str))
        if "<" not in text and "&" not in text:
            return element.content
        inner = HtmlDocument(f"<body>{text}", "html", self._work)
        bodies = [each for each in inner.elements if each.tag == "body"]
        return bodies[0].content if bodies else []

    # -- blocks ---------------------------------------------------------------------------

    def _open(self, before: int, *, narrower: int = 0, is_raw: bool = False) -> None:
        around = self._blocks[-1]
        width = max(_NARROWEST, around.width - narrower)
        self._blocks.append(_Block(width, before, is_raw or around.is_raw))

    def _closed(self) -> str:
        """The text of the innermost block."""
        text = self._blocks[-1].taken()
        self._work.spend(len(text))
        check_size(len(text))
        return text

    def _close(self, after: int, change: Callable[[str], str] | None = None) -> None:
        text = self._closed()
        block = self._blocks.pop()
        self._blocks[-1].put(change(text) if change else text, block.before, max(block.pending, after))

    def _close_element(self, tag: str, after: int) -> None:
        self._headings -= tag in _HEADINGS
        self._close(after, _quoted if tag == "blockquote" else None)

    def _list(self, element: HtmlElement) -> list[Content | Callable[[], None]]:
        is_nested = element.parent is not None and element.parent.tag == "li" and id(element) not in self._top
        parts = [part for part in element.content if not isinstance(part, str) or not _BLANK.fullmatch(part)]
        if not parts:
            return []
        marks = _marks(element)
        prefixes = [next(marks) if isinstance(part, HtmlElement) and part.tag == "li" else "" for part in parts]
        prefixes = [prefix.lstrip() for prefix in prefixes] if is_nested else prefixes
        width = max(map(len, prefixes))
        self._open(1 if is_nested else _BEFORE)
        todo: list[Content | Callable[[], None]] = []
        for part, prefix in zip(parts, prefixes, strict=True):
            todo += [lambda prefix=prefix: self._open_item(prefix, width), part, self._close_item]  # type: ignore[misc]
        return [*todo, lambda: self._close_list(1 if is_nested else _AFTER)]

    def _open_item(self, prefix: str, width: int) -> None:
        self._open(1, narrower=width)
        self._blocks[-1].prefix, self._blocks[-1].prefix_width = prefix, width

    def _close_item(self) -> None:
        item = self._blocks[-1]
        self._close(1, lambda text: item.prefix.ljust(item.prefix_width)
                    + text.replace("\n", "\n" + " " * item.prefix_width))  # fmt: skip

    def _close_list(self, after: int) -> None:
        text = self._closed()
        block = self._blocks.pop()
        if text:
            self._blocks[-1].put(text, block.before, after)

    # -- lines ----------------------------------------------------------------------------

    def _break(self) -> None:
        block = self._blocks[-1]
        if block.is_raw:
            block.done.append("\n")
        else:
            block.end_line()

    def _inline(self, text: str, *, is_word: bool = True) -> None:
        """Text into the line; `is_word` is false for addresses, which no heading changes."""
        block = self._blocks[-1]
        if block.is_raw:
            block.done.append(text)
            return
        if not text or (block.pending and not text.strip(_SPACE)):
            return
        if block.pending:
            block.end_line(block.pending)
        words = _WORD.findall(text)
        if words and is_word:
            self._links = [True] * len(self._links)
            if self._headings:
                words = [word.upper() for word in words]
        for index, word in enumerate(words):
            if index or block.has_space or text[0] in _SPACE:
                block.push(word)
            else:
                block.glue(word)
        block.has_space = (block.has_space and not words) or text[-1] in _SPACE
        block.pending = 0

    def _link(self, target: str) -> None:
        has_words = self._links.pop()
        self._inline(f" [{target}]" if has_words else target, is_word=False)


def _image(element: HtmlElement) -> str:
    text, source = element.get("alt") or "", element.get("src") or ""
    if not source:
        return text
    return f"{text} [{source}]" if text else f"[{source}]"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip("\n").split("\n"))


def _marks(element: HtmlElement) -> Iterator[str]:
    """The marks before the items of a list."""
    if element.tag == "ul":
        while True:
            yield " * "
    given = (element.get("start") or "1").strip()
    number = int(given) if re.fullmatch(r"[+-]?[0-9]{1,9}", given) else None
    write = _NUMBERS.get(element.get("type") or "1", str)
    while True:
        yield f" {'NaN' if number is None else write(number)}. "
        number = None if number is None else number + 1


def _letters(number: int) -> str:
    made = ""
    while number > 0:
        number, digit = divmod(number - 1, 26)
        made = chr(ord("a") + digit) + made
    return made


def _roman(number: int) -> str:
    made = ""
    for value, letters in ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
                           (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")):  # fmt: skip
        count, number = divmod(number, value) if number > 0 else (0, number)
        made += letters * count
    return made


_NUMBERS: Mapping[str, Callable[[int], str]] = {
    "a": _letters,
    "A": lambda number: _letters(number).upper(),
    "i": _roman,
    "I": lambda number: _roman(number).upper(),
}
