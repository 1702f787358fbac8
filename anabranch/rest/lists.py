"""Responses of lists with cursors: `{"items", "nextCursor"}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.rest.models.base import Page
from anabranch.service.cursors import cut, make_cursor, read_cursor


def page_of(items: list[dict[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    """The form of a list."""
    return {"items": items, "nextCursor": next_cursor}


def page_by_name(items: Sequence[dict[str, Any]], page: Page, kind: str, name: str = "name") -> dict[str, Any]:
    """A page of a short list in memory, in the order of a unique field."""
    after = None if page.cursor is None else read_cursor(kind, page.cursor, parts=1)[0]
    ordered = sorted(items, key=lambda item: str(item[name]))
    rest = [item for item in ordered if after is None or str(item[name]) > after]
    shown, next_cursor = cut(rest, page.limit, lambda item: make_cursor(kind, item[name]))
    return page_of(shown, next_cursor)
