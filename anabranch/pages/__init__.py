"""The pages that people look at: the application at `/` and `/docs` to try the API.

The REST API serves each of `paths()` with what `find` gives for it. The application is built from `editor/` into
`bundle/` (by `make dev` and by the build of a wheel); its manifest lists the files, and only these are served: no path
of a request ever becomes a path of a file. Without a bundle `/` says how to get one. What a page may load and whom it
may talk to is part of each answer (`csp`). What draws the operations on `/docs` comes with the package `swagger_ui`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import secrets
from dataclasses import field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from anabranch.dataclass import dataclass

__all__ = ["StaticFile", "find", "paths"]

NONCE_MARK = b"ANABRANCH_NONCE"
"""Stands in the built page where the nonce of an answer belongs."""

_BASE_POLICY = (
    "default-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "object-src 'none'; form-action 'self'"
)

DOCS_POLICY = f"{_BASE_POLICY}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
"""What `/docs` may do: its library writes styles into its elements and has its pictures inside its style sheet."""

_OURS = "anabranch.pages"
_LIBRARY = "swagger_ui"

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}

_FILES = {
    "/favicon.svg": (_OURS, "favicon.svg"),
    "/docs": (_OURS, "docs.html"),
    "/docs/docs.css": (_OURS, "docs.css"),
    "/docs/docs.js": (_OURS, "docs.js"),
    "/docs/swagger-ui.css": (_LIBRARY, "swagger-ui.css"),
    "/docs/swagger-ui-bundle.js": (_LIBRARY, "swagger-ui-bundle.js"),
}
"""Every path beside the application's that is answered, and where its file is: the package, and the name in its
folder `static`."""

_INDEX = "index.html"
_NOT_BUILT = (_OURS, "not_built.html")

# Browsers ask again for what may change, and keep what has a hash in its name.
_REVALIDATE = "no-cache"
_IMMUTABLE = "public, max-age=31536000, immutable"
_NO_STORE = "no-store"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: its bytes, what they are, a mark that changes with them, and what its page may do."""

    content_type: str
    body: bytes
    csp: str
    """The value of the header `Content-Security-Policy`."""
    cache_control: str = _REVALIDATE
    etag: str | None = field(init=False)
    """With its quotes, as the header `ETag` has it; None for a page that is different in each answer."""
    gzipped: bytes | None = field(init=False)
    """The same for a client that unpacks it; None where that saves nothing."""

    def __post_init__(self) -> None:
        stored = self.cache_control != _NO_STORE
        object.__setattr__(self, "etag", f'"{hashlib.sha256(self.body).hexdigest()[:32]}"' if stored else None)
        object.__setattr__(self, "gzipped", gzip.compress(self.body, mtime=0) if stored else None)


def paths() -> tuple[str, ...]:
    """All that `find` knows."""
    return ("/", *_FILES, *(f"/{name}" for name in _bundled() - {_INDEX}))


def find(path: str) -> StaticFile | None:
    """The file of a request's path, None for a path that is not among `paths()`."""
    if path == "/":
        return _application_page() if _bundled() else _read(*_NOT_BUILT, _BASE_POLICY)
    if path in _FILES:
        return _read(*_FILES[path], DOCS_POLICY if path.startswith("/docs") else _BASE_POLICY)
    return _read_asset(path[1:]) if path[1:] in _bundled() - {_INDEX} else None


def _application_page() -> StaticFile:
    """The application's page, with a nonce that no other answer has: libraries add style elements with it."""
    nonce = secrets.token_urlsafe(16)
    inserted = f"script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'"
    return StaticFile(
        content_type=_TYPES["html"],
        body=_asset(_INDEX).replace(NONCE_MARK, nonce.encode()),
        csp=f"{_BASE_POLICY}; {inserted}; img-src 'self' data:",
        cache_control=_NO_STORE,
    )


@cache
def _bundled() -> frozenset[str]:
    """The files of the bundle, as its manifest lists them; none if it has not been built."""
    manifest = _bundle().joinpath("manifest.json")
    return frozenset(json.loads(manifest.read_text("utf-8"))["files"]) if manifest.is_file() else frozenset()


@cache
def _read_asset(name: str) -> StaticFile:
    return StaticFile(_TYPES[name.rpartition(".")[2]], _asset(name), _BASE_POLICY, _IMMUTABLE)


@cache
def _asset(name: str) -> bytes:
    return _bundle().joinpath(name).read_bytes()


def _bundle() -> Traversable:
    return resources.files(_OURS).joinpath("bundle")


@cache
def _read(package: str, name: str, csp: str) -> StaticFile:
    body = resources.files(package).joinpath("static", name).read_bytes()
    return StaticFile(_TYPES[name.rpartition(".")[2]], body, csp)
