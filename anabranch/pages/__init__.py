"""The pages that people look at: the root page with workflows and runs, and `/docs` to try the API.

The REST API serves each of `PATHS` with what `find` gives for it. The files are
a fixed list, read once: no path of a request ever becomes a path of a file. What a page may load
and whom it may talk to is part of each answer (`csp`). There is no build step: what is in `static/`
is what a browser gets; what draws the operations on `/docs` comes with the package `swagger_ui`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["PATHS", "StaticFile", "find"]

PAGE_POLICY = (
    "default-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "object-src 'none'; form-action 'self'"
)
"""What the root page may do. Scripts and styles come from this server's files only, never from markup; it talks to
this server only, its WebSocket included."""

DOCS_POLICY = f"{PAGE_POLICY}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
"""The same for `/docs`, whose library writes styles into its elements and has its pictures inside its style sheet."""

_OURS = "anabranch.pages"
_LIBRARY = "swagger_ui"

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_FILES = {
    "/": (_OURS, "index.html"),
    "/docs": (_OURS, "docs.html"),
    "/docs/docs.css": (_OURS, "docs.css"),
    "/docs/docs.js": (_OURS, "docs.js"),
    "/docs/swagger-ui.css": (_LIBRARY, "swagger-ui.css"),
    "/docs/swagger-ui-bundle.js": (_LIBRARY, "swagger-ui-bundle.js"),
    **{
        f"/static/{name}": (_OURS, name)
        for name in (
            "api.js",
            "app.js",
            "board.js",
            "dom.js",
            "favicon.svg",
            "live.js",
            "run.js",
            "run_log.js",
            "socket.js",
            "start_form.js",
            "style.css",
            "times.js",
        )
    },
}
"""Every path that is answered, and where its file is: the package, and the name in its folder `static`."""

PATHS = tuple(_FILES)
"""All that `find` knows."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: its bytes, what they are, a mark that changes with them, and what its page may do."""

    content_type: str
    body: bytes
    etag: str
    """With its quotes, as the header `ETag` has it."""
    csp: str
    """The value of the header `Content-Security-Policy`."""


def find(path: str) -> StaticFile | None:
    """The file of a request's path, None for a path that is not on the list."""
    return _read(path) if path in _FILES else None


@cache
def _read(path: str) -> StaticFile:
    package, name = _FILES[path]
    body = resources.files(package).joinpath("static", name).read_bytes()
    return StaticFile(
        content_type=_TYPES[name.rpartition(".")[2]],
        body=body,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        csp=DOCS_POLICY if path == "/docs" or path.startswith("/docs/") else PAGE_POLICY,
    )
