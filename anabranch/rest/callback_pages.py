"""The HTML pages of one-time addresses: a confirmation form, and the result.

A mail scanner or a chat that previews links fetches an address with GET; only the button of the page sends it.
Everything that comes from the address or the run is escaped, and the content security policy forbids loading and
framing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from aiohttp import web

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem;color:#1c2230}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dt{font-weight:600}"
    "dd{margin:0;overflow-wrap:anywhere}textarea{width:100%;font:inherit;box-sizing:border-box}"
    "button{font:inherit;padding:.5rem 1.25rem;margin-top:1rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "no-store",
}

# 200 characters of each field of an address are shown: a person reads them.
SHOWN_CHARACTERS_MAX = 200


def question(fields: Iterable[tuple[str, str]]) -> web.Response:
    """The confirmation form, with the fields of the address."""
    shown = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in fields)
    return _page(
        "Please confirm",
        f"<p>A workflow waits for your answer. Nothing has been sent yet.</p>{f'<dl>{shown}</dl>' if shown else ''}"
        '<form method="post"><label for="comment">Comment, if you like</label>'
        '<textarea id="comment" name="comment" rows="3" maxlength="2000"></textarea>'
        '<button type="submit">Confirm</button></form>',
    )


def message(title: str, text: str, *, status: int = 200) -> web.Response:
    """A page with a message."""
    return _page(title, f"<p>{_text(text)}</p>", status=status)


def _text(given: str) -> str:
    return escape(given if len(given) <= SHOWN_CHARACTERS_MAX else given[: SHOWN_CHARACTERS_MAX - 1] + "…")


def _page(title: str, content: str, *, status: int = 200) -> web.Response:
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{content}</main></body></html>"
    )
    return web.Response(
        body=text.encode(errors="replace"),
        status=status,
        headers=PAGE_HEADERS,
        content_type="text/html",
        charset="utf-8",
    )
