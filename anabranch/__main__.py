"""`anabranch` and `python -m anabranch`: the entry point of the command line.

Importing a command takes some tenths of a second. Ctrl-C during that time ends the process like any program; later the
command handles it (see `anabranch.cli.entry`).
"""

import atexit
import gc
import signal
import sys
from importlib import import_module

# What is imported stays. With the collector's default of 700 new objects a quarter of the time of a short command went
# into walks over all of it, the last one when the interpreter ends.
OBJECTS_PER_COLLECTION = 50_000


def main() -> None:
    """Run one command and leave with its exit code."""
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:  # not where a shell has us ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    version = import_module("anabranch.cli.version_answer")
    if version.is_all_that_is_asked(sys.argv[1:]):
        sys.exit(version.answer_alone(sys.argv[1:]))
    command_line = import_module("anabranch.cli.entry")
    signal.signal(signal.SIGINT, interrupt)
    command_line.main()


if __name__ == "__main__":
    main()
