"""The password file of libpq, for URLs without a password (`~/.pgpass`, `PGPASSFILE`).

Called by the dialect for every connection. libpq ignores a file that is not a regular file or that others may read, and
prints a warning on standard error each time. Such a file is not passed on; it is logged once if it looks like a
mistake.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger("anabranch.store")

# Nothing can exist below a device, so libpq finds no password file and prints no warning.
NO_FILE = f"{os.devnull}/none"


def usable_password_file(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Extra connection arguments that keep libpq from printing a warning."""
    named = arguments.get("passfile") or os.environ.get("PGPASSFILE")
    path = Path(named) if named else Path("~/.pgpass").expanduser()
    try:
        mode = path.stat().st_mode
    except OSError:
        return {}  # there is none
    if stat.S_ISREG(mode) and not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return {}
    if stat.S_ISREG(mode):
        _warn(path)
    return {"passfile": NO_FILE}


@cache
def _warn(path: Path) -> None:
    """Log it once per file."""
    log.warning("the password file %s is not used, because others may read it: `chmod 600` it", path)
