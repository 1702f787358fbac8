"""The tables that say where to change what name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "anabranch"

# Made by a build, and in no checkout.
BUILT = {"pages/bundle/"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_of_the_tables_exists(page: str) -> None:
    rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("| ")]
    absent = [name for row in rows for name in _absent(row)]

    assert len(rows) > 15
    assert not absent, f"{page} names {absent}"


def _absent(row: str) -> list[str]:
    """Names of files and folders in a row that are not there; one without a folder is in that of the name before it."""
    folder, absent = PACKAGE, list[str]()
    for name in re.findall(r"`([\w/.-]+(?:\.py|\.js|/))`", row):
        found = [base / name for base in (PACKAGE, ROOT, folder) if (base / name).exists()]
        if name in BUILT:
            continue
        if not found:
            absent.append(name)
        else:
            folder = found[0] if name.endswith("/") else found[0].parent
    return absent
