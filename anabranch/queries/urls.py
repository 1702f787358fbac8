"""The URLs of data sources as they are kept: sealed, or as text where nothing in them is secret.

Called by the service when a source is saved and by the query engine when one is used. A URL may
hold `{{secret.NAME}}`: then the secret stays where it is and is put in for each use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from anabranch.engine.saved_queries import DataSource
from anabranch.errors import SettingsError
from anabranch.queries.faults import source_refused
from anabranch.queries.ports import SecretBox, SecretReader

_SECRET = re.compile(r"\{\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

# Options that say where and how, never who.
_PLAIN_OPTIONS = frozenset({"host", "sslmode"})


class SourceUrls:
    """Puts URLs away and takes them out again."""

    def __init__(self, *, box: SecretBox | None, secrets: SecretReader | None) -> None:
        self._box = box
        self._secrets = secrets

    def put_away(self, url: str, *, tenant_id: str, data_source_id: str) -> tuple[bytes, bool]:
        """What to store, and whether it is sealed. Raises SettingsError if it must be and no key is there."""
        if not _holds_secret(url):
            return url.encode(), False
        if self._box is None:
            raise SettingsError(
                "a URL with a password is stored encrypted, and there is no key for that",
                hint="Set ANABRANCH_SECRET_KEY (make one with `openssl rand -base64 32`),"
                " or write {{secret.NAME}} instead of the password.",
            )
        return self._box.seal(tenant=tenant_id, row=data_source_id, text=url), True

    async def take_out(self, source: DataSource) -> tuple[str, Sequence[str]]:
        """The URL to connect with, and the secrets that were put into it."""
        url = source.url.decode() if not source.sealed else self._opened(source)
        return await self.resolve(url, tenant_id=source.tenant_id)

    async def resolve(self, url: str, *, tenant_id: str) -> tuple[str, Sequence[str]]:
        """The URL with its secrets in place, and these.

        Inside a URL a secret is percent-encoded: whatever it holds, it stays the one part of the
        URL that it stands for. Raises NodeFailure for any other template, and what
        the reader raises for a secret that is not there.
        """
        if "{{" in _SECRET.sub("", url) or "{%" in url:
            raise source_refused("the only templates in the URL of a data source are {{secret.NAME}}")
        names = dict.fromkeys(_SECRET.findall(url))
        if not names:
            return url, ()
        if self._secrets is None:
            raise source_refused("the URL names a secret, and no secrets can be read here")
        values = await self._secrets.read(tenant_id, list(names))
        whole = _SECRET.fullmatch(url.strip())
        if whole is not None:
            return values[whole[1]].strip(), tuple(values.values())
        return _SECRET.sub(lambda found: quote(values[found[1]], safe=""), url), tuple(values.values())

    def _opened(self, source: DataSource) -> str:
        if self._box is None:
            raise source_refused("the URL of the data source is encrypted, and there is no key (ANABRANCH_SECRET_KEY)")
        return self._box.open(tenant=source.tenant_id, row=source.data_source_id, sealed=source.url)


def _holds_secret(url: str) -> bool:
    """Is there anything in it but kind, user, host and database, once the templates are gone?"""
    try:
        parsed = make_url(_SECRET.sub("", url)) if not _SECRET.fullmatch(url.strip()) else None
    except (ArgumentError, ValueError):
        return True
    return parsed is not None and bool(parsed.password or set(parsed.query) - _PLAIN_OPTIONS)
