"""The name of this program for commands in hints, as the user called it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "anabranch"


def command(words: Iterable[str]) -> str:
    """A command that can be copied and run in this folder."""
    return shlex.join([_own_name(), *words])


def _own_name() -> str:
    """`anabranch` where a shell finds this very program by that name, else the path to it."""
    called = Path(sys.argv[0])
    found = shutil.which(NAME)
    if called.name != NAME or not called.is_file() or (found is not None and called.samefile(found)):
        return NAME
    near = os.path.relpath(called)
    return str(called.absolute()) if near.startswith(os.pardir) else near
