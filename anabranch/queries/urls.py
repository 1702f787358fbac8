"""Stored URLs of data sources: encrypted, or plain if they contain no secret.

Called by the service when a source is saved and by the query engine when it is used. A URL may contain
`{{secret.NAME}}`: the secret stays in the secret store and is inserted for each use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from anabranch.errors import SettingsError
from anabranch.queries.query_faults import source_refused
from anabranch.queries.query_ports import UrlCipher, UrlSecretReader
from anabranch.queries.saved.saved_queries import DataSource
from anabranch.queries.sources import ReadyUrl

_SECRET = re.compile(r"\{\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

# Stands for a secret while it is looked where in the URL secrets stand: no part of a URL that may
# hold a secret ends at it, and no URL that is let in holds it, for it is not printable.
_MARK = "\ue000"

# Options about the place and the kind of connection, not about credentials.
_PLAIN_OPTIONS = frozenset({"host", "sslmode"})


class SourceUrls:
    """Encrypts URLs for storage, and decrypts them for use."""

    def __init__(self, *, find_box: Callable[[], UrlCipher | None], secrets: UrlSecretReader | None) -> None:
        """`find_box` is called at every use; it returns None if there is no key yet."""
        self._find_box = find_box
        self._secrets = secrets

    def encrypt_url(self, url: str, *, tenant_id: str, data_source_id: str) -> tuple[bytes, bool]:
        """The URL as it is stored, and whether it is sealed. Raises SettingsError if it must be and no key is there."""
        if not _holds_secret(url):
            return url.encode(), False
        box = self._find_box()
        if box is None:
            raise SettingsError(
                "a URL with a password is stored encrypted, and there is no key for that",
                hint="Set ANABRANCH_SECRET_KEY (make one with `openssl rand -base64 32`),"
                " or write {{secret.NAME}} instead of the password.",
            )
        return box.seal(tenant=tenant_id, row=data_source_id, text=url), True

    async def decrypt_url(self, source: DataSource) -> ReadyUrl:
        """The URL to connect with."""
        url = source.url.decode() if not source.sealed else self._opened(source)
        return await self.resolve(url, tenant_id=source.tenant_id)

    async def resolve(self, url: str, *, tenant_id: str) -> ReadyUrl:
        """The URL with its secrets in place.

        A secret may be the user, the password or a part of them, which is percent-encoded; or the whole URL. Raises
        NodeFailure for a secret elsewhere and for any other template; passes on the reader's error for a missing
        secret.
        """
        if "{{" in _SECRET.sub("", url) or "{%" in url:
            raise source_refused("the only templates in the URL of a data source are {{secret.NAME}}")
        names = dict.fromkeys(_SECRET.findall(url))
        if not names:
            return ReadyUrl(url)
        if self._secrets is None:
            raise source_refused("the URL names a secret, and no secrets can be read here")
        whole = _SECRET.fullmatch(url.strip())
        if whole is None and not _are_credentials(url):
            raise source_refused(
                "{{secret.NAME}} in the URL of a data source is its user or password, or the whole URL:"
                " other parts of a URL are shown to people"
            )
        values = await self._secrets.read(tenant_id, list(names))
        secrets = tuple(values.values())
        if whole is not None:
            return ReadyUrl(values[whole[1]].strip(), secrets, is_secret=True)
        return ReadyUrl(_SECRET.sub(lambda found: quote(values[found[1]], safe=""), url), secrets)

    def _opened(self, source: DataSource) -> str:
        box = self._find_box()
        if box is None:
            raise source_refused("the URL of the data source is encrypted, and there is no key (ANABRANCH_SECRET_KEY)")
        return box.open(tenant=source.tenant_id, row=source.data_source_id, sealed=source.url)


def _are_credentials(url: str) -> bool:
    """Whether every secret in the URL is in its user or password."""
    marked, count = _SECRET.subn(_MARK, url)
    try:
        parsed = make_url(marked)
    except (ArgumentError, ValueError):
        return False
    return f"{parsed.username or ''}{parsed.password or ''}".count(_MARK) == count == marked.count(_MARK)


def _holds_secret(url: str) -> bool:
    """Whether it contains more than kind, user, host and database, apart from templates."""
    try:
        parsed = make_url(_SECRET.sub("", url)) if not _SECRET.fullmatch(url.strip()) else None
    except (ArgumentError, ValueError):
        return True
    return parsed is not None and bool(parsed.password or set(parsed.query) - _PLAIN_OPTIONS)
