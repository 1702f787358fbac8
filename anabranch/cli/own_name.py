"""What to call this program in a command that somebody shall type: as they have called it themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "anabranch"


def command(words: Iterable[str]) -> str:
    """A command of ours that can be typed as it stands, in this folder."""
    return shlex.join([_own_name(), *words])


def _own_name() -> str:
    """`anabranch` where a shell finds this very program by that name, else the path to it."""
    called = Path(sys.argv[0])
    found = shutil.which(NAME)
    if called.name != NAME or not called.is_file() or (found is not None and called.samefile(found)):
        return NAME
    near = os.path.relpath(called)
    return str(called.absolute()) if near.startswith(os.pardir) else near
