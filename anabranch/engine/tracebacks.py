"""Tracebacks of user code, as text for the log.

Called by the task worker for handlers, and by `durable` for steps and workflow functions. Frames of anabranch and
asyncio are left out: they do not help the author.
"""

from __future__ import annotations

import asyncio
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from anabranch.errors import AnabranchError, NodeFailure, NonRetryable

# 20 frames of one exception: enough to find the line, without filling the log after a recursion.
FRAMES_MAX = 20

# 3 exceptions that led to it by `raise … from`.
CAUSES_MAX = 3

# 400 characters of a cause's message: the main message is that of the exception itself.
CAUSE_CHARACTERS_MAX = 400

_OUR_FILES = str(Path(__file__).parents[1])
_ASYNCIO_FILES = str(Path(asyncio.__file__).parent)
_LIBRARIES = tuple(sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}))
_INSTALLED = ("site-packages", "dist-packages", "<frozen ")


def lines_of_the_author(failure: BaseException, *, mask: Callable[[str], str] = str) -> str:
    """The traceback of an exception and of what caused it; empty for what we raise ourselves.

    The first frame is the author's, the innermost comes last. If there are too many frames, those of libraries are
    dropped first. `mask` replaces secrets; it gets whole texts, before anything is cut.
    """
    text = mask(_frames(failure.__traceback__))
    if not text and isinstance(failure, AnabranchError | NodeFailure | NonRetryable):
        return ""  # raised by anabranch: its causes are internal
    for cause in _causes(failure):
        frames = mask(_frames(cause.__traceback__))
        text += f"caused by {type(cause).__name__}: {mask(_message(cause))[:CAUSE_CHARACTERS_MAX]}\n{frames}"
    return text


def _causes(failure: BaseException) -> Iterator[BaseException]:
    cause = failure.__cause__
    for _ in range(CAUSES_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _message(failure: BaseException) -> str:
    try:
        return str(failure)
    except Exception:  # noqa: BLE001 -- user code's __str__
        return "its message cannot be read"


def _frames(trace: TracebackType | None) -> str:
    # Source lines are read only for printed frames: a deep recursion has a thousand, of which few are kept.
    summary = traceback.StackSummary.extract(traceback.walk_tb(trace), lookup_lines=False)
    frames = [frame for frame in summary if not _is_ours(frame.filename)]
    own = [number for number, frame in enumerate(frames) if not _is_of_library(frame.filename)]
    if own:
        frames, own = frames[own[0] :], [number - own[0] for number in own]
    others = sorted(set(range(len(frames))) - set(own))
    kept = own[-FRAMES_MAX:]
    kept = sorted(kept + others[max(0, len(others) - FRAMES_MAX + len(kept)) :])
    left_out = f"  [{len(frames) - len(kept)} frames left out]\n" if len(kept) < len(frames) else ""
    return left_out + "".join(traceback.StackSummary.from_list([frames[number] for number in kept]).format())


def _is_ours(file: str) -> bool:
    return file.startswith((_OUR_FILES, _ASYNCIO_FILES)) or "concurrent/futures" in file


def _is_of_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or any(each in file for each in _INSTALLED)
