"""Each point is measured in a process of its own, forked from one that has imported everything.

So no point inherits the memory, the caches or the connections of the one before it, and what a
process held at most is what this one point made it hold.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import multiprocessing
import resource
import sys
import traceback
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Figures = dict[str, float]

_MEGABYTE = 1_048_576
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1_024


def in_child(measure: Callable[..., Coroutine[Any, Any, Figures]], *arguments: Any) -> Figures:
    """What the coroutine function returns in a process of its own. Raises what went wrong there, as text."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, measure, arguments))
    child.start()
    theirs.close()
    try:
        figures, problem = ours.recv()
    except EOFError:
        figures, problem = None, "the measuring process ended without a word"
    except BaseException:  # we are interrupted: nobody waits for its answer
        child.terminate()
        raise
    finally:
        child.join()
    if figures is None:
        raise RuntimeError(problem)
    return dict(figures)


def peak_mb() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT / _MEGABYTE


def resident_mb() -> float:
    """What this process has now, without what it could give back."""
    gc.collect()
    if not sys.platform.startswith("linux"):
        return peak_mb()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / _MEGABYTE


def _child(
    answer: Connection, measure: Callable[..., Coroutine[Any, Any, Figures]], arguments: tuple[Any, ...]
) -> None:
    try:
        answer.send((asyncio.run(measure(*arguments)), None))
    except BaseException:  # noqa: BLE001 -- whatever it is, the parent tells it
        answer.send((None, traceback.format_exc()))
    answer.close()
