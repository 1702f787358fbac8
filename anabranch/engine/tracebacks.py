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

# 3 exceptions that led to it, by `raise … from` or because it was raised while they were handled.
CAUSES_MAX = 3

# 8 exceptions of a group, without the groups in it: a group of a hundred mostly has the same one a hundred times.
MEMBERS_MAX = 8

# 400 characters of the message of a cause or a member, and of a note: the main message is that of the exception itself.
CAUSE_CHARACTERS_MAX = 400

_OUR_FILES = str(Path(__file__).parents[1])
_ASYNCIO_FILES = str(Path(asyncio.__file__).parent)
_LIBRARIES = tuple(sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}))
_INSTALLED = ("site-packages", "dist-packages", "<frozen ")


def lines_of_the_author(failure: BaseException, *, mask: Callable[[str], str] = str) -> str:
    """The traceback of an exception, of what caused it and of what a group holds; empty for what we raise ourselves.

    The first frame is the author's, the innermost comes last. If there are too many frames, those of libraries are
    dropped first. `mask` replaces secrets; it gets whole texts, before anything is cut.
    """
    if isinstance(failure, NodeFailure) and failure.original is not None:
        failure = failure.original
    try:
        text = _own_part(failure, mask)
        if not text and isinstance(failure, AnabranchError | NodeFailure | NonRetryable):
            return ""  # raised by anabranch: its causes are internal
        return text + "".join(_related(failure, mask))
    except Exception:  # noqa: BLE001 -- user code's attributes of an exception
        return ""


def _own_part(failure: BaseException, mask: Callable[[str], str]) -> str:
    """The frames of an exception, and its notes."""
    notes = getattr(failure, "__notes__", None)
    shown = notes if isinstance(notes, list) else []
    texts = [f"note: {mask(each)[:CAUSE_CHARACTERS_MAX]}\n" for each in shown[:CAUSES_MAX] if isinstance(each, str)]
    return mask(_frames(failure.__traceback__)) + "".join(texts)


def _related(failure: BaseException, mask: Callable[[str], str]) -> Iterator[str]:
    """Its causes; of a group the members, each with its causes."""
    for word, cause in _causes(failure):
        yield f"{word} {type(cause).__name__}: {mask(_message(cause))[:CAUSE_CHARACTERS_MAX]}\n{_own_part(cause, mask)}"
    if isinstance(failure, BaseExceptionGroup):
        members = list(_members(failure))
        for number, member in enumerate(members[:MEMBERS_MAX], start=1):
            message = mask(_message(member))[:CAUSE_CHARACTERS_MAX]
            yield f"{number} of {len(members)} in the group, {type(member).__name__}: {message}\n"
            yield _own_part(member, mask)
            yield from _related(member, mask)


def _causes(failure: BaseException) -> Iterator[tuple[str, BaseException]]:
    cause = failure
    for _ in range(CAUSES_MAX):
        if cause.__cause__ is not None:
            word, cause = "caused by", cause.__cause__
        elif cause.__context__ is not None and not cause.__suppress_context__:
            word, cause = "raised while handling", cause.__context__
            if not _frames(cause.__traceback__):
                return  # of anabranch itself
        else:
            return
        yield word, cause


def _members(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _members(each)
        else:
            yield each


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
