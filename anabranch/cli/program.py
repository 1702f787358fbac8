"""This program: its name for commands in hints, as the user called it, and its process."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "anabranch"

_owns_process = False


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


def own_process() -> None:
    """Note that this process belongs to the program."""
    global _owns_process
    _owns_process = True


def freeze_imports() -> None:
    """Keep collections from walking over what is imported by now. Does nothing in a process of somebody else."""
    if _owns_process:
        gc.freeze()
