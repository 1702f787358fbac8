"""ETags for versions and revisions, and reading them from `If-Match`."""

from __future__ import annotations

import re

_OURS = re.compile(r'(?:W/)?"?([0-9]{1,9})"?')


def etag(number: int) -> str:
    """The ETag of a version or revision."""
    return f'"{number}"'


def expected_number(if_match: str | None) -> int | None:
    """The number that a client read; None without a condition; 0, which never matches, for any other ETag.

    The caller compares and raises, because problems of the document are reported first.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    written = _OURS.fullmatch(if_match.strip())
    return 0 if written is None else int(written[1])
