"""Values of form fields in HTML. Used by `extract_html`."""

from __future__ import annotations

from anabranch.handlers.types.formats.html_document import CODE, HtmlDocument, HtmlElement


def value_of(document: HtmlDocument, number: int) -> str | list[str] | None:
    """The value of an `input`, `textarea`, `option` or `select`; a list where several can be chosen; else None."""
    element = document.elements[number]
    document.work.spend(document.sizes[number])
    match element.tag:
        case "textarea":
            return document.text_of(number, left_out=CODE)
        case "input" if element.get("value") is None and element.get("type") in ("radio", "checkbox"):
            return "on"
        case "input":
            return element.get("value")
        case "option":
            return _of_option(document, element)
        case "select":
            chosen = [each for each in _options(element) if _is_chosen(each)]
            if element.get("multiple") is not None:
                return [_of_option(document, each) for each in chosen]
            return _of_option(document, chosen[0]) if chosen else None
    return None


def _of_option(document: HtmlDocument, option: HtmlElement) -> str:
    value = option.get("value")
    return document.text_of(document.elements.index(option), left_out=CODE) if value is None else value


def _options(select: HtmlElement) -> list[HtmlElement]:
    found: list[HtmlElement] = []
    ahead = [select]
    while ahead:
        element = ahead.pop()
        if element.tag == "option":
            found.append(element)
        ahead += reversed(element.children)
    return found


def _is_chosen(option: HtmlElement) -> bool:
    """Whether it is marked, or the first of a list in which none is."""
    if option.get("selected") is not None:
        return True
    around = option.parent
    if around is None or around.tag != "select" or around.get("multiple") is not None:
        return False
    return around.children[0] is option and all(each.get("selected") is None for each in around.children)
