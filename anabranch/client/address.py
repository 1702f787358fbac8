"""What a server's URL and a key may be, before anything is sent."""

from __future__ import annotations

import re

from yarl import URL

from anabranch.errors import InvalidRequest

# As servers take them: 1 to 255 visible ASCII characters.
_KEY = re.compile(r"[!-~]{1,255}")


def server_url(text: str) -> URL:
    """The URL below which the server's paths are. Raises InvalidRequest, which does not repeat a password."""
    try:
        url = URL(text)
    except ValueError:
        raise _no_url() from None
    is_plain = url.user is None and url.password is None and not url.query_string and not url.fragment
    if url.scheme not in ("http", "https") or not url.host or not is_plain or not text.isprintable() or " " in text:
        raise _no_url()
    return url.with_path(url.raw_path.rstrip("/"), encoded=True)


def check_key(text: str) -> str:
    """The key, if a header can carry it. Raises InvalidRequest, which does not repeat it."""
    if not _KEY.fullmatch(text):
        raise InvalidRequest(
            "an API key is 1 to 255 visible ASCII characters",
            hint="Give it as --token or ANABRANCH_TOKEN; `anabranch keys create` makes one.",
        )
    return text


def _no_url() -> InvalidRequest:
    return InvalidRequest(
        "the URL of a server is http(s)://host[:port][/prefix]",
        hint="Leave user, password, query and fragment out; the key is given as --token or ANABRANCH_TOKEN.",
    )
