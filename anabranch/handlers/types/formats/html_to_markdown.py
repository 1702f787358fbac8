"""Markdown of HTML, made from the inside out: the Markdown of an element is made of the Markdown of its children.

No recursion, and each element pays for the text in it, so that deep or long HTML costs what the budget allows. Used by
`convert_markdown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from anabranch.engine.rules.templates.budget import ITEM_UNITS, TemplateBudget, check_size
from anabranch.handlers.types.formats.html_document import Content, HtmlDocument, HtmlElement

_SPACE = re.compile(r"[ \t\r\n\f]+")
_SPECIAL = re.compile(r"([\\`*_\[\]<>])")
_LINE_START = re.compile(r"^(\s*)([#+\-=]|[0-9]+[.)])(?=\s|$)", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_FENCE = re.compile(r"`{3,}")

_LEFT_OUT = frozenset({"head", "script", "style", "template", "noscript", "svg", "iframe", "object"})
_PREFORMATTED = frozenset({"pre", "code", "kbd", "samp", "textarea"})


def markdown_of(text: str, node: str, work: TemplateBudget) -> str:
    """The Markdown of a text of HTML. Raises Refused."""
    document = HtmlDocument(text, node, work)
    if document.root is None:
        return ""
    open_parts: list[list[str]] = [[]]
    raw = 0
    ahead: list[tuple[Content, bool]] = [(document.root, False)]
    while ahead:
        part, is_end = ahead.pop()
        if isinstance(part, str):
            open_parts[-1].append(_text(part, raw=bool(raw)))
        if not isinstance(part, HtmlElement) or part.tag in _LEFT_OUT:
            continue
        if not is_end:
            raw += part.tag in _PREFORMATTED
            open_parts.append([])
            ahead += [(part, True), *((inner, False) for inner in reversed(part.content))]
            continue
        inner = "".join(open_parts.pop())
        work.spend(ITEM_UNITS + 2 * len(inner))
        check_size(len(inner))
        raw -= part.tag in _PREFORMATTED
        open_parts[-1].append(_ELEMENTS.get(part.tag, _plain)(part, inner))
    return _tidied("".join(open_parts[0]))


def _tidied(text: str) -> str:
    lines = (line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


def _text(text: str | None, *, raw: bool) -> str:
    if not text or raw:
        return text or ""
    return _LINE_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", _SPACE.sub(" ", text)))


def _plain(element: HtmlElement, inner: str) -> str:
    return inner


def _block(element: HtmlElement, inner: str) -> str:
    return f"\n\n{inner.strip()}\n\n"


def _heading(element: HtmlElement, inner: str) -> str:
    title = _SPACE.sub(" ", inner).strip()
    return f"\n\n{'#' * int(element.tag[1])} {title}\n\n" if title else ""


def _marked(mark: str) -> Callable[[HtmlElement, str], str]:
    def marked(element: HtmlElement, inner: str) -> str:
        core = inner.strip()
        if not core:
            return inner
        begin = inner[: len(inner) - len(inner.lstrip())]
        return f"{begin}{mark}{core}{mark}{inner[len(inner.rstrip()) :]}"

    return marked


def _code(element: HtmlElement, inner: str) -> str:
    parent = element.parent
    if (parent is not None and parent.tag == "pre") or not inner.strip():
        return inner
    mark = "``" if "`" in inner else "`"
    pad = " " if inner.startswith("`") or inner.endswith("`") else ""
    return f"{mark}{pad}{_SPACE.sub(' ', inner)}{pad}{mark}"


def _pre(element: HtmlElement, inner: str) -> str:
    mark = "`" * max((len(fence) + 1 for fence in _FENCE.findall(inner)), default=3)
    children = element.children
    first = (children[0].get("class") or "") if children and children[0].tag == "code" else ""
    language = element.get("lang") or next(
        (name.removeprefix("language-") for name in first.split() if name.startswith("language-")), ""
    )
    return f"\n\n{mark}{language}\n{inner.strip(chr(10))}\n{mark}\n\n"


def _link(element: HtmlElement, inner: str) -> str:
    target, title = element.get("href"), _SPACE.sub(" ", inner).strip()
    return f"[{title}]({_target(target)})" if target and title else inner


def _image(element: HtmlElement, inner: str) -> str:
    source = element.get("src")
    return f"![{_text(element.get('alt'), raw=False)}]({_target(source)})" if source else ""


def _target(address: str) -> str:
    plain = _SPACE.sub("%20", address.strip())
    return f"<{plain.replace('<', '%3C').replace('>', '%3E')}>" if "(" in plain or ")" in plain else plain


def _item(element: HtmlElement, inner: str) -> str:
    """A mark in the place of the number, which the list knows."""
    return f"\n{_ITEM}{_indented(_BLANK_LINES.sub(chr(10) * 2, inner.strip()), '  ').lstrip()}"


_ITEM = "\x00"
"""Stands for the bullet or number of an item; text that was read has no such character."""


def _list(element: HtmlElement, inner: str) -> str:
    parent = element.parent
    end = "\n" if parent is not None and parent.tag == "li" else "\n\n"
    pieces = inner.strip("\n ").split(_ITEM)
    if element.tag == "ul":
        return end + pieces[0] + "".join(f"- {piece}" for piece in pieces[1:]) + end
    start = element.get("start") or "1"
    first = int(start) if start.isascii() and start.isdecimal() and len(start) <= 9 else 1
    return end + pieces[0] + "".join(f"{first + index}. {piece}" for index, piece in enumerate(pieces[1:])) + end


def _quote(element: HtmlElement, inner: str) -> str:
    return "\n\n" + _indented(_tidied(inner), "> ") + "\n\n"


def _indented(text: str, prefix: str) -> str:
    return "\n".join((prefix + line).rstrip() for line in text.split("\n"))


def _cell(element: HtmlElement, inner: str) -> str:
    return _SPACE.sub(" ", inner).strip().replace("|", "\\|") + " | "


def _row(element: HtmlElement, inner: str) -> str:
    """A row; the first one of a table is its head."""
    cells = inner.strip(" \n").removesuffix("|").rstrip()
    line = f"| {cells} |\n"
    if not _is_first(element):
        return line
    return f"{line}|{' --- |' * sum(cell.tag in ('td', 'th') for cell in element.children)}\n"


def _is_first(row: HtmlElement) -> bool:
    around = row.parent
    if around is None or around.children[0] is not row:
        return around is None
    return around.tag == "table" or around.parent is None or around.parent.children[0] is around


_ELEMENTS: Mapping[str, Callable[[HtmlElement, str], str]] = {
    **dict.fromkeys(
        ("p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "figure", "form", "table"),
        _block,
    ),
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), _heading),
    **dict.fromkeys(("strong", "b"), _marked("**")),
    **dict.fromkeys(("em", "i"), _marked("*")),
    **dict.fromkeys(("del", "s", "strike"), _marked("~~")),
    **dict.fromkeys(("code", "kbd", "samp"), _code),
    **dict.fromkeys(("ul", "ol"), _list),
    **dict.fromkeys(("td", "th"), _cell),
    "pre": _pre,
    "a": _link,
    "img": _image,
    "br": lambda element, inner: "\\\n",
    "hr": lambda element, inner: "\n\n---\n\n",
    "li": _item,
    "blockquote": _quote,
    "tr": _row,
}
