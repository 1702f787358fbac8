"""`anabranch version`, without loading the parser, because scripts call it often.

Called by `__main__` if only the version is requested, and by the command.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

from anabranch.cli.output import drop_answers, flush_answers, print_document, print_line, print_note
from anabranch.version import __version__

EXIT_DONE, EXIT_FAILED = 0, 1

_ASKED = (["version"], ["version", "--json"])


def is_all_that_is_asked(arguments: Sequence[str]) -> bool:
    """Whether the arguments request only the version, so that no parser is needed."""
    return list(arguments) in _ASKED


def answer_alone(arguments: Sequence[str]) -> int:
    """Print the version, and return the exit code."""
    try:
        print_version(as_json="--json" in arguments)
        flush_answers()
    except OSError as refusal:
        drop_answers()
        if not isinstance(refusal, BrokenPipeError):
            print_note(f"error: the version cannot be written: {refusal.strerror}")
        return EXIT_FAILED
    return EXIT_DONE


def print_version(*, as_json: bool) -> None:
    """The version of this program and of Python."""
    document = {"version": __version__, "python": platform.python_version()}
    if as_json:
        print_document(document)
    else:
        print_line(f"anabranch {document['version']} (Python {document['python']})")
