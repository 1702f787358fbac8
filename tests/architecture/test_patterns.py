"""Patterns of the product mean the same in every version of Python that it runs on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "anabranch"

POSSESSIVE_GROUP = re.compile(r"\)[*+?]\+")


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5 what follows such a group is looked for in the wrong place (python/cpython#106052)."""
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert not found, f"write (?>(?:…)*) in place of (?:…)*+: {found}"


@pytest.mark.skipif(sys.version_info >= (3, 11, 5), reason="this Python repeats groups as it should")
def test_older_versions_need_that() -> None:
    assert re.match(r"/\*(?:[^*]|\*(?!/))*+\*/", "/* all */") is None
    assert re.match(r"/\*(?>(?:[^*]|\*(?!/))*)\*/", "/* all */") is not None
