"""`anabranch` and `python -m anabranch`: the entry point of the command line.

Importing a command takes some tenths of a second. Ctrl-C and SIGTERM during that time end the process like any program.
Later the command handles Ctrl-C (see `anabranch.cli.entry`), and SIGTERM ends it in the same way: what is under way is
unwound, and transactions are rolled back. Long-running processes and `run` install handlers of their own. Without any
handler the first process of a container would ignore SIGTERM.
"""

import atexit
import gc
import os
import signal
import sys
from importlib import import_module
from types import FrameType

EXIT_TERMINATED = 128 + signal.SIGTERM

# What is imported stays. With the collector's default of 700 new objects a quarter of the time of a short command went
# into walks over all of it, the last one when the interpreter ends. No command imports 200,000 objects. One that opens
# a database freezes them (`cli.session`), and one that holds many runs sets thresholds of its own.
OBJECTS_PER_COLLECTION = 200_000


def main() -> None:
    """Run one command and leave with its exit code; 143 if SIGTERM has ended it."""
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)
    is_ours = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # not where a caller has us ignore it
    if is_ours:
        signal.signal(signal.SIGTERM, _end)
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # not where a shell has us ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    version = import_module("anabranch.cli.version_answer")
    if version.is_all_that_is_asked(sys.argv[1:]):
        sys.exit(version.answer_alone(sys.argv[1:]))
    command_line = import_module("anabranch.cli.entry")
    import_module("anabranch.cli.program").own_process()
    signal.signal(signal.SIGINT, interrupt)
    termination = _Termination()
    if is_ours:
        signal.signal(signal.SIGTERM, termination.receive)
    try:
        command_line.main()
    except SystemExit as ended:
        if termination.has_come and ended.code == command_line.EXIT_INTERRUPTED:
            sys.exit(EXIT_TERMINATED)
        raise


class _Termination:
    """The first SIGTERM does what Ctrl-C does, and a second one ends the process at once."""

    def __init__(self) -> None:
        self.has_come = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.has_come:
            _end(number, frame)
        self.has_come = True
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # it is ignored
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)  # while an event loop runs, its own, which cancels the main task


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_TERMINATED)


if __name__ == "__main__":
    main()
