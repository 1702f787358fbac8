"""ETags that are numbers: versions and revisions, and what clients send back of them in `If-Match`."""

from __future__ import annotations

import re

_OURS = re.compile(r'(?:W/)?"?([0-9]{1,9})"?')


def etag(number: int) -> str:
    """The ETag of a version or revision."""
    return f'"{number}"'


def expected_number(if_match: str | None) -> int | None:
    """The number that a client read; None if it expects none, 0, which nothing has, for what is not one ETag of ours.

    Told by who compares, not here: what is wrong with the document comes first.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    written = _OURS.fullmatch(if_match.strip())
    return 0 if written is None else int(written[1])
