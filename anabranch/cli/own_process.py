"""The garbage collector of a command that has a process of its own.

What a command imports stays. Called by `__main__`, which knows that the process is the command's, and by `session` once
everything is imported.
"""

from __future__ import annotations

import atexit
import gc

# 200,000 objects: no command imports as many. With the collector's default of 700 a quarter of the time of a short
# command went into walks over all of them, the last one when the interpreter ends.
OBJECTS_PER_COLLECTION = 200_000

_is_own = False


def begin() -> None:
    """Let the collector rest while the command imports, and when the interpreter ends."""
    global _is_own
    _is_own = True
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)


def freeze_imports() -> None:
    """Keep collections from walking over what is imported by now. Does nothing in a process of somebody else."""
    if _is_own:
        gc.freeze()
